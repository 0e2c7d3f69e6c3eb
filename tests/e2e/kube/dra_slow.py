# SPDX-License-Identifier: Apache-2.0
"""The DRA driver with an API server that hangs, and after its sockets were removed: both take their time."""

import os
import shutil
import unittest

import dra_lib
from dra_lib import DRIVER, wait_for

KUBELET_S = 45  # that it waits for an answer


class Slow(dra_lib.Case):
    def test_hanging_server(self):
        """The error is that claim's alone, and comes while the kubelet still waits."""
        claims = [self.api.add() for _ in range(41)]
        good = claims.pop()
        self.api.hanging.update(claim.name for claim in claims)
        many = [self.prepare_later(claim, timeout=KUBELET_S) for claim in claims[1:]]
        both = self.prepare_later(good, claims[0], timeout=KUBELET_S)
        for call, claim in zip(many, claims[1:]):
            self.assertIn("the API server does not answer", call.result().claims[claim.uid].error)
        answer = both.result().claims
        self.assertIn("the API server does not answer", answer[claims[0].uid].error)
        self.assertTrue(all(not self.grants(claim) for claim in claims))
        self.api.hanging.clear()
        self.prepared(good)
        self.prepared(claims[0])

    def test_removed_sockets(self):
        """Somebody empties the kubelet's directory: the driver is there again."""
        paths = [f"{self.kubelet}/plugins/{DRIVER}/dra.sock",
                 f"{self.kubelet}/plugins_registry/{DRIVER}-reg.sock"]
        for name in ("plugins", "plugins_registry"):
            shutil.rmtree(f"{self.kubelet}/{name}")
        wait_for(lambda: all(map(os.path.exists, paths)))
        self.assertIn("they are made again", self.said())
        self.connect()
        self.prepared(self.api.add())


unittest.main()
