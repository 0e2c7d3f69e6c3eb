# SPDX-License-Identifier: Apache-2.0
"""deploy/: alerts go off when they should and not else, and each query of the dashboard has an
answer from allotd's own metrics."""

import json
import os
import shutil
import subprocess
import unittest
import urllib.error
import urllib.request

import cli_lib
import daemon_lib
from cli_lib import GIB, UUID_A

DEPLOY = os.path.join(os.environ["ALLOT_SOURCE"], "deploy")
RULES = os.path.join(DEPLOY, "prometheus", "allot.rules.yml")
DASHBOARD = os.path.join(DEPLOY, "grafana", "allot.json")
PROMTOOL, PROMETHEUS = shutil.which("promtool"), shutil.which("prometheus")
AT = 'tenant="a",device="GPU-1"'
FAST, SLOW = 'tenant="fast",device="GPU-1"', 'tenant="slow",device="GPU-1"'
TESTS = {
    "rule_files": [RULES], "evaluation_interval": "15s",
    "tests": [{
        "interval": "15s",
        "input_series": [
            {"series": f"allot_compute_share_ratio{{{FAST}}}", "values": "0.25x80"},
            {"series": f"allot_compute_had_ratio{{{FAST}}}", "values": "0.31x80"},
            {"series": f"allot_compute_share_ratio{{{SLOW}}}", "values": "0.25x80"},
            {"series": f"allot_compute_had_ratio{{{SLOW}}}", "values": "0.26x80"},
            {"series": f'allot_compute_had_ratio{{{AT}}}', "values": "1x80"},
            {"series": 'allot_outside_memory_bytes{pid="7",user="u",command="c",device="GPU-1"}',
             "values": "_x10 1024x20 _x50"},
            {"series": 'allot_device_lost{device="GPU-1"}', "values": "0x80"},
            {"series": 'allot_device_lost{device="GPU-2"}', "values": "0x40 1x40"},
            {"series": "allot_audit_age_seconds", "values": "0.5x80"},
        ],
        "promql_expr_test": [
            {"expr": f'ALERTS{{alertname="{name}", alertstate="firing"}}', "eval_time": time,
             "exp_samples": [{"labels": f'ALERTS{{alertname="{name}",alertstate="firing",{labels}}}',
                              "value": 1}] if fires else []}
            for name, labels, times in (
                ("AllotProcessNotLimited",
                 'pid="7",user="u",command="c",device="GPU-1",severity="warning"',
                 {"2m": False, "4m": True, "7m": True, "15m": False}),
                ("AllotShareNotHeld", f'{FAST},severity="warning"',
                 {"2m": False, "11m": True, "19m": True}),
                ("AllotDeviceLost", 'device="GPU-2",severity="critical"',
                 {"9m": False, "12m": True, "19m": True}))
            for time, fires in times.items()],
    }],
}


def queries():
    with open(DASHBOARD, encoding="utf-8") as file:
        for panel in json.load(file)["panels"]:
            for target in panel["targets"]:
                yield (panel["title"], target["expr"].replace("$tenant", ".*")
                       .replace("$device", ".*"))


class Rules(daemon_lib.Case):
    @unittest.skipUnless(PROMTOOL, "promtool is not installed")
    def test_alerts(self):
        done = subprocess.run([PROMTOOL, "check", "rules", RULES], text=True, capture_output=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        done = subprocess.run([PROMTOOL, "test", "rules", self.path("t.json", json.dumps(TESTS))],
                              text=True, capture_output=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def ask(self, port, query):
        url = f"http://127.0.0.1:{port}/api/v1/query?query={urllib.request.quote(query)}"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            if error.code == 400:  # else it is about to start
                raise AssertionError(f"{query}: {error.read().decode()}") from error
            return []
        except OSError:
            return []

    @unittest.skipUnless(PROMETHEUS, "prometheus is not installed")
    def test_dashboard(self):
        self.living("a", "--memory", "8GiB", "--compute", "25")
        self.hold("a", f"{UUID_A}:data:{GIB}", f"{UUID_A}:refuse:{GIB}")
        self.env.update(ALLOT_SIM_DIR=os.path.join(self.tmp, "sim"), ALLOT_SIM_CONTEXT="16MiB",
                        LD_LIBRARY_PATH=os.environ["SIM_LIBRARIES"])
        program = self.start(os.environ["FILL"], "--json")
        self.assertTrue(program.stdout.readline())
        self.daemon()
        port = daemon_lib.free_port()
        config = self.path("prometheus.yml", "global: {scrape_interval: 1s}\n"
                           "scrape_configs: [{job_name: allot, static_configs: "
                           f"[{{targets: ['127.0.0.1:{self.port}']}}]}}]\n")
        self.start(PROMETHEUS, f"--config.file={config}", f"--storage.tsdb.path={self.tmp}/tsdb",
                   f"--web.listen-address=127.0.0.1:{port}", stderr=subprocess.DEVNULL)
        for title, query in queries():
            with self.subTest(title):
                cli_lib.wait_for(lambda q=query: self.ask(port, q), 60)


if __name__ == "__main__":
    cli_lib.main()
