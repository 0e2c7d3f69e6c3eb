# SPDX-License-Identifier: Apache-2.0
"""from grpcio import grpc: the program goes on by a Python that has gRPC and protobuf, or exits 77 with the reason."""

import os
import sys

DEBIAN = "/usr/bin/python3"  # whose python3-grpcio it is
try:
    import google.protobuf  # pylint: disable=unused-import
    import grpc
except ImportError:
    if sys.executable != DEBIAN and os.access(DEBIAN, os.X_OK) and "AGAIN" not in os.environ:
        os.execve(DEBIAN, [DEBIAN, *sys.argv], {**os.environ, "AGAIN": "1"})
    print("python3-grpcio or python3-protobuf is not installed")
    sys.exit(77)
