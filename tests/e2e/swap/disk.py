# SPDX-License-Identifier: Apache-2.0
"""`allot checkpoint` and `allot restore`: a tenant to a disk and back, its processes by the real CRIU,
its memory by our images. Skipped where there is no CRIU of version 4 or later (tools/criu)."""

import ctypes
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

from swap import ALLOT, GUEST, IDLE, LONG, MIB, STAYS, Case

CRIU = subprocess.run([os.environ["FIND_CRIU"]], env={**os.environ, "ALLOT_NO_INSTALL": "1"},
                      stdout=subprocess.PIPE, text=True, check=False).stdout.strip()
PR_SET_CHILD_SUBREAPER = 36

# CRIU that is killed by itself, at a step of its own: its action scripts tell which.
KILLED_AT = """#!/bin/sh
[ "$CRTOOLS_SCRIPT_ACTION" = "%s" ] && kill -9 "$PPID"
exit 0
"""
WRAPPER = """#!/bin/sh
case "$1" in
%s) exec "%s/criu" "$@" --action-script "%s" ;;
*) exec "%s/criu" "$@" ;;
esac
"""
# CRIU that is killed after so many milliseconds.
TIMED = """#!/bin/bash
[[ $1 = --version ]] && exec "%s/criu" "$@"
"%s/criu" "$@" &
sleep %s
kill -9 $! 2>/dev/null
wait $!
"""


class Disk(Case):
    def setUp(self):
        super().setUp()
        self.env["PATH"] = CRIU + ":" + self.env["PATH"]
        self.to = self.tmp + "/image"
        self.began = []
        self.addCleanup(self.end_all)

    def end_all(self):
        """Who came back from an image is not our child."""
        for process in self.began:
            maps = pathlib.Path(f"/proc/{process.pid}/maps")
            try:
                if self.tmp in maps.read_text(encoding="utf-8"):
                    os.kill(process.pid, signal.SIGKILL)
            except OSError:
                pass

    def guest(self, *what, options=("--swappable",), env=None, name="t", command=None):
        """As the other tests', but it has no end of a pipe that goes to us. It reads from a FIFO."""
        number = len(self.began)
        fifo, out = f"{self.tmp}/in{number}", f"{self.tmp}/out{number}"
        os.mkfifo(fifo)
        keep = os.open(fifo, os.O_RDWR)
        self.addCleanup(os.close, keep)
        with open(out, "wb") as file:
            process = subprocess.Popen(
                [ALLOT, "run", "--name", name, *options, "--", *(command or (GUEST, *what))],
                env={**self.env, **(env or {})}, stdin=keep, stdout=file, stderr=file,
                start_new_session=True)
        process.fifo, process.out = keep, pathlib.Path(out)
        self.began.append(process)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.says(process, "ready")
        return process

    def says(self, process, word, times=1):
        end = time.monotonic() + LONG
        while time.monotonic() < end:
            if process.out.read_text(encoding="utf-8").count(word) >= times:
                return
            time.sleep(0.01)
        self.fail(f"{process.out.read_text(encoding='utf-8')}, and not {word}")

    def good(self, process, times=1):
        os.write(process.fifo, b"\n" * times)
        self.says(process, "good", times)
        process.wait() if process.returncode is None else None

    def gone(self, *processes):
        for process in processes:
            self.assertEqual(process.wait(LONG), -signal.SIGKILL)

    def no_tenant(self, why=None):
        """A process that CRIU has killed may end behind a command; the next one removes its tenant."""
        self.until(lambda: self.allot("ps") and not os.path.exists(self.tmp + "/run/t"))
        self.assertEqual(self.used(), 0, why)

    def save(self, *more, env=None):
        done = self.allot("checkpoint", "t", "--to", self.to, *more, env=env)
        self.assertEqual(done.returncode, 0, done.stderr)

    def reap(self):
        """Those that are ours since their parents ended."""
        started = {p.pid for p in [*self.began, self.truth] if p.poll() is None}
        pid = os.getpid()
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
        for child in map(int, children.split()):
            if child not in started:
                os.waitpid(child, os.WNOHANG)

    def try_restore(self, env=None):
        """When the pids are free, and those that had them are gone with their locks."""
        for _ in range(200):
            self.reap()
            done = self.allot("restore", self.to, env=env)
            if not re.search("must have again|there is a tenant", done.stderr):
                break
            time.sleep(0.02)
        return done

    def restore(self):
        done = self.try_restore()
        log = pathlib.Path(self.to + "/criu/0/criu.log")
        self.assertEqual(done.returncode, 0,
                         done.stderr + (log.read_text(encoding="utf-8") if log.exists() else ""))

    def fake_criu(self, text):
        folder = self.tmp + "/bin"
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)
        path = pathlib.Path(folder, "criu")
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
        return {"PATH": folder + ":" + self.env["PATH"]}

    def killed_criu(self, verb, step):
        script = pathlib.Path(self.tmp, "kill")
        script.write_text(KILLED_AT % step, encoding="utf-8")
        script.chmod(0o755)
        return self.fake_criu(WRAPPER % (verb, CRIU, script, CRIU))

    def trees(self, first):
        """There and back, with another tree of processes in the same tenant."""
        guests = [first, self.guest("idle", options=())]
        self.save()
        self.gone(*guests)
        self.restore()
        self.assertEqual(self.used(), 2 * (STAYS + IDLE))
        for guest in guests:
            self.good(guest)


class Way(Disk):
    def test_there_and_back(self):
        guest = self.guest("idle")
        held = self.used()
        self.save()
        self.gone(guest)
        self.assertEqual(self.used(), 0)
        self.assertIn("no tenants", self.must("ps"))
        said = self.must("image", self.to)
        self.assertIn("4 objects of 56 MiB, 53.2 MiB of it not zero", said)
        # Content is there once: what CRIU has are the processes without it.
        criu = sum(f.stat().st_size for f in pathlib.Path(self.to, "criu").rglob("*"))
        self.assertLess(criu, 8 * MIB)
        self.restore()
        self.assertEqual(self.used(), held)
        self.assertEqual(self.tenant()["state"], "running")
        self.assertEqual(self.device()["used_bytes"], held)
        # It is a tenant like any other.
        self.must("suspend", "t")
        self.assertEqual(self.used(), STAYS)
        self.must("resume", "t")
        late = self.guest("idle", options=())
        self.assertEqual(self.used(), 2 * held)
        self.good(late)
        self.good(guest)

    def test_again(self):
        """From the disk to the disk, and packed."""
        guest = self.guest("churn", "7")
        for turn in range(3):
            self.to = f"{self.tmp}/image{turn}"
            self.save(*(("--compress",) if turn == 1 else ()), "--timeout", "60s")
            self.restore()
        self.good(guest)

    def test_empty_memory(self):
        """An image has memory of one word, too, of which the host has no copy."""
        for what in (("sparse", "1"), ("empty", "0"), ("empty", "0x3f800000")):
            guest = self.guest(*what)
            self.to = f"{self.tmp}/image {' '.join(what)}"
            self.must("suspend", "t")
            self.save()
            self.gone(guest)
            self.restore()
            self.good(guest)

    def test_tree(self):
        """A process without a GPU, and two that have one."""
        guest = self.guest(command=(
            "sh", "-c", f"exec 3<&0; {GUEST} idle <&3 & {GUEST} idle <&3 & wait"))
        self.says(guest, "ready", 2)
        self.save()
        self.gone(guest)
        self.assertEqual(self.used(), 0)
        self.restore()
        self.assertEqual(self.used(), 2 * (STAYS + IDLE))
        self.good(guest, 2)

    def test_trees(self):
        self.trees(self.guest("idle"))

    def test_leave_running(self):
        guest = self.guest("idle")
        self.save("--leave-running")
        self.assertEqual(self.used(), STAYS + IDLE)
        self.assertEqual(self.tenant()["state"], "running")
        self.assertIn('there is a tenant "t" already', self.refused("restore", self.to))
        guest.kill()
        guest.wait()
        self.restore()
        self.good(guest)

    def test_suspended_before(self):
        guest = self.guest("idle")
        self.must("suspend", "t")
        self.save()
        self.restore()
        self.good(guest)

    def test_pools(self):
        guest = self.guest("idle pooled")
        self.save()
        self.restore()
        self.good(guest)

    def test_driver_s_own(self):
        """What the driver's checkpoint keeps in the process is in CRIU's files."""
        for what in ("array", "pool"):
            self.to = f"{self.tmp}/{what}"
            guest = self.guest(what)
            self.save()
            self.restore()
            self.good(guest)


class Refusals(Disk):
    def stays(self, guest, why, *args, env=None, state="running"):
        used = self.used()
        said = self.refused("checkpoint", "t", "--to", self.to, *args, env=env)
        self.assertRegex(said, why)
        self.assertEqual((self.used(), self.tenant()["state"]), (used, state))
        self.assertFalse(os.path.exists(self.to + "/parts"))
        return guest

    def test_checkpoint(self):
        guest = self.guest("idle")
        os.mkdir(self.to)
        pathlib.Path(self.to, "something").touch()
        self.stays(guest, "is not empty")
        shutil.rmtree(self.to)
        old = self.fake_criu("#!/bin/sh\necho Version: 3.17.1\n")
        self.stays(guest, r"CRIU 3.17.1 is too old; install CRIU 4.0 or later", env=old)
        self.stays(guest, "no criu on PATH", env={"PATH": "/nonexistent"})
        failing = self.fake_criu('#!/bin/sh\n[ "$1" = --version ] && echo Version: 4.1\nexit 1\n')
        self.stays(guest, "(?s)CRIU could not dump .*goes on as it was", env=failing)
        self.assertFalse(os.path.exists(self.to))
        self.must("suspend", "t")
        self.stays(guest, "(?s)CRIU could not dump .*stays suspended as it was", env=failing,
                   state="suspended")
        self.must("resume", "t")
        self.stays(guest, "it is not allowed to you", env={"ALLOT_SIM_CHECKPOINT": "denied"})
        self.good(guest)

    def test_directory_is_full(self):
        guest = self.guest("idle")
        os.mkdir(self.to)
        done = subprocess.run(["unshare", "--mount", "sh", "-c", f"mount -t tmpfs -o size=20m,mode=700 none {self.to} && "
                               f"exec {ALLOT} checkpoint t --to {self.to}"], env=self.env, text=True,
                              stderr=subprocess.PIPE, check=False)
        self.assertIn(f"{self.to}: No space left on device", done.stderr)
        self.assertIn("goes on as it was", done.stderr)
        self.assertEqual(self.used(), STAYS + IDLE)
        self.good(guest)

    def test_a_link_in_the_directory(self):
        """Whoever may write there while CRIU is at work has nothing of root's written over."""
        self.guest("idle")
        other = pathlib.Path(self.tmp, "other")
        other.write_text("before", encoding="ascii")
        link = f'#!/bin/sh\n[ "$1" = dump ] && ln -s "{other}" "{self.to}/ledger"\n' \
               f'exec "{CRIU}/criu" "$@"\n'
        said = self.refused("checkpoint", "t", "--to", self.to, env=self.fake_criu(link))
        self.assertEqual(other.read_bytes(), b"before")
        self.assertIn("/ledger: ", said)
        self.assertEqual(self.tenant()["state"], "running")

    def test_directory_of_others(self):
        """Who may write there could have root run anything."""
        guest = self.guest("idle")
        os.mkdir(self.to)
        os.chown(self.to, 1, 1)
        self.assertIn("is for others to write",
                      self.refused("checkpoint", "t", "--to", self.to))
        os.chown(self.to, 0, 0)
        self.save()
        self.gone(guest)
        for mode in (0o770, 0o707):
            os.chmod(self.to, mode)
            self.assertIn("is for others to write", self.refused("restore", self.to))
        os.chmod(self.to, 0o755)
        self.restore()
        self.good(guest)

    def not_started(self, entry):
        said = self.refused("restore", self.to)
        self.assertRegex(said, rf"{self.to}: {entry}: .*; nothing was started\n")
        self.no_tenant(entry)

    def test_entries_of_others(self):
        """Each entry that another user could have written, that is a link, or that nobody listed."""
        guest = self.guest("idle")
        self.save()
        self.gone(guest)
        to = pathlib.Path(self.to)
        for path in [to / "criu", *sorted(to.rglob("*"))]:
            entry, mode = str(path.relative_to(to)), path.stat().st_mode
            for more in (0o020, 0o002):
                path.chmod(mode | more)
                self.not_started(entry)
            path.chmod(mode)
            os.chown(path, 1, -1)
            self.not_started(entry)
            os.chown(path, 0, -1)
            away = pathlib.Path(self.tmp, "away")
            path.rename(away)
            path.symlink_to(away)
            self.not_started(entry)
            path.unlink()
            away.rename(path)
        for entry in ("criu/0/zz.img", "criu/0/core-99.img", "criu/0/parent", "criu/z.img", "criu/1/a", "z"):
            path = to / entry
            path.parent.mkdir(exist_ok=True)
            path.touch()
            self.not_started("criu/1" if entry == "criu/1/a" else entry)
            path.unlink()
        path.parent.joinpath("criu/1").rmdir()
        (to / "criu/0/parent").symlink_to("/tmp")
        self.not_started("criu/0/parent")
        (to / "criu/0/parent").unlink()
        self.restore()
        self.good(guest)

    def test_umask(self):
        """CRIU's files are root's alone to write whatever the umask is, and so are those of a restore."""
        guest = self.guest("idle")
        before = os.umask(0)
        self.addCleanup(os.umask, before)
        self.save()
        self.gone(guest)
        self.restore()
        os.kill(guest.pid, signal.SIGKILL)
        self.restore()
        self.good(guest)

    def test_another_directory_in_its_place(self):
        """CRIU reads what was checked, also where the directory is another one by then."""
        guest = self.guest("idle")
        self.save()
        self.gone(guest)
        other = f'#!/bin/sh\n[ "$1" = restore ] && mv "{self.to}" "{self.to}-was" && mkdir "{self.to}"\n' \
                f'exec "{CRIU}/criu" "$@"\n'
        done = self.try_restore(env=self.fake_criu(other))
        self.assertIn(f'the content of tenant "t" is in {self.to}, which cannot be read', done.stderr)
        self.assertIn("nothing is left of it", done.stderr)
        self.assertTrue(os.path.exists(self.to + "-was/criu/0/stats-restore"))
        os.rmdir(self.to)
        os.rename(self.to + "-was", self.to)
        self.restore()
        self.good(guest)

    def another_folder(self):
        """One of root's, with a file, that a user who may rename folders around a checkpoint puts in its place."""
        victim = pathlib.Path(self.tmp, "victim")
        victim.mkdir()
        (victim / "ledger").write_text("root's", encoding="ascii")
        return victim

    def swap_folders(self, victim):
        return self.fake_criu(f'#!/bin/sh\n[ "$1" = dump ] && mv "{self.to}" "{self.to}-was" && '
                              f'ln -s "{victim}" "{self.to}"\nexec "{CRIU}/criu" "$@"\n')

    def test_a_link_in_place_of_the_directory(self):
        """All of the checkpoint goes to the directory that was checked, and nothing elsewhere."""
        guest = self.guest("idle")
        victim = self.another_folder()
        self.save(env=self.swap_folders(victim))
        self.gone(guest)
        self.assertEqual([p.name for p in victim.iterdir()], ["ledger"])
        self.assertEqual((victim / "ledger").read_text(encoding="ascii"), "root's")
        os.unlink(self.to)
        os.rename(self.to + "-was", self.to)
        self.restore()
        self.good(guest)

    def test_a_link_in_place_of_what_failed(self):
        """Nor is anything removed elsewhere: what the tenant needs is where it was put."""
        guest = self.guest("idle")
        victim = self.another_folder()
        failing = self.swap_folders(victim)
        criu = pathlib.Path(self.tmp, "bin/criu")
        criu.write_text(criu.read_text(encoding="ascii").replace("\nexec", '\n[ "$1" = dump ] && exit 1\nexec'),
                        encoding="ascii")
        said = self.refused("checkpoint", "t", "--to", self.to, env=failing)
        self.assertIn(f"what is in {self.to} is needed to resume it", said)
        self.assertEqual((victim / "ledger").read_text(encoding="ascii"), "root's")
        os.unlink(self.to)
        os.rename(self.to + "-was", self.to)
        self.must("resume", "t")
        self.good(guest)

    def test_children_of_before(self):
        """A shell that has begun others, and then became allot: they are none of CRIU's."""
        failing = self.fake_criu('#!/bin/sh\n[ "$1" = --version ] && echo Version: 4.1\nexit 1\n')
        guest = self.guest("idle")
        done = subprocess.run(["sh", "-c", f"sleep 60 >&- 2>&- & echo $!; exec {ALLOT} checkpoint t --to {self.to}"],
                              env={**self.env, **failing}, text=True, capture_output=True,
                              timeout=LONG, check=False)
        self.assertIn("goes on as it was", done.stderr)
        os.kill(int(done.stdout.split()[0]), signal.SIGTERM)
        self.good(guest)

    def test_share_of_compute(self):
        guest = self.guest("idle", options=("--swappable", "--compute", "50"))
        self.stays(guest, "has a share of compute, which cannot go to a disk yet")
        self.good(guest)

    def test_what_cannot_leave(self):
        self.good(self.stays(self.guest("managed"), "holds 4 MiB of managed memory"))

    def test_no_checkpoint_there(self):
        self.assertIn("this is no complete checkpoint", self.refused("restore", self.tmp))
        self.assertIn("No such file", self.refused("restore", self.tmp + "/none"))

    def test_elsewhere(self):
        guest = self.guest("idle")
        self.save()
        self.gone(guest)
        other = {"ALLOT_SIM_DIR": self.tmp + "/other"}
        self.assertRegex(self.refused("restore", self.to, env=other),
                         r'GPU-.* \(.*simulated.*\), which tenant "t" was on, is not here')
        other = {"ALLOT_RUNTIME_DIR": self.tmp + "/run2"}
        self.assertIn(f"set ALLOT_RUNTIME_DIR={self.tmp}/run\n",
                      self.refused("restore", self.to, env=other))
        big = self.guest("full", name="u", options=("--memory", "2000MiB"))
        self.assertIn("has no room", self.refused("restore", self.to))
        self.assertNotIn("t", [d for d in os.listdir(self.tmp + "/run") if len(d) == 1 and d != "u"])
        self.end_one(big)
        self.restore()
        self.good(guest)

    def end_one(self, guest):
        guest.kill()
        guest.wait()

    def test_damage(self):
        """Each file missing, cut off, longer, and with one bit changed: nothing is started."""
        guest = self.guest("array")
        self.save()
        self.gone(guest)
        files = [f for f in sorted(pathlib.Path(self.to).rglob("*"))
                 if f.is_file() and f.suffix != ".log" and f.name != "stats-dump"]
        self.assertGreater(len(files), 15)
        chance = random.Random(4)
        for file in files:
            whole = file.read_bytes()
            at = chance.randrange(len(whole)) if whole else 0
            changed = bytearray(whole)
            if whole:
                changed[at] ^= 1 << chance.randrange(8)
            for content in (whole[:at], bytes(changed), whole + b"x"):
                if content == whole:
                    continue
                file.write_bytes(content)
                said = self.refused("restore", self.to)
                self.assertRegex(said, rf"{file.name}.*|manifest|objects", file)
                self.assertIn("nothing was started", said)
            file.unlink()
            self.assertRegex(self.refused("restore", self.to), "nothing was started|No such")
            file.write_bytes(whole)
        self.assertEqual(self.used(), 0)
        self.restore()
        self.good(guest)


class Kills(Disk):
    """kill -9 of each that takes part, at each step: all content is there."""

    def resumes(self, guests, point):
        for guest in guests:
            self.assertIsNone(guest.poll(), point)
        self.must("resume", "t")
        self.assertEqual(self.tenant()["state"], "running", point)
        self.assertEqual(self.used(), len(guests) * (STAYS + IDLE), point)

    def test_of_checkpoint(self):
        guests = [self.guest("idle"), self.guest("idle", options=())]
        for number, point in enumerate((
                "SWAP_ASKED:1", "SWAP_ASKED:2", "SWAP_ASKED:3", "CONTEXTS_LOCKED",
                "CONTEXTS_TAKEN", "CONTENT_SAVED", "CONTENT_SAVED:5", "IMAGE_OBJECTS_WRITTEN",
                "IMAGE_HALF_NAMED", "IMAGE_NAMED", "STORE_NOTED", "SWAP_ASKED:4", "STORE_GIVEN",
                "STORE_DUMPED", "STORE_LISTED")):
            self.to = f"{self.tmp}/image{number}"
            done = self.allot("checkpoint", "t", "--to", self.to, env={"ALLOT_FAULT": point})
            self.assertEqual(done.returncode, -signal.SIGKILL, point)
            if point != "STORE_LISTED":
                self.assertRegex(self.refused("restore", self.to), "no complete checkpoint")
            self.resumes(guests, point)
            shutil.rmtree(self.to, ignore_errors=True)
        for guest in guests:
            self.good(guest)

    def test_of_resume(self):
        """... of a tenant whose content the image alone has."""
        guest = self.guest("idle")
        for point in ("SWAP_ASKED:1", "CONTENT_PUT_BACK", "CONTENT_PUT_BACK:3", "SWAP_ASKED:2",
                      "CONTEXTS_RETURNED", "CONTEXTS_UNLOCKED", "SWAP_ASKED:3", "SWAP_ASKED:4"):
            self.allot("checkpoint", "t", "--to", self.to, env={"ALLOT_FAULT": "STORE_DUMPED"})
            done = self.allot("resume", "t", env={"ALLOT_FAULT": point})
            self.assertEqual(done.returncode, -signal.SIGKILL, point)
            self.resumes([guest], point)
            shutil.rmtree(self.to)
        self.good(guest)

    def test_content_is_needed(self):
        """Without the image nothing runs with other memory."""
        guest = self.guest("idle")
        self.allot("checkpoint", "t", "--to", self.to, env={"ALLOT_FAULT": "STORE_GIVEN"})
        os.rename(self.to, self.to + ".away")
        self.assertRegex(self.refused("resume", "t"), "which cannot be read.*\n.*stays suspended")
        self.assertIn("on its way to a disk", self.refused("suspend", "--contexts", "t"))
        self.assertIn("on its way to a disk",
                      self.refused("checkpoint", "t", "--to", self.tmp + "/other"))
        os.rename(self.to + ".away", self.to)
        self.resumes([guest], "with it")
        self.good(guest)

    def test_another_image(self):
        """... nor with that of another checkpoint of the same processes, put in its place."""
        guest = self.guest("serve", "20", "1")
        self.save("--leave-running")
        os.rename(self.to, self.to + ".before")
        os.write(guest.fifo, b"\n")
        self.says(guest, "served")
        self.allot("checkpoint", "t", "--to", self.to, env={"ALLOT_FAULT": "STORE_GIVEN"})
        os.rename(self.to, self.to + ".after")
        os.rename(self.to + ".before", self.to)
        self.assertIn("another image is now", self.refused("resume", "t"))
        os.rename(self.to, self.to + ".before")
        os.rename(self.to + ".after", self.to)
        self.must("resume", "t")
        os.write(guest.fifo, b"q\n")
        self.says(guest, "good")

    def test_of_the_end(self):
        """Whole, and some of its processes dead: what is left is ended, and it comes back."""
        guest = self.guest("idle")
        done = self.allot("checkpoint", "t", "--to", self.to, env={"ALLOT_FAULT": "STORE_KILLED"})
        self.assertEqual(done.returncode, -signal.SIGKILL)
        self.gone(guest)
        self.restore()
        self.good(guest)

    def test_of_restore(self):
        guest = self.guest("idle")
        self.save()
        self.gone(guest)
        for point in ("BRING_MADE", "BRING_AWAITED"):
            done = self.allot("restore", self.to, env={"ALLOT_FAULT": point})
            self.assertEqual(done.returncode, -signal.SIGKILL, point)
        for point in ("BRING_RESTORED", "CONTENT_PUT_BACK", "CONTEXTS_RETURNED"):
            done = self.try_restore(env={"ALLOT_FAULT": point})
            self.assertEqual(done.returncode, -signal.SIGKILL, done.stderr)
            self.must("resume", "t")
            self.assertEqual(self.used(), STAYS + IDLE, point)
            if point != "CONTEXTS_RETURNED":
                os.kill(guest.pid, signal.SIGKILL)
        self.good(guest)

    def test_of_criu_dump(self):
        guest = self.guest("idle")
        for step in ("pre-dump", "post-dump"):
            done = self.allot("checkpoint", "t", "--to", self.to,
                              env=self.killed_criu("dump", step))
            if done.returncode == 0:
                self.fail(f"CRIU has no step {step}")
            self.assertRegex(done.stderr, "(?s)CRIU was killed.*goes on as it was", step)
            self.assertEqual(self.used(), STAYS + IDLE, step)
        self.good(guest)

    def test_of_criu_dump_any_time(self):
        """A process does not survive it where CRIU is just inside it, which is CRIU's; all else does,
        and nothing says that it is on a disk."""
        guest = None
        for i in range(12):
            guest = guest or self.guest("idle")
            env = self.fake_criu(TIMED % (CRIU, CRIU, 0.012 + 0.004 * i))
            done = self.allot("checkpoint", "t", "--to", self.to, env=env)
            if done.returncode == 0:
                self.gone(guest)
                self.restore()
                break
            self.assertRegex(done.stderr, "CRIU (was killed|could not)", i)
            self.assertFalse(os.path.exists(self.to), i)
            if guest.poll() is not None:
                # Its code in the process also writes into a socket of CRIU's.
                self.assertIn(guest.returncode, (-signal.SIGTRAP, -signal.SIGSEGV,
                                                 -signal.SIGPIPE), i)
                self.assertIn("did not survive", done.stderr)
                guest = None
        if guest:
            self.good(guest)

    def test_of_criu_restore(self):
        guest = self.guest("idle")
        self.save()
        self.gone(guest)
        for step in ("pre-restore", "post-restore", "pre-resume"):
            done = self.try_restore(env=self.killed_criu("restore", step))
            self.assertEqual(done.returncode, 125, step)
            self.assertRegex(done.stderr, "(?s)CRIU was killed.*nothing is left of it", step)
            self.no_tenant(step)
        self.restore()
        self.good(guest)

    def test_of_a_process(self):
        """One of two dies on the way: the other one's content is not disturbed."""
        for point in ("SHUT", "COPIED", "OUT", "BARE", "BARE:2"):
            self.to = f"{self.tmp}/{point}"
            guest = self.guest("idle")
            victim = self.guest("idle", options=(), env={"ALLOT_FAULT": f"GUEST_SWAP_{point}"})
            done = self.allot("checkpoint", "t", "--to", self.to)
            self.assertEqual(victim.wait(100), -signal.SIGKILL, point)
            if done.returncode:
                self.must("resume", "t")
            else:
                self.gone(guest)
                self.restore()
            self.assertEqual(self.used(), STAYS + IDLE, point)
            self.good(guest)


if __name__ == "__main__":
    if os.geteuid() or not CRIU:
        print("no CRIU of version 4 or later (tools/criu), or not root")
        sys.exit(77)
    # Whoever has come back, and ends, is ours to reap, and not init's when it gets to it.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    unittest.main()
