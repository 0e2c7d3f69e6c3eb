# SPDX-License-Identifier: Apache-2.0
"""deploy/: alerts go off when they should and not else, and each query of the dashboard has an
answer from allotd's own metrics."""

import json
import os
import re
import shutil
import subprocess
import unittest
import urllib.error
import urllib.request

import cli_lib
import daemon_lib
from cli_lib import GIB, UUID_A

DEPLOY = os.path.join(os.environ["ALLOT_SOURCE"], "deploy")
RULES = os.path.join(DEPLOY, "prometheus", "allot.rules.yml")
DASHBOARD = os.path.join(DEPLOY, "grafana", "allot.json")
PROMTOOL, PROMETHEUS = shutil.which("promtool"), shutil.which("prometheus")
NO_PROMTOOL = "promtool is not installed (Debian's package prometheus)"
NODE = 'job="gpu",instance="n1:9478"'
GPU1, GPU2 = f'{NODE},device="GPU-1"', f'{NODE},device="GPU-2"'
POD = 'namespace="default",pod="web-0",container="main",uid="5cd0"'
OUTSIDER = f'{GPU1},pid="7",user="u",command="c",container=""'


def of(tenant):
    return f'tenant="{tenant}",{GPU1}'


# Each alert: the labels of what fires, and when it does. Twenty minutes, a scrape each minute. Series
# that must not fire stand beside those that do.
SERIES = {
    f'up{{{NODE}}}': "1x20",
    f'allot_build_info{{{NODE},version="1"}}': "1x20",
    # Under a cap; and alone under --policy share, which has no cap.
    f"allot_compute_cap_ratio{{{of('fast')}}}": "0.25x20",
    f"allot_compute_had_ratio{{{of('fast')}}}": "0.31x20",
    f"allot_compute_cap_ratio{{{of('slow')}}}": "0.25x20",
    f"allot_compute_had_ratio{{{of('slow')}}}": "0.26x20",
    f"allot_compute_share_ratio{{{of('lone')}}}": "0.25x20",
    f"allot_compute_target_ratio{{{of('lone')}}}": "0.25x20",
    f"allot_compute_had_ratio{{{of('lone')}}}": "1x20",
    f'allot_outside_memory_bytes{{{OUTSIDER},tenant=""}}': "_x2 1024x4 stale",
    f'allot_outside_memory_bytes{{{OUTSIDER},tenant="around"}}': "_x2 1024x10 stale",
    f'allot_memory_quota_bytes{{{of("lowered")}}}': "100x5 10x14",
    f'allot_memory_used_bytes{{{of("lowered")},category="data"}}': "40x20",
    f'allot_memory_used_bytes{{{of("lowered")},category="context"}}': "40x20",
    f'allot_memory_quota_bytes{{{of("full")}}}': "80x20",
    f'allot_memory_used_bytes{{{of("full")},category="data"}}': "80x20",
    f'allot_tenant_readable{{tenant="a",{NODE}}}': "1x20",
    f'allot_tenant_readable{{tenant="broken",{NODE}}}': "0x20",
    f'allot_memory_denied_total{{{of("refused")}}}': "0+3x20",
    f'allot_memory_denied_total{{{of("once")}}}': "0x5 9x14",
    f"allot_device_lost{{{GPU1}}}": "0x20",
    f"allot_device_lost{{{GPU2}}}": "0x10 1x9",
    f'allot_device_health{{device_uuid="GPU-1",{NODE}}}': "1x20",
    f'allot_device_health{{device_uuid="GPU-2",{NODE}}}': "1x10 0x4 1x4",
    f"allot_audit_age_seconds{{{NODE}}}": "0.5x10 100x9",
    f"allot_unenforced_containers{{{POD},{NODE}}}": "_x5 1x6 stale",
    f'allot_unenforced_containers{{{POD.replace("web-0", "for-a-moment")},{NODE}}}': "_x5 1x0 stale",
}
AROUND = f'tenant="around",{GPU1}'
ALERTS = {
    "AllotAway": {},
    "AllotNowhere": {},
    "AllotProcessNotLimited": {f'{OUTSIDER},severity="warning"': (3, 6)},
    "AllotUnenforced": {f'{AROUND},severity="warning"': (7, 12),
                        f'{of("lowered")},severity="warning"': (11, 20)},
    "AllotTenantUnreadable": {f'tenant="broken",{NODE},severity="warning"': (5, 20)},
    "AllotTenantRefused": {f'{of("refused")},severity="warning"': (16, 20)},
    "AllotShareNotHeld": {f'{of("fast")},severity="warning"': (5, 20)},
    "AllotContainerNotHeld": {f'{POD},{NODE},severity="critical"': (6, 11)},
    "AllotDeviceLost": {f'{GPU2},severity="critical"': (12, 20)},
    "AllotDeviceSick": {f'device_uuid="GPU-2",{NODE},severity="warning"': (12, 15)},
    "AllotAuditBlind": {f'{NODE},severity="critical"': (12, 20)},
}
# When the only one goes away: its target is there and does not answer.
AWAY = {f'up{{{NODE}}}': "1x5 0x14", f'allot_build_info{{{NODE},version="1"}}': "1x5 stale",
        'up{job="other",instance="n2:9100"}': "0x20"}
AWAY_ALERTS = {"AllotAway": {f'{NODE},severity="critical"': (8, 20)},
               "AllotNowhere": {'severity="critical"': (11, 20)}}


def promtool_test(series, alerts):
    """Each alert at each minute: what fires is what is said here, and nothing else."""
    def firing(name, labels):
        return f'ALERTS{{alertname="{name}",alertstate="firing",{labels}}}'
    return {
        "interval": "1m",
        "input_series": [{"series": s, "values": v} for s, v in series.items()],
        "promql_expr_test": [
            {"expr": f'ALERTS{{alertname="{name}", alertstate="firing"}}', "eval_time": f"{minute}m",
             "exp_samples": [{"labels": firing(name, labels), "value": 1}
                             for labels, (begins, ends) in fires.items()
                             if begins <= minute <= ends]}
            for name, fires in alerts.items() for minute in range(20)]}


def queries():
    with open(DASHBOARD, encoding="utf-8") as file:
        for panel in json.load(file)["panels"]:
            for target in panel["targets"]:
                expr = target["expr"]
                for name in ("$instance", "$tenant", "$device"):
                    expr = expr.replace(name, ".*")
                # At a scrape each minute Grafana has four or more.
                yield (panel["title"], expr.replace("$__rate_interval", "5m"))


def labels_of(query):
    """Those of a tenant's series, or what a sum leaves of them."""
    by = re.match(r"sum by \(([\w,]+)\)", query)
    labels = of("a").split(",")
    return ",".join(x for x in labels if not by or x.split("=")[0] in by[1].split(","))


class Rules(daemon_lib.Case):
    def promtool(self, *args):
        done = subprocess.run([PROMTOOL, *args], text=True, capture_output=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def promtool_tests(self, *tests):
        self.promtool("test", "rules", self.path("t.json", json.dumps(
            {"rule_files": [RULES], "evaluation_interval": "1m", "tests": tests})))

    @unittest.skipUnless(PROMTOOL, NO_PROMTOOL)
    def test_alerts(self):
        self.promtool("check", "rules", RULES)
        self.promtool_tests(promtool_test(SERIES, ALERTS), promtool_test(AWAY, AWAY_ALERTS))

    def test_alerts_name_what_they_are_about(self):
        """Each alert is tried, and has the labels that its words name."""
        with open(RULES, encoding="utf-8") as file:
            rules = file.read().split("- alert: ")[1:]
        self.assertEqual(sorted(r.split()[0] for r in rules), sorted(ALERTS))
        for rule in rules:
            name = rule.split()[0]
            for labels in {**ALERTS, **{k: v for k, v in AWAY_ALERTS.items() if v}}[name]:
                for used in re.findall(r"\$labels\.(\w+)", rule):
                    with self.subTest(name, label=used):
                        self.assertRegex(labels, rf'\b{used}="[^"]+"')

    def test_the_dashboard_is_of_the_instances_chosen(self):
        with open(DASHBOARD, encoding="utf-8") as file:
            dashboard = json.load(file)
        self.assertEqual([v["name"] for v in dashboard["templating"]["list"]],
                         ["source", "instance", "device", "tenant"])
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                for metric in re.findall(r"allot_\w+(.{22})", target["expr"]):
                    self.assertEqual(metric, '{instance=~"$instance"', panel["title"])
                self.assertNotRegex(target["expr"], r"rate\([^[]*\[\d")
        self.assertEqual(len({panel["id"] for panel in dashboard["panels"]}),
                         len(dashboard["panels"]))

    @unittest.skipUnless(PROMTOOL, NO_PROMTOOL)
    def test_rates_at_a_scrape_each_minute(self):
        """A rate needs two samples in its window: none of the dashboard's is empty."""
        rates = [query for _, query in queries() if "rate(" in query]
        names = {name for query in rates for name in re.findall(r"rate\((\w+)", query)}
        self.assertTrue(names)
        self.promtool_tests({
            "interval": "1m",
            "input_series": [{"series": f"{name}{{{of('a')}}}", "values": "0+60x20"}
                             for name in names],
            "promql_expr_test": [
                {"expr": query, "eval_time": "15m30s",
                 "exp_samples": [{"labels": f"{{{labels_of(query)}}}", "value": query.count("rate(")}]}
                for query in rates]})

    def ask(self, port, query):
        url = f"http://127.0.0.1:{port}/api/v1/query?query={urllib.request.quote(query)}"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            if error.code == 400:  # else it is about to start
                raise AssertionError(f"{query}: {error.read().decode()}") from error
            return []
        except OSError:
            return []

    @unittest.skipUnless(PROMETHEUS, "prometheus is not installed")
    def test_dashboard(self):
        self.living("a", "--memory", "8GiB", "--compute", "25")
        self.hold("a", f"{UUID_A}:data:{GIB}", f"{UUID_A}:refuse:{GIB}")
        self.env.update(ALLOT_SIM_DIR=os.path.join(self.tmp, "sim"), ALLOT_SIM_CONTEXT="16MiB",
                        LD_LIBRARY_PATH=os.environ["SIM_LIBRARIES"])
        tenant = self.start(cli_lib.ALLOT, "run", "--memory", "1GiB", "--", os.environ["FILL"], "--json")
        self.assertTrue(tenant.stdout.readline())
        program = self.start(os.environ["FILL"], "--json")
        self.assertTrue(program.stdout.readline())
        self.daemon()
        port = daemon_lib.free_port()
        config = self.path("prometheus.yml", "global: {scrape_interval: 1s}\n"
                           "scrape_configs: [{job_name: allot, static_configs: "
                           f"[{{targets: ['127.0.0.1:{self.port}']}}]}}]\n")
        self.start(PROMETHEUS, f"--config.file={config}", f"--storage.tsdb.path={self.tmp}/tsdb",
                   f"--web.listen-address=127.0.0.1:{port}", stderr=subprocess.DEVNULL)
        for title, query in queries():
            with self.subTest(title):
                cli_lib.wait_for(lambda q=query: self.ask(port, q), 60)


if __name__ == "__main__":
    cli_lib.main()
