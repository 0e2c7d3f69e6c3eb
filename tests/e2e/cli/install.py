# SPDX-License-Identifier: Apache-2.0
"""meson install, into a place that nobody was told of: allot finds its libraries there."""

import glob
import os
import shutil
import subprocess
import sys

import cli_lib


PEER = r"""
#include <allot/peer.h>
#include <stdio.h>

int main(void)
{
    struct allot_peer_request what = {.bytes = 64 << 20};
    struct allot_peer_object object;
    struct allot_peer *peer;
    uint64_t at;

    if (allot_peer_open(ALLOT_PEER_AMD, &peer) < 0 ||
        allot_peer_alloc(peer, &what, &at) < 0 ||
        allot_peer_map(peer, at, ALLOT_PEER_ALL) < 0 ||
        allot_peer_find(peer, at, &object) < 0) {
        puts(allot_peer_error());
        return 0;
    }
    printf("%u devices, mapped to %#llx\n", (unsigned)allot_peer_device_count(peer),
           (unsigned long long)object.devices);
    allot_peer_close(peer);
    return 0;
}
"""

TENANT = r"""
#include <allot/tenant.h>
#include <stdio.h>

int main(void)
{
    struct allot_tenant_device device = {.size = sizeof(device)};
    struct allot_tenant_state state = {.size = sizeof(state)};
    struct allot_tenant *tenant;

    if (allot_tenant_open(&tenant) || allot_tenant_get(tenant, &state) ||
        allot_tenant_get_device(tenant, 0, &device))
        return 1;
    printf("%s: %llu bytes of %u devices\n", state.name, (unsigned long long)device.limit_bytes,
           (unsigned)state.devices);
    allot_tenant_close(tenant);
    return 0;
}
"""


class Install(cli_lib.Case):
    def test_installed_tree(self):
        subprocess.run([os.path.join(os.environ["ALLOT_SOURCE"], "tools", "meson"), "install",
                        "--no-rebuild", "-C", os.environ["ALLOT_BUILD"],
                        "--destdir", self.path("dest")],
                       check=True, capture_output=True, timeout=100)
        (installed,) = glob.glob(self.path("dest/**/bin/allot"), recursive=True)
        prefix = self.path("moved")
        shutil.move(os.path.dirname(os.path.dirname(installed)), prefix)
        cli_lib.ALLOT = os.path.join(prefix, "bin", "allot")

        self.assertTrue(glob.glob(f"{prefix}/lib*/**/liballot.so", recursive=True))
        library = self.ok("run", "--", "sh", "-c", "echo $LD_PRELOAD").strip()
        self.assertTrue(library.startswith(prefix), library)
        out = self.ok("sim", "--", cli_lib.ALLOT, "doctor")
        self.assertIn(f"{os.path.normpath(library)} can be preloaded", out)
        self.assertIn("GPU 0: ", out)
        if shutil.which("scdoc"):
            pages = {os.path.basename(page) for page in glob.glob(f"{prefix}/share/man/man*/*")}
            for page in ("allot.1", "allot-run.1", "allot_peer.3", "allot_tenant.3", "liballot.7"):
                self.assertTrue(any(p.startswith(page) for p in pages), pages)
        if shutil.which("pkg-config"):
            program = self.build(prefix, "peer", PEER)
            out = self.ok("sim", "--amd", "3", "--memory", "1GiB", "--", program)
            self.assertEqual(out, "3 devices, mapped to 0x7\n")
            program = self.build(prefix, "tenant", TENANT)
            out = self.ok("sim", "--gpus", "2", "--", cli_lib.ALLOT, "run", "--name", "asks",
                          "--gpu", "1", "--memory", "1GiB", "--", program)
            self.assertEqual(out, "asks: 1073741824 bytes of 1 devices\n")
        (module,) = glob.glob(f"{prefix}/**/allot_tenant.py", recursive=True)
        self.env["PYTHONPATH"] = os.path.dirname(module)
        (library,) = glob.glob(f"{prefix}/**/liballot-tenant.so.0", recursive=True)
        self.env["LD_LIBRARY_PATH"] = os.path.dirname(library)
        out = subprocess.run([sys.executable, "-c", "import allot_tenant as a; print(a.Tenant().get())"],
                             env=self.env, check=True, capture_output=True, text=True, timeout=100)
        self.assertEqual(out.stdout, "State(no tenant)\n")

    def build(self, prefix, name, text):
        """A program of somebody else's finds header and library by pkg-config."""
        (found,) = glob.glob(f"{prefix}/**/allot-{name}.pc", recursive=True)
        flags = subprocess.run(["pkg-config", f"--define-variable=prefix={prefix}", "--cflags",
                                "--libs", found], check=True, capture_output=True, text=True)
        source, program = self.path(f"{name}.c"), self.path(name)
        with open(source, "w", encoding="ascii") as file:
            file.write(text)
        subprocess.run([os.environ.get("CC", "cc"), "-std=c99", "-Wall", "-Wextra", "-pedantic",
                        "-Werror", "-o", program, source, *flags.stdout.split()], check=True,
                       timeout=100)
        self.env["LD_LIBRARY_PATH"] = os.path.dirname(os.path.dirname(found))
        return program


if __name__ == "__main__":
    cli_lib.main()
