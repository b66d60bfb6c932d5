"""A headless Chromium, driven over a pipe by the DevTools protocol: no driver, no package, no network.

Debian: `apt-get install chromium-headless-shell` or `chromium`. Where there is none `find` says None, and tests skip;
where the environment variable CHEFS_BROWSER is "required", as in CI, they fail instead.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
OPTIONS = (
    "--headless",
    "--no-sandbox",  # tests may be run by root, and only read files of their own
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-pipe",
)
# The browser reads commands from descriptor 3 and writes to 4; those of the pipes may be these very numbers, so they
# are moved out of the way first.
LAUNCH = """
import fcntl, os, sys
reads, writes = (fcntl.fcntl(int(n), fcntl.F_DUPFD, 10) for n in sys.argv[1:3])
os.dup2(reads, 3); os.dup2(writes, 4)
os.execvp(sys.argv[3], sys.argv[3:])
"""
SECONDS = 60.0  # until a browser that does not answer has failed
KEYS = {
    "ArrowRight": 39,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowDown": 40,
    "Tab": 9,
    "Escape": 27,
    "Home": 36,
    "End": 35,
}


def find():
    """The browser that there is, or None; where there are no pipes to talk through, as on Windows, there is none."""
    if os.name != "posix":
        return None
    return next(filter(None, map(shutil.which, (os.environ.get("CHEFS_CHROMIUM", ""), *NAMES))), None)


class Browser:
    """One page in a browser of its own; leaving the block ends it."""

    def __init__(self, program=None, width=1100, height=900):
        self.program = program or find()
        self.size = width, height
        self.errors = []  # what the page complained of
        self.requests = []  # every address that it asked for
        self._number = 0
        self._waiting = b""
        self._events = []

    def __enter__(self):
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        program = [sys.executable, "-c", LAUNCH, str(theirs_in), str(theirs_out), self.program, *OPTIONS]
        program += [f"--user-data-dir={self._profile.name}", "about:blank"]
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(program, pass_fds=(theirs_in, theirs_out), **quiet)
        os.close(theirs_in)
        os.close(theirs_out)
        os.set_blocking(self._in, False)
        self._session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.resize(*self.size)
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)
        self._profile.cleanup()

    def call(self, method, **parameters):
        """A command of the protocol and its answer; events that come meanwhile are kept."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def _next(self):
        """The next message of the browser; events are noted."""
        end = time.monotonic() + SECONDS
        while b"\0" not in self._waiting:
            if not select.select([self._in], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError(f"{self.program} did not answer in {SECONDS:.0f} s")
            piece = os.read(self._in, 1 << 20)
            if not piece:
                raise RuntimeError(f"{self.program} has ended")
            self._waiting += piece
        first, _, self._waiting = self._waiting.partition(b"\0")
        message = json.loads(first)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, event, facts):
        self._events.append(event)
        if event == "Runtime.exceptionThrown":
            self.errors.append(facts["exceptionDetails"].get("exception", facts["exceptionDetails"]).get("description"))
        if event == "Log.entryAdded" or (event == "Runtime.consoleAPICalled" and facts["type"] in ("error", "warning")):
            self.errors.append(str(facts.get("entry", facts)))
        if event == "Network.requestWillBeSent":
            self.requests.append(facts["request"]["url"])

    def open(self, path):
        """Load a file, and wait until it is there."""
        self._events.clear()
        self.errors.clear()
        self.requests.clear()
        self.call("Page.navigate", url=Path(path).absolute().as_uri())
        while "Page.loadEventFired" not in self._events:
            self._next()

    def run(self, expression):
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"]["description"])
        return answer["result"].get("value")

    def resize(self, width, height, scale=1.0):
        """The size of the window."""
        size = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def look(self, scheme="light", media="screen"):
        """Light or dark, on a screen or on paper."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)

    def point_at(self, x, y):
        """Move the mouse."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def press(self, key):
        """Press a key."""
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=KEYS[key])

    def screenshot(self, clip=None):
        """A PNG of what is in the window, or of a part (x, y, width, height) of the page."""
        options = {}
        if clip:
            options = {"clip": dict(zip(("x", "y", "width", "height"), clip, strict=True)) | {"scale": 1}}
        data = self.call("Page.captureScreenshot", captureBeyondViewport=bool(clip), **options)["data"]
        return base64.b64decode(data)

    def pdf(self):
        """The page as it is printed."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])
