# SPDX-License-Identifier: Apache-2.0
"""make install and make uninstall: what comes, what goes, and what is there in between."""

import ctypes
import fnmatch
import glob
import json
import os
import re
import shutil
import struct
import subprocess
import unittest

import cli_lib

SOURCE, BUILD = os.environ["ALLOT_SOURCE"], os.environ["ALLOT_BUILD"]
AS_USER = ("setpriv", "--reuid=12345", "--regid=12345", "--clear-groups")
IN_MODIFY, IN_MOVED_TO, IN_CREATE, IN_DELETE = 0x2, 0x80, 0x100, 0x200


class Watch:
    """What happens to the names of a directory, by inotify(7)."""

    def __init__(self, case, directory):
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init1(os.O_NONBLOCK)
        case.addCleanup(os.close, self.fd)
        mask = IN_MODIFY | IN_MOVED_TO | IN_CREATE | IN_DELETE
        assert libc.inotify_add_watch(self.fd, directory.encode(), mask) >= 0

    def seen(self, name):
        events, seen = os.read(self.fd, 1 << 20), set()
        while events:
            _, mask, _, length = struct.unpack("iIII", events[:16])
            if events[16:16 + length].rstrip(b"\0") == name.encode():
                seen.add(mask)
            events = events[16 + length:]
        return seen


def packs(pattern, name):
    """As dh_install has it: a folder with all that is in it, and "*" for no more than one name."""
    parts, names = pattern.split("/"), name.split("/")
    return len(names) >= len(parts) and all(map(fnmatch.fnmatch, names, parts))


class Uninstall(cli_lib.Case):
    def setUp(self):
        super().setUp()
        options = subprocess.run([os.path.join(SOURCE, "tools/meson"), "introspect", BUILD,
                                  "--buildoptions"], check=True, capture_output=True, text=True)
        values = {option["name"]: option["value"] for option in json.loads(options.stdout)}
        self.prefix = values["prefix"]
        self.destination = self.path("dest")
        self.library = os.path.join(self.destination + self.prefix, values["libdir"], "liballot.so")

    def tool(self, *words, as_user=(), **variables):
        return subprocess.run([*as_user, os.path.join(SOURCE, "tools/install"), *words], text=True,
                              timeout=100, env={**self.env, "BUILD": BUILD, **variables},
                              capture_output=True, check=False)

    def install(self, how):
        done = self.tool(how, PREFIX=self.prefix, DESTDIR=self.destination)
        self.assertEqual(done.returncode, 0, done.stderr)

    def tree(self):
        return {os.path.join(at, name) for at, directories, files in os.walk(self.destination)
                for name in directories + files}

    def check_documents(self):
        """All of docs are there, and with them each that a manual page sends to."""
        there = os.listdir(f"{self.destination}{self.prefix}/share/doc/allot")
        wanted = {os.path.basename(path) for path in glob.glob(os.path.join(SOURCE, "docs/*.md"))}
        for path in glob.glob(os.path.join(SOURCE, "man/*.scd")):
            with open(path, encoding="utf-8") as page:
                wanted.update(re.findall(r"docs/([\w-]+\.md)", page.read()))
        self.assertLessEqual(wanted, set(there))
        self.assertEqual(
            set(os.listdir(f"{self.destination}{self.prefix}/share/doc/allot/from")),
            {os.path.basename(path) for path in glob.glob(os.path.join(SOURCE, "docs/from/*.md"))})

    def test_nothing_is_left(self):
        self.install("install")
        self.assertGreater(len(self.tree()), 20)
        self.check_documents()
        self.install("install")
        # To uninstall wants no PREFIX, and says where it looked.
        done = self.tool("uninstall", DESTDIR=self.destination)
        self.assertEqual((done.returncode, self.tree()), (0, set()), done.stderr)
        done = self.tool("uninstall", DESTDIR=self.destination)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{self.destination}{self.prefix}/share/allot/installed", done.stderr)
        self.assertIn("make uninstall PREFIX=", done.stderr)

    @unittest.skipIf(cli_lib.NO_USERS or cli_lib.closed_to_others(os.path.join(SOURCE, "tools/install")),
                     "users cannot run the source's tools")
    def test_an_ordinary_user(self):
        """A place that the user may not write to is said before anything is built."""
        os.chmod(self.tmp, 0o755)
        os.mkdir(self.path("closed"), 0o755)
        done = self.tool("check", as_user=AS_USER, PREFIX=self.path("closed/usr"))
        self.assertEqual((done.returncode, done.stderr), (1,
            f"make install: you may not write to {self.path('closed')}: install as root, or into a "
            "place of your own: make install PREFIX=~/.local\n"))
        os.chmod(self.tmp, 0o777)
        done = self.tool("check", as_user=AS_USER, HOME=self.tmp, PREFIX="~/.local")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_configuration(self):
        """The example is put where allotd reads it, and goes; one that a person changed stays."""
        conf = f"{self.destination}/etc/allot/allotd.conf"
        self.install("install")
        if not os.path.exists(f"{self.destination}{self.prefix}/lib/systemd/system/allotd.service"):
            self.skipTest("built without allotd")
        with open(conf, "a", encoding="utf-8") as file:
            file.write("weight = 2\n")
        self.install("install")
        self.install("uninstall")
        with open(conf, encoding="utf-8") as file:
            self.assertTrue(file.read().endswith("weight = 2\n"))
        self.assertEqual({path for path in self.tree() if not os.path.isdir(path)}, {conf})

    def test_configuration_of_somebody_else(self):
        """One that a package put there stays, although it is the same."""
        conf = f"{self.destination}/etc/allot/allotd.conf"
        os.makedirs(os.path.dirname(conf))
        shutil.copy(os.path.join(SOURCE, "deploy/systemd/allotd.conf"), conf)
        for verb in ("install", "install", "uninstall"):
            self.install(verb)
        self.assertTrue(os.path.exists(conf))

    def test_what_was_there_stays(self):
        theirs = self.destination + self.prefix
        os.makedirs(f"{theirs}/share/man/man1")
        for path in ("bin", "share/allot"):
            os.makedirs(f"{theirs}/{path}")
        for path in ("bin/other", "share/man/man1/other.1"):
            with open(f"{theirs}/{path}", "w", encoding="ascii") as file:
                file.write("theirs")
        before = self.tree()
        self.install("install")
        self.install("uninstall")
        self.assertEqual(self.tree(), before)

    def test_what_others_put_there_later_stays(self):
        self.install("install")
        theirs = f"{self.destination}{self.prefix}/share/allot/theirs"
        with open(theirs, "w", encoding="ascii") as file:
            file.write("theirs")
        self.install("uninstall")
        self.assertEqual({path for path in self.tree() if not os.path.isdir(path)}, {theirs})

    def test_what_a_version_no_longer_has_goes(self):
        self.install("install")
        manifest = f"{self.destination}{self.prefix}/share/allot/installed"
        gone = f"{self.prefix}/share/allot-gone"
        os.mkdir(self.destination + gone)
        shutil.copy(manifest, f"{self.destination}{gone}/file")
        with open(manifest, encoding="utf-8") as file:
            known = json.load(file)
        known["files"].append(f"{gone}/file")
        known["directories"].append(gone)
        with open(manifest, "w", encoding="utf-8") as file:
            json.dump(known, file)
        self.install("install")
        self.assertFalse(os.path.exists(self.destination + gone))
        with open(manifest, encoding="utf-8") as file:
            self.assertNotIn("gone", file.read())

    def test_a_library_in_use_stays_what_it_is(self):
        """No moment without it, and nothing written over in what processes have mapped."""
        self.install("install")
        with open(self.library, "rb") as used:
            inode, was = os.fstat(used.fileno()).st_ino, used.read()
            watch = Watch(self, os.path.dirname(self.library))
            self.install("install")
            self.assertEqual(watch.seen("liballot.so"), {IN_MOVED_TO})
            self.assertNotEqual(os.stat(self.library).st_ino, inode)
            used.seek(0)
            self.assertEqual(used.read(), was)

    def test_packages_have_all_of_it(self):
        """Each file is in one of deploy/debian, so that a new one is not forgotten."""
        self.install("install")
        usr = self.destination + self.prefix
        if os.path.basename(os.path.dirname(os.path.dirname(self.library))) != "lib":
            self.skipTest("libraries do not go where Debian has them")
        wanted = {}
        for path in glob.glob(os.path.join(SOURCE, "deploy/debian/*install*")):
            with open(path, encoding="utf-8") as file:
                for line in file:
                    wanted.setdefault(line.split()[0], []).append(path)
        for path in self.tree():
            # Debian's python3 has one place for all of its versions.
            name = re.sub(r"/python3[.\d]*/(site|dist)-packages/", "/python3/dist-packages/",
                          "usr" + path[len(usr):])
            if os.path.isdir(path) or not path.startswith(usr) or name == "usr/share/allot/installed":
                continue
            having = [pattern for pattern in wanted if packs(pattern, name)]
            self.assertEqual(len(having), 1, (name, having))

    def test_systemd(self):
        """What systemd itself says of the unit, and of the directory at start."""
        self.install("install")
        unit = f"{self.destination}{self.prefix}/lib/systemd/system/allotd.service"
        if not os.path.exists(unit) or not shutil.which("systemd-analyze"):
            self.skipTest("no allotd, or no systemd")
        with open(unit, encoding="utf-8") as file:
            text = file.read()
        self.assertIn(f"ExecStart={self.prefix}/sbin/allotd --foreground\n", text)
        self.assertIn(f"ExecReload={self.prefix}/sbin/allotd --check\n", text)
        # It looks for the program where it is said to be.
        with open(self.path("allotd.service"), "w", encoding="utf-8") as file:
            file.write(text.replace(self.prefix, self.destination + self.prefix))
        done = subprocess.run(["systemd-analyze", "verify", "--man=no",
                               self.path("allotd.service")], capture_output=True, text=True,
                              timeout=60)
        said = [line for line in done.stderr.splitlines() if "allotd" in line]
        self.assertEqual((done.returncode, said), (0, []), done.stderr)

        # A figure that the manager gives to what the service may do beyond its own work.
        done = subprocess.run(["systemd-analyze", "security", "--offline=true", "--threshold=32",
                               "--no-pager", self.path("allotd.service")], capture_output=True,
                              text=True, timeout=60, check=False)
        if "unrecognized option" not in done.stderr:
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

        root = self.path("root")
        os.makedirs(f"{root}/run")
        with open(f"{self.destination}{self.prefix}/lib/tmpfiles.d/allot.conf",
                  encoding="utf-8") as file:
            conf = file.read()
        if os.geteuid() != 0 or not shutil.which("systemd-tmpfiles"):
            self.skipTest("only root makes a directory for root")
        subprocess.run(["systemd-tmpfiles", f"--root={root}", "--create", "-"], input=conf,
                       text=True, check=True, timeout=60)
        self.assertEqual(os.stat(f"{root}/run/allot").st_mode & 0o7777, 0o700)
        # The unit keeps that directory.
        self.assertTrue(re.search(r"(?m)^RuntimeDirectory=allot\nRuntimeDirectoryMode=0700$", text))


if __name__ == "__main__":
    cli_lib.main()
