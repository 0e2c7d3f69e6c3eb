# SPDX-License-Identifier: Apache-2.0
"""A kubelet as far as device plugins see one, of versions 1.20 and 1.34: see Kubelet."""

import os
import pathlib
import subprocess
import sys
import tempfile
import threading
from concurrent import futures

import grpc

SECONDS = 60  # for a hang


def load_messages():
    """The modules that protoc makes of our description of the kubelet's messages."""
    with tempfile.TemporaryDirectory(prefix="allot-proto-") as folder:
        names = ("deviceplugin", "podresources")
        subprocess.run(["protoc", f"--proto_path={os.environ['PROTO']}", f"--python_out={folder}",
                        *(f"{name}.proto" for name in names)], check=True)
        sys.path.insert(0, folder)
        modules = [__import__(f"{name}_pb2") for name in names]
        sys.path.remove(folder)
    return modules


PLUGIN, PODS = load_messages()


def unary(channel, method, request, answer, timeout=SECONDS):
    call = channel.unary_unary(f"/v1beta1.DevicePlugin/{method}",
                               request_serializer=lambda m: m.SerializeToString(),
                               response_deserializer=answer.FromString)
    return call(request, timeout=timeout)


class Endpoint:
    """A plugin that has registered."""

    def __init__(self, kubelet, request):
        path = kubelet.plugins / request.endpoint
        # Kubelets before 1.26 say the socket's path as :authority.
        options = [("grpc.default_authority", str(path).replace("/", "%2F"))] if kubelet.is_old else []
        self.resource = request.resource_name
        self.kubelet = kubelet
        self.channel = grpc.insecure_channel(f"unix:{path}", options=options)
        grpc.channel_ready_future(self.channel).result(10)
        self.options = request.options
        if not kubelet.is_old:
            self.options = self.ask("GetDevicePluginOptions", PLUGIN.Empty(), PLUGIN.DevicePluginOptions)
        self.devices = {}
        self.lists = 0
        self.ended = False
        self.watch = self.channel.unary_stream(
            "/v1beta1.DevicePlugin/ListAndWatch",
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=PLUGIN.ListAndWatchResponse.FromString)(PLUGIN.Empty())
        threading.Thread(target=self.listen, daemon=True).start()

    def ask(self, method, request, answer, timeout=SECONDS):
        return unary(self.channel, method, request, answer, timeout)

    def listen(self):
        try:
            for message in self.watch:
                with self.kubelet.changed:
                    self.devices = {d.ID: d for d in message.devices}
                    self.lists += 1
                    self.kubelet.changed.notify_all()
        except grpc.RpcError:
            pass
        with self.kubelet.changed:
            self.ended = True
            self.kubelet.changed.notify_all()

    def healthy(self):
        return {name for name, d in self.devices.items() if d.health == "Healthy"}

    def close(self):
        self.watch.cancel()
        self.channel.close()


class Handler(grpc.GenericRpcHandler):
    def __init__(self, methods):
        self.methods = methods

    def service(self, details):
        handler = self.methods.get(details.method)
        return handler and grpc.unary_unary_rpc_method_handler(
            handler[0], request_deserializer=handler[1].FromString,
            response_serializer=lambda m: m.SerializeToString())


class Kubelet:
    """Its directory, what is registered, and its Pods: {(namespace, pod): {container: {resource: [ids]}}}."""

    def __init__(self, folder, version="1.34"):
        self.folder = pathlib.Path(folder)
        self.is_old = version == "1.20"
        self.plugins = self.folder / "device-plugins"
        self.plugins.mkdir(exist_ok=True)
        (self.folder / "pod-resources").mkdir(exist_ok=True)
        self.changed = threading.Condition()
        self.endpoints = {}
        self.registrations = 0
        self.pods = {}
        self.daemons = ["network-x7k2p"]  # Pods that each node has, of no device
        self.claims = {}  # {(namespace, pod, container): [(driver, device, names of CDI devices ...)]}
        self.lists = self.listing = self.most_listing = 0
        self.slow = 0.0  # seconds that List takes
        self.too_many = 0  # Lists that are refused, as of one who asks too often
        self.servers = []
        self.refuse = None  # words for Register

    # --- What it serves

    def register(self, request, context):
        """Answered when it has dialled back, as the real one does."""
        if self.refuse:
            context.abort(grpc.StatusCode.UNKNOWN, self.refuse)
        if request.version != "v1beta1":
            context.abort(grpc.StatusCode.UNKNOWN, "requested API version is not supported")
        endpoint = Endpoint(self, request)
        with self.changed:
            old = self.endpoints.get(request.resource_name)
            self.endpoints[request.resource_name] = endpoint
            self.registrations += 1
            self.changed.notify_all()
        if old:
            old.close()
        return PLUGIN.Empty()

    def list_pods(self, request, context):
        with self.changed:
            self.lists += 1
            refused, self.too_many = self.too_many > 0, self.too_many - 1
        if refused:
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
        with self.changed:
            self.listing += 1
            self.most_listing = max(self.most_listing, self.listing)
            self.changed.notify_all()
            answer = PODS.ListPodResourcesResponse()
            for name in self.daemons:
                answer.pod_resources.add(name=name, namespace="kube-system").containers.add(name="main")
            for (namespace, name), containers in self.pods.items():
                pod = answer.pod_resources.add(name=name, namespace=namespace)
                for container, resources in containers.items():
                    c = pod.containers.add(name=container)
                    for resource, ids in resources.items():
                        # In parts, as of devices on several NUMA nodes.
                        for i in range(0, len(ids), 3):
                            c.devices.add(resource_name=resource, device_ids=ids[i:i + 3])
                    for driver, device, *cdi in self.claims.get((namespace, name, container), []):
                        given = c.dynamic_resources.add().claim_resources.add(driver_name=driver,
                                                                              device_name=device)
                        for cdi_name in cdi:
                            given.cdi_devices.add(name=cdi_name)
        if self.slow:
            threading.Event().wait(self.slow)
        with self.changed:
            self.listing -= 1
        return answer

    def serve(self, path, methods):
        server = grpc.server(futures.ThreadPoolExecutor(8), handlers=[Handler(methods)])
        assert server.add_insecure_port(f"unix:{path}")
        server.start()
        self.servers.append(server)

    def serve_pods(self):
        self.serve(self.folder / "pod-resources/kubelet.sock",
                   {"/v1.PodResourcesLister/List": (self.list_pods, PODS.ListPodResourcesRequest)})

    def start(self, settled=False):
        """`settled`: it looks as if it had started long ago."""
        for socket in self.plugins.iterdir():
            socket.unlink()
        self.serve_pods()
        self.serve(self.plugins / "kubelet.sock",
                   {"/v1beta1.Registration/Register": (self.register, PLUGIN.RegisterRequest)})
        if settled:
            self.settle()

    def settle(self, began=1):
        os.utime(self.plugins / "kubelet.sock", (began, began))

    def stop(self):
        for endpoint in self.endpoints.values():
            endpoint.close()
        self.endpoints = {}
        for server in self.servers:
            server.stop(0).wait()
        self.servers = []

    # --- What it asks

    def wait(self, condition, why):
        with self.changed:
            assert self.changed.wait_for(condition, SECONDS), why

    def wait_registered(self, resources, devices=1):
        """All of them, and each has told its devices."""
        self.wait(lambda: all(r in self.endpoints and len(self.endpoints[r].devices) >= devices
                              for r in resources), f"registered: {[*self.endpoints]}")

    def used(self, resource):
        return {i for containers in self.pods.values() for resources in containers.values()
                for i in resources.get(resource, [])}

    def choose(self, resource, n):
        endpoint = self.endpoints[resource]
        free = endpoint.healthy() - self.used(resource)
        assert len(free) >= n, f"{n} of {resource}, of which {len(free)} are free"
        if not endpoint.options.get_preferred_allocation_available:
            return [*free][:n]
        request = PLUGIN.PreferredAllocationRequest()
        request.container_requests.add(available_deviceIDs=free, allocation_size=n)
        answer = endpoint.ask("GetPreferredAllocation", request, PLUGIN.PreferredAllocationResponse)
        ids = [*answer.container_responses[0].deviceIDs]
        assert len({*ids}) == n and {*ids} <= free, ids
        return ids

    def admit(self, namespace, pod, containers):
        """Allocates for {container: {resource: how many}}; returns {container: AllocateResponse of slots}."""
        chosen, answers = {}, {}
        with self.changed:
            self.pods[namespace, pod] = chosen
        for container, wanted in containers.items():
            ids = {}
            for resource, n in wanted.items():
                ids[resource] = self.choose(resource, n)
                request = PLUGIN.AllocateRequest()
                request.container_requests.add(devices_ids=ids[resource])
                answer = self.endpoints[resource].ask("Allocate", request, PLUGIN.AllocateResponse)
                answers.setdefault(container, {})[resource] = answer.container_responses[0]
                with self.changed:
                    chosen[container] = {**chosen.get(container, {}), resource: ids[resource]}
        return answers

    def start_container(self, namespace, pod, container, timeout=SECONDS):
        for resource, ids in self.pods[namespace, pod][container].items():
            if self.endpoints[resource].options.pre_start_required:
                request = PLUGIN.PreStartContainerRequest(devices_ids=ids)
                self.endpoints[resource].ask("PreStartContainer", request,
                                             PLUGIN.PreStartContainerResponse, timeout)

    def delete(self, namespace, pod):
        with self.changed:
            del self.pods[namespace, pod]
