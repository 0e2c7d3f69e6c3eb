# SPDX-License-Identifier: Apache-2.0
"""A way to a server that can be closed: what comes meanwhile is kept until it is open again."""

import contextlib
import socket
import threading


class Proxy:
    def __init__(self, host, port, at=("127.0.0.1", 0)):
        self.server = (host, port)
        self.open = threading.Event()
        self.open.set()
        self.listener = socket.create_server(at)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def hang(self):
        self.open.clear()

    def go_on(self):
        self.open.set()

    def close(self):
        self.open.set()
        self.listener.close()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        with client, socket.create_connection(self.server) as server:
            back = threading.Thread(target=self.carry, args=(server, client), daemon=True)
            back.start()
            self.carry(client, server)
            back.join()

    def carry(self, come_from, go_to):
        """Until either end is closed, which closes both."""
        with contextlib.suppress(OSError):
            while what := come_from.recv(65536):
                self.open.wait()
                go_to.sendall(what)
        for end in (come_from, go_to):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
