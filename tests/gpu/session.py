# SPDX-License-Identifier: Apache-2.0
"""A run of tests on a real GPU, from the build to the table, whichever vendor's it is."""
import contextlib
import datetime
import os
import platform
import signal
import sys
import time
import traceback

from harness import ROOT, Child, OutOfTime, run


def ask(*command):
    """What a command says, or None if it fails or is not here."""
    with contextlib.suppress(OSError):
        status, out, _ = run(command, 20)
        return out.strip() if status == 0 else None
    return None


def common_facts(program):
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": " ".join([program, *sys.argv[1:]]),
        "commit": ask("git", "-C", ROOT, "rev-parse", "HEAD") or os.environ.get("ALLOT_COMMIT"),
        "changed": ask("git", "-C", ROOT, "status", "--porcelain", "-uno"),
        "kernel": platform.release(), "machine": platform.machine(), "cpus": os.cpu_count(),
        "libc": " ".join(platform.libc_ver()), "python": platform.python_version(),
    }


def build(folder, *options):
    if not (folder / "build.ninja").exists():
        status, out, err = run([ROOT / "tools/meson", "setup", "--buildtype=release",
                                "-Dman=disabled", *options, folder, ROOT], 120)
        if status:
            sys.exit(f"meson: {out[-2000:]}{err[-2000:]}")
    _, ninja, _ = run([ROOT / "tools/meson", "--find-ninja"], 30)
    status, out, err = run([ninja.strip(), "-C", folder], 300)
    if status:
        sys.exit(f"ninja: {out[-4000:]}{err[-2000:]}")


def on_alarm(*_):
    raise OutOfTime("out of time")


def run_parts(bench, parts, wanted, limit):
    """Each part gets what time is left; one that breaks does not take the others along."""
    results, began = bench.results, time.monotonic()
    bench.until = began + limit
    signal.signal(signal.SIGALRM, on_alarm)
    for name in wanted:
        left = int(limit - (time.monotonic() - began))
        if left < 20:
            results.check(name, "whole part", False, "not begun", f"within {limit:.0f} s")
            continue
        print(f"\n== {name} ({int(limit - left)} s so far)", flush=True)
        part_began = time.monotonic()
        signal.alarm(left)
        try:
            parts[name](bench)
        except Exception as error:
            traceback.print_exc()
            results.check(name, "whole part", False, str(error)[:300], "runs to its end")
        finally:
            signal.alarm(0)
            for child in list(Child.running - bench.kept):
                child.kill()
            results.figure("seconds", name, round(time.monotonic() - part_began, 1))
            results.save()


def table(results, parts, seconds):
    failed = results.failed()
    if len(results.tables) > 1:
        for part in results.tables:
            results.print_table(part)
    print(f"\n{'part':<18} {'passed':>6} {'failed':>6} {'skipped':>7}")
    for part in parts:
        checks = [c for c in results.checks if c["part"] == part]
        bad = sum(not c["ok"] for c in checks)
        skips = sum(s["part"] == part for s in results.skips)
        if checks or skips:
            print(f"{part:<18} {len(checks) - bad:>6} {bad:>6} {skips:>7}")
    for c in failed:
        print(f"MISSED {c['part']}, {c['name']}: {c['value']} (target: {c['target']})")
    print(f"\n{len(results.checks) - len(failed)} passed, {len(failed)} failed, "
          f"{len(results.skips)} skipped, {seconds:.0f} s")
