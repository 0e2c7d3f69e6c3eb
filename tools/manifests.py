#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Looks at deploy/kubernetes and examples/kubernetes.

    tools/manifests.py            run the checks
    tools/manifests.py --write    write the alerts' object from deploy/prometheus/allot.rules.yml

Every file parses and is used, every name that one object says of another is there, rights are no more
than what is called, allotd takes each configuration ($ALLOTD, where it is built), `kubectl kustomize`
builds each overlay, the newest types of Kubernetes decode every object strictly, and the policies allow
what they should, where kubectl and Debian's golang-k8s-api-dev (0.34 or newer) and
golang-github-google-cel-go-dev are there.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import yaml
except ImportError:
    print("skipped: PyYAML is not installed (Debian's package python3-yaml)")
    sys.exit(77)

ROOT = Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy" / "kubernetes"
EXAMPLES = ROOT / "examples" / "kubernetes"
RULES = ROOT / "deploy" / "prometheus" / "allot.rules.yml"
RULES_OBJECT = DEPLOY / "overlays" / "monitoring" / "rules.yaml"
NAMESPACE = "allot-system"
OF_CLUSTER = {"Namespace", "ClusterRole", "ClusterRoleBinding", "DeviceClass", "ValidatingAdmissionPolicy",
              "ValidatingAdmissionPolicyBinding"}
WAYS = ("dra", "device-plugin", "volcano", "hami")
GO_TYPES = "k8s.io/api/resource/v1/types.go"

# What allotd asks the API server for in each overlay; nothing else may be allowed.
RIGHTS = {
    "dra": {("resource.k8s.io", "resourceclaims"): {"get"},
            ("resource.k8s.io", "resourceslices"): {"list", "watch", "create", "update", "delete"},
            ("", "nodes"): {"get"}},
    "device-plugin": {},
    "volcano": {("", "pods"): {"get", "patch"}, ("", "nodes"): {"get", "patch"}},
    "hami": {("", "pods"): {"get", "patch"}, ("", "nodes"): {"get", "patch"}},
}
# Names that the schedulers of an overlay know, and no kubelet.
OF_SCHEDULERS = {"nvidia.com/gpumem", "nvidia.com/gpucores"}


class Loader(yaml.SafeLoader):
    """A key that is there twice is an error, as it is for Kubernetes."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        if len(keys) != len(set(keys)):
            raise yaml.YAMLError(f"a key is there twice: {node.start_mark}")
        return super().construct_mapping(node, deep)


def load(path):
    return [o for o in yaml.load_all(path.read_text(encoding="utf-8"), Loader) if o]


def rules_text():
    text = RULES.read_text(encoding="utf-8")
    groups = text[text.index("groups:"):].splitlines(True)
    return ("# SPDX-License-Identifier: Apache-2.0\n"
            '# Written by "tools/manifests.py --write" from deploy/prometheus/allot.rules.yml.\n'
            "apiVersion: monitoring.coreos.com/v1\n"
            "kind: PrometheusRule\n"
            "metadata:\n"
            "  name: allotd\n"
            f"  namespace: {NAMESPACE}\n"
            "spec:\n" + "".join("  " + line if line.strip() else line for line in groups))


def kustomization(folder):
    return load(folder / "kustomization.yaml")[0]


def files_of(folder):
    """The files that a kustomization names, with those of the folders that it names."""
    told = kustomization(folder)
    files = {folder / "kustomization.yaml"}
    for name in told.get("resources", []) + told.get("components", []):
        path = (folder / name).resolve()
        files |= files_of(path) if path.is_dir() else {path}
    for generator in told.get("configMapGenerator", []):
        files |= {folder / name for name in generator["files"]}
    return files


def objects_of(overlay):
    return [o for path in sorted(files_of(DEPLOY / "overlays" / overlay))
            if path.suffix == ".yaml" and path.name != "kustomization.yaml" for o in load(path)]


def of_kind(objects, kind):
    return {o["metadata"]["name"]: o for o in objects if o["kind"] == kind}


def conf(overlay, key):
    text = (DEPLOY / "overlays" / overlay / "allotd.conf").read_text(encoding="utf-8")
    return re.findall(rf"^{key} = (.*)$", text, re.M)


def kustomize(folder):
    done = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(done.stderr)
    return done.stdout


def why_no_kustomize():
    if not shutil.which("kubectl"):
        return "kubectl is not installed"
    told = subprocess.run(["kubectl", "version", "--client"], capture_output=True, text=True,
                          check=False).stdout
    if "Kustomize Version" not in told:
        return "kubectl is older than 1.24, and its kustomize does not know these files"
    return None


NO_KUSTOMIZE = why_no_kustomize()
GOPATH = os.environ.get("GOPATH", "/usr/share/gocode")


class Files(unittest.TestCase):
    def test_all_parse_and_are_used(self):
        used = set()
        for folder in DEPLOY.glob("*/**/kustomization.yaml"):
            used |= files_of(folder.parent)
        self.assertEqual(set(DEPLOY.rglob("*.yaml")) | set(DEPLOY.rglob("*.conf")), used)
        for path in used:
            self.assertTrue(path.suffix == ".conf" or load(path), path)

    def test_alerts_are_those_of_prometheus(self):
        self.assertEqual(RULES_OBJECT.read_text(encoding="utf-8"), rules_text(),
                         "tools/manifests.py --write")
        self.assertEqual(load(RULES_OBJECT)[0]["spec"], load(RULES)[0])

    def test_configurations(self):
        if "ALLOTD" not in os.environ:
            self.skipTest("$ALLOTD is not set")
        for way in WAYS:
            path = DEPLOY / "overlays" / way / "allotd.conf"
            done = subprocess.run([os.environ["ALLOTD"], "--check", "--config", path],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, f"{path}: {done.stdout}{done.stderr}")


class Names(unittest.TestCase):
    def test_rights(self):
        for way in WAYS:
            objects = objects_of(way)
            allowed = {}
            for role in of_kind(objects, "ClusterRole").values():
                for rule in role["rules"]:
                    for group in rule["apiGroups"]:
                        for resource in rule["resources"]:
                            allowed.setdefault((group, resource), set()).update(rule["verbs"])
            self.assertEqual(allowed, RIGHTS[way], way)

    def test_bindings(self):
        for way in WAYS:
            objects = objects_of(way)
            accounts = of_kind(objects, "ServiceAccount")
            roles = of_kind(objects, "ClusterRole")
            bound = of_kind(objects, "ClusterRoleBinding").values()
            self.assertEqual({b["roleRef"]["name"] for b in bound}, set(roles))
            for binding in bound:
                for subject in binding["subjects"]:
                    self.assertIn(subject["name"], accounts)
                    self.assertEqual(subject["namespace"], NAMESPACE)
            policies = of_kind(objects, "ValidatingAdmissionPolicy")
            self.assertEqual({b["spec"]["policyName"] for b in of_kind(
                objects, "ValidatingAdmissionPolicyBinding").values()}, set(policies))
            for policy in policies.values():
                self.assertIn('"system:serviceaccount:allot-system:allotd"',
                              policy["spec"]["matchConditions"][0]["expression"])

    def test_rights_to_write_are_held_to_the_node(self):
        for way in WAYS:
            writes = {resource for (_, resource), verbs in RIGHTS[way].items()
                      if verbs & {"create", "update", "patch", "delete"}}
            held = {resource for policy in of_kind(objects_of(way), "ValidatingAdmissionPolicy").values()
                    for rule in policy["spec"]["matchConstraints"]["resourceRules"]
                    for resource in rule["resources"]}
            self.assertEqual(held, writes, way)

    def test_daemon_set(self):
        for way in WAYS:
            objects = objects_of(way)
            spec = of_kind(objects, "DaemonSet")["allotd"]["spec"]["template"]["spec"]
            container = spec["containers"][0]
            self.assertIn(spec["serviceAccountName"], of_kind(objects, "ServiceAccount"))
            self.assertNotIn("hostPID", spec)
            self.assertFalse(container["securityContext"]["privileged"])
            self.assertEqual({v["name"] for v in spec["volumes"]},
                             {m["name"] for m in container["volumeMounts"]})
            generated = {g["name"] for g in kustomization(
                DEPLOY / "overlays" / way)["configMapGenerator"]}
            self.assertEqual({v["configMap"]["name"] for v in spec["volumes"] if "configMap" in v},
                             generated)
            # What CDI files and the kubelet name has the same path on both sides.
            paths = {v["name"]: v["hostPath"]["path"] for v in spec["volumes"] if "hostPath" in v}
            for mount in container["volumeMounts"]:
                self.assertEqual(paths.get(mount["name"], mount["mountPath"]), mount["mountPath"])

    def test_monitoring(self):
        objects = objects_of("monitoring")
        daemon = of_kind(objects_of("dra"), "DaemonSet")["allotd"]["spec"]["template"]
        ports = {p["name"]: p["containerPort"] for p in daemon["spec"]["containers"][0]["ports"]}
        monitor = of_kind(objects, "PodMonitor")["allotd"]["spec"]
        self.assertEqual(monitor["selector"]["matchLabels"], daemon["metadata"]["labels"])
        for endpoint in monitor["podMetricsEndpoints"]:
            self.assertIn(endpoint["port"], ports)
        args = daemon["spec"]["containers"][0]["args"]
        self.assertTrue(args[args.index("--listen") + 1].endswith(f":{ports['metrics']}"))

    def test_driver(self):
        driver = conf("dra", "driver")[0]
        objects = objects_of("dra")
        for device_class in of_kind(objects, "DeviceClass").values():
            for selector in device_class["spec"]["selectors"]:
                self.assertIn(f'device.driver == "{driver}"', selector["cel"]["expression"])
        policy = of_kind(objects, "ValidatingAdmissionPolicy")["allotd-resourceslices"]
        self.assertIn(f'"{driver}"', str(policy["spec"]["validations"]))


class Examples(unittest.TestCase):
    def setUp(self):
        self.objects = [o for path in sorted(EXAMPLES.glob("*.yaml")) for o in load(path)]
        self.classes = of_kind(objects_of("dra"), "DeviceClass")
        self.driver = conf("dra", "driver")[0]

    def test_resources_are_offered(self):
        offered = {text.split()[0] for way in WAYS for text in conf(way, "resource")}
        offered |= {c["spec"]["extendedResourceName"] for c in self.classes.values()
                    if "extendedResourceName" in c["spec"]}
        for pod in of_kind(self.objects, "Pod").values():
            for container in pod["spec"]["containers"]:
                for name in container["resources"].get("limits", {}):
                    self.assertIn(name, offered | OF_SCHEDULERS)

    def test_claims(self):
        templates = of_kind(self.objects, "ResourceClaimTemplate")
        for pod in of_kind(self.objects, "Pod").values():
            claims = {c["name"]: c for c in pod["spec"].get("resourceClaims", [])}
            used = {c["name"] for container in pod["spec"]["containers"]
                    for c in container["resources"].get("claims", [])}
            self.assertEqual(set(claims), used)
            for claim in claims.values():
                self.assertIn(claim["resourceClaimTemplateName"], templates)

    def requests(self):
        for template in of_kind(self.objects, "ResourceClaimTemplate").values():
            devices = template["spec"]["spec"]["devices"]
            names = {r["name"] for r in devices["requests"]}
            for config in devices.get("config", []):
                self.assertLessEqual(set(config["requests"]), names)
                self.assertEqual(config["opaque"]["driver"], self.driver)
            for request in devices["requests"]:
                yield from [request["exactly"]] if "exactly" in request else request["firstAvailable"]

    def test_requests(self):
        for request in self.requests():
            self.assertIn(request["deviceClassName"], self.classes)
            self.assertEqual(set(request["capacity"]["requests"]), {"memory", "cores"})
            for selector in request.get("selectors", []):
                self.assertIn(f'device.capacity["{self.driver}"]', selector["cel"]["expression"])


@unittest.skipIf(NO_KUSTOMIZE, NO_KUSTOMIZE)
class Kustomize(unittest.TestCase):
    def test_overlays(self):
        for way in WAYS:
            built = list(yaml.load_all(kustomize(DEPLOY / "overlays" / way), Loader))
            daemon = of_kind(built, "DaemonSet")["allotd"]["spec"]["template"]["spec"]
            volumes = {v["name"]: v for v in daemon["volumes"]}
            self.assertIn(volumes["config"]["configMap"]["name"], of_kind(built, "ConfigMap"))
            self.assertEqual(daemon["automountServiceAccountToken"], bool(RIGHTS[way]))

    def test_namespaces(self):
        """Said in each file: kustomize does not know which of the new kinds have none."""
        for overlay in (*WAYS, "monitoring"):
            for o in yaml.load_all(kustomize(DEPLOY / "overlays" / overlay), Loader):
                self.assertEqual(o["metadata"].get("namespace"),
                                 None if o["kind"] in OF_CLUSTER else NAMESPACE, o["kind"])

    def test_components(self):
        components = [p.parent for p in (DEPLOY / "components").glob("*/kustomization.yaml")]
        self.assertTrue(components)
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(shutil.copytree(DEPLOY, f"{folder}/kubernetes"))
            told = {"resources": ["../overlays/dra"],
                    "components": [f"../components/{c.name}" for c in components]}
            (copy / "site").mkdir()
            (copy / "site" / "kustomization.yaml").write_text(yaml.dump(told), encoding="utf-8")
            built = list(yaml.load_all(kustomize(copy / "site"), Loader))
        spec = of_kind(built, "DaemonSet")["allotd"]["spec"]["template"]["spec"]
        self.assertTrue(spec["hostPID"])
        self.assertEqual(spec["runtimeClassName"], "nvidia")
        self.assertIn("SYS_PTRACE", spec["containers"][0]["securityContext"]["capabilities"]["add"])


def has_go(path):
    return shutil.which("go") and glob.glob(f"{GOPATH}/src/{path}")


class Go(unittest.TestCase):
    """Programs of tools/*.go, of Debian's packages of Go alone."""

    def build(self, name):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        env = dict(os.environ, GO111MODULE="off", GOTOOLCHAIN="local", GOPATH=GOPATH, GOFLAGS="")
        env.setdefault("GOCACHE", f"{folder.name}/cache")
        subprocess.run(["go", "build", "-o", f"{folder.name}/{name}", ROOT / "tools" / f"{name}.go"],
                       env=env, check=True)
        return f"{folder.name}/{name}"


@unittest.skipUnless(has_go(GO_TYPES), "Kubernetes' types are not installed (golang-k8s-api-dev 0.34 or newer, "
                     "and go)")
class Strict(Go):
    def setUp(self):
        self.strict = self.build("strict")

    def decode(self, text):
        return subprocess.run([self.strict], input=text, capture_output=True, text=True, check=False)

    def test_all(self):
        objects = [o for way in (*WAYS, "monitoring") for o in objects_of(way)]
        objects += [o for path in EXAMPLES.glob("*.yaml") for o in load(path)]
        done = self.decode(yaml.dump_all(objects))
        self.assertEqual(done.returncode, 0, done.stderr)
        passed = done.stdout.count("passed over: monitoring.coreos.com/v1")
        self.assertEqual(done.stdout.count("passed over"), passed)
        self.assertIn(f"decoded: {len(objects) - passed}\n", done.stdout)
        if not NO_KUSTOMIZE:
            for way in WAYS:
                done = self.decode(kustomize(DEPLOY / "overlays" / way))
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_wrong_field_is_found(self):
        pod = load(EXAMPLES / "quarter.yaml")[0]
        pod["spec"]["containers"][0]["limits"] = {}
        self.assertNotEqual(self.decode(yaml.dump(pod)).returncode, 0)


ALLOTD = "system:serviceaccount:allot-system:allotd"
OURS, OTHERS = "gpu.allot.dev", "gpu.nvidia.com"


def request(user=ALLOTD, node="n1", operation="UPDATE"):
    extra = {"authentication.kubernetes.io/node-name": [node]} if node else {}
    return {"operation": operation, "userInfo": {"username": user, "extra": extra}}


def a_slice(node="n1", driver=OURS):
    return {"kind": "ResourceSlice", "metadata": {"name": "s"},
            "spec": {"driver": driver, **({"nodeName": node} if node else {})}}


def a_node(name="n1", **metadata):
    return {"kind": "Node", "metadata": {"name": name, **metadata}, "spec": {"podCIDR": "10.0.0.0/24"}}


def a_pod(node="n1", **metadata):
    return {"kind": "Pod", "metadata": {"name": "p", **metadata}, "spec": {"nodeName": node} if node else {}}


@unittest.skipUnless(has_go("github.com/google/cel-go/cel/cel.go"),
                     "CEL is not installed (golang-github-google-cel-go-dev, and go)")
class Policies(Go):
    def setUp(self):
        self.cel = self.build("cel")

    def evaluate(self, questions):
        done = subprocess.run([self.cel], input=json.dumps(questions), capture_output=True, text=True,
                              check=True)
        return json.loads(done.stdout)

    def allows(self, policy, asked, new, old=None):
        """None: the policy is about somebody else."""
        told = {"object": new, "oldObject": old, "request": asked, "variables": {}}

        def value(expression):
            return self.evaluate([{"expression": expression, "input": told}])[0]

        if not all(value(c["expression"]) for c in policy["spec"]["matchConditions"]):
            return None
        for variable in policy["spec"]["variables"]:
            told["variables"][variable["name"]] = value(variable["expression"])
        verdict = True
        for rule in policy["spec"]["validations"]:
            held = value(rule["expression"])
            self.assertIn(held, (True, False), rule)
            if not held and "messageExpression" in rule:
                self.assertIsInstance(value(rule["messageExpression"]), str)
            verdict = verdict and held
        return verdict

    def test_slices(self):
        policy = of_kind(objects_of("dra"), "ValidatingAdmissionPolicy")["allotd-resourceslices"]
        for allowed, asked, new, old in (
                (True, request(operation="CREATE"), a_slice(), None),
                (True, request(), a_slice(), a_slice()),
                (True, request(operation="DELETE"), None, a_slice()),
                (False, request(operation="CREATE"), a_slice("n2"), None),
                (False, request(operation="CREATE"), a_slice(None), None),
                (False, request(operation="DELETE"), None, a_slice("n2")),
                (False, request(), a_slice(driver=OTHERS), a_slice(driver=OTHERS)),
                (False, request(node=None), a_slice(), a_slice()),
                (False, request(node=None), a_slice(None), a_slice(None)),
                (None, request(user="kubernetes-admin", node=None), a_slice("n2", OTHERS), None)):
            self.assertEqual(self.allows(policy, asked, new, old), allowed, (asked, new, old))

    def test_annotations(self):
        some, others = {"annotations": {"a": "1"}}, {"annotations": {"a": "2"}}
        for way in ("volcano", "hami"):
            policy = of_kind(objects_of(way), "ValidatingAdmissionPolicy")["allotd-annotations"]
            for allowed, node, new, old in (
                    (True, "n1", a_node(**some), a_node(**others)),
                    (True, "n1", a_pod(**some), a_pod(**others)),
                    (False, "n1", a_node("n2"), a_node("n2")),
                    (False, "n1", a_pod("n2"), a_pod("n2")),
                    (False, "n1", a_pod(None), a_pod(None)),
                    (False, None, a_pod(None), a_pod(None)),
                    (False, "n1", a_node(labels={"a": "1"}), a_node(labels={"a": "2"})),
                    (False, "n1", a_pod(finalizers=["a"]), a_pod()),
                    (False, "n1", a_pod(), a_pod(ownerReferences=[{"uid": "1"}])),
                    (False, "n1", a_pod() | {"spec": {"nodeName": "n1", "a": 1}}, a_pod())):
                self.assertEqual(self.allows(policy, request(node=node), new, old), allowed, (new, old))


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        RULES_OBJECT.write_text(rules_text(), encoding="utf-8")
    else:
        unittest.main()
