# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, by its DevTools protocol over a pair of pipes."""

import base64
import fcntl
import json
import os
import shutil
import subprocess
import urllib.parse

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    """One page. Whoever opens it closes it; `folder` is for what a browser leaves behind."""

    def __init__(self, folder):
        theirs_in, tell = os.pipe()
        said, theirs_out = os.pipe()

        def hand_over():
            """The protocol wants descriptors 3 and 4, which may be any of these now."""
            high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (theirs_in, theirs_out)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--hide-scrollbars", "--no-first-run", "--disable-background-networking",
             f"--user-data-dir={folder}", "--remote-debugging-pipe"],
            env={"PATH": os.environ["PATH"], "HOME": folder}, preexec_fn=hand_over, pass_fds=(3, 4),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(theirs_in)
        os.close(theirs_out)
        self.said, self.tell = os.fdopen(said, "rb"), os.fdopen(tell, "wb", buffering=0)
        self.rest, self.number, self.session = b"", 0, None
        self.events = []
        self.answers = {}  # {path: JSON} that the page gets in place of its server's
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for part in ("Page", "Runtime", "Log"):
            self.call(part + ".enable")
        self.call("Fetch.enable", patterns=[{"urlPattern": "*/v1/*"}])

    def close(self):
        """It ends its own processes, which else write into the folder for a while."""
        self.session = None
        self.call("Browser.close")
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.tell.close()
        self.said.close()

    def read(self):
        while b"\0" not in self.rest:
            more = os.read(self.said.fileno(), 1 << 16)
            if not more:
                raise EOFError("the browser ended")
            self.rest += more
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def answer(self, request):
        """Lets a request of the page go on, or answers it."""
        told = self.answers.get(urllib.parse.urlsplit(request["request"]["url"]).path)
        if told is None:
            self.send("Fetch.continueRequest", requestId=request["requestId"])
        else:
            body = base64.b64encode(json.dumps(told).encode()).decode()
            self.send("Fetch.fulfillRequest", requestId=request["requestId"], responseCode=200,
                      body=body)

    def send(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.tell.write(json.dumps(message).encode() + b"\0")
        return self.number

    def call(self, method, **params):
        number = self.send(method, **params)
        while (answer := self.read()).get("id") != number:
            if answer.get("method") == "Fetch.requestPaused":
                self.answer(answer["params"])
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def go(self, url):
        self.call("Page.navigate", url=url)

    def size(self, width, height, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def value(self, script):
        """What an expression of JavaScript is in the page."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in done:
            raise RuntimeError(f"{script}: {done['exceptionDetails']}")
        return done["result"].get("value")

    def texts(self, selector):
        """The text of each element."""
        return self.value(f"Array.from(document.querySelectorAll({json.dumps(selector)}), "
                          "e => e.textContent)")

    def picture(self, path):
        """The whole page, as PNG."""
        height = self.value("document.documentElement.scrollHeight")
        width = self.value("innerWidth")
        done = self.call("Page.captureScreenshot", captureBeyondViewport=True,
                         clip={"x": 0, "y": 0, "width": width, "height": height, "scale": 1})
        with open(path, "wb") as out:
            out.write(base64.b64decode(done["data"]))

    def complaints(self):
        """What the page could not load, or threw."""
        return [e for e in self.events
                if e.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded")]
