# SPDX-License-Identifier: Apache-2.0
"""
list_pods.py SOCKET: what a kubelet's PodResources says, {namespace/pod/container: {resource: [ids]}} as JSON. Exits
77 where Python has no gRPC.
"""

import json
import os
import pathlib
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/e2e/kube"))
os.environ["PROTO"] = str(SOURCE / "src/kube/wire/proto")

from grpcio import grpc  # noqa: E402
from kubelet import PODS, SECONDS  # noqa: E402

found = {}
with grpc.insecure_channel(f"unix:{sys.argv[1]}", options=[("grpc.default_authority", "localhost")]) as channel:
    said = channel.unary_unary("/v1.PodResourcesLister/List",
                               request_serializer=lambda m: m.SerializeToString(),
                               response_deserializer=PODS.ListPodResourcesResponse.FromString)(
                                   PODS.ListPodResourcesRequest(), timeout=SECONDS)
for pod in said.pod_resources:
    for container in pod.containers:
        of = found.setdefault(f"{pod.namespace}/{pod.name}/{container.name}", {})
        for devices in container.devices:
            of.setdefault(devices.resource_name, []).extend(devices.device_ids)
print(json.dumps(found))
