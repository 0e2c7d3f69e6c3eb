# SPDX-License-Identifier: Apache-2.0
"""Where allotd serves pages, and by which names it may be asked."""

import http.client
import subprocess

import cli_lib
import daemon_lib


class Listen(daemon_lib.Case):
    def ask(self, host, at="127.0.0.1"):
        """The status of /v1/node, asked of that name, or with no name."""
        connection = http.client.HTTPConnection(at, self.port, timeout=60)
        self.addCleanup(connection.close)
        connection.putrequest("GET", "/v1/node", skip_host=True)
        if host is not None:
            connection.putheader("Host", host)
        connection.endheaders()
        answer = connection.getresponse()
        self.text = answer.read().decode()
        return answer.status

    def test_other_names(self):
        """A page of another site, whose name leads here, reads nothing: neither names nor commands."""
        self.keep("secret", "--memory", "1GiB")
        self.daemon()
        for host in ("evil.example", f"evil.example:{self.port}", "127.0.0.1.evil.example", "x", "",
                     "192.0.2.1", "localhost.evil.example", "[::1", "[::2]"):
            self.assertEqual(self.ask(host), 421, host)
            self.assertNotIn("secret", self.text)
        self.assertIn("http://localhost", self.text)
        for host in ("localhost", f"LocalHost:{self.port}", "127.0.0.1", f"127.0.0.1:{self.port}",
                     "127.8.8.8", "[::1]", f"[::1]:{self.port}", "localhost:1"):
            self.assertEqual(self.ask(host), 200, host)
            self.assertIn("secret", self.text)

    def test_names_of_other_addresses(self):
        """What is open to others has names that nobody here knows; by loopback it is the same page."""
        self.daemon(options=("--listen", f"0.0.0.0:{self.port}"))
        self.assertEqual(self.ask("0.0.0.0"), 200)
        self.assertEqual(self.ask("evil.example"), 421)
        with open("/proc/net/fib_trie", encoding="ascii") as trie:
            lines = [line.split() for line in trie]
        own = {before[-1] for before, line in zip(lines, lines[1:])
               if line[:3] == ["/32", "host", "LOCAL"] and not before[-1].startswith("127.")}
        if not own:
            self.skipTest("this machine has no other address")
        self.assertEqual(self.ask("node7.example:9478", own.pop()), 200)

    def refuse(self, address):
        done = subprocess.run([daemon_lib.ALLOTD, "--listen", address], env=self.env, text=True,
                              capture_output=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f'--listen "{address}": write an address in numbers and a port from 1 to '
                      "65535", done.stderr)

    def test_ports(self):
        """One that does not fit is another one, which nobody expects: 80000 is 14464."""
        for port in ("80000", "65616", "65536", "0", "-1", "+80", " 80", "0x50", "", "http", "80 "):
            self.refuse(f"127.0.0.1:{port}")

    def test_addresses(self):
        for address in ("127.0.0.1", "localhost:9478", "::1:9478", "[::1]", "[::1:9478", "9478",
                        ":9478", "127.0.0.1:9478:9478", "[127.0.0.1]x:9478"):
            self.refuse(address)


if __name__ == "__main__":
    cli_lib.main()
