# SPDX-License-Identifier: Apache-2.0
"""meson install, into a place that nobody was told of: allot finds its libraries there."""

import glob
import os
import shutil
import subprocess

import cli_lib


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
        self.assertIn(f"{library} can be preloaded", out)
        self.assertIn("GPU 0: ", out)
        if shutil.which("scdoc"):
            pages = {os.path.basename(page) for page in glob.glob(f"{prefix}/share/man/man*/*")}
            for page in ("allot.1", "allot-run.1", "liballot.7"):
                self.assertTrue(any(p.startswith(page) for p in pages), pages)


if __name__ == "__main__":
    cli_lib.main()
