"""A real browser for tests: Chromium without a window, driven over a pipe by its own debugging protocol."""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
ANSWER_SECONDS = 60.0  # a busy machine is slow
FIRST_FREE = 20  # above any descriptor that is put in place
START = f"""
import fcntl, os, sys
reads, writes = (fcntl.fcntl(int(number), fcntl.F_DUPFD, {FIRST_FREE}) for number in sys.argv[1:3])
os.dup2(reads, 3), os.dup2(writes, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""  # Chromium listens on descriptor 3 and answers on 4

SIZES = {"laptop": (1366, 768, False), "phone": (390, 844, True)}
EVIL = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
OPEN_ALL = "document.querySelectorAll('details').forEach((part) => { part.open = true })"
STICKING_OUT = """[...document.querySelectorAll('main *')].filter((part) =>
  !part.closest('.scroll, pre, svg') && part.getBoundingClientRect().right > document.documentElement.clientWidth + 1
).map((part) => part.outerHTML.slice(0, 120))"""


def find_browser():
    """The browser that CHROMIUM names, or the first that is installed; None if there is none."""
    named = os.environ.get("CHROMIUM")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """A browser with one page; ``complaints`` are its messages about the page: errors, warnings, refused scripts."""

    def __init__(self, program, home):
        to_browser, from_browser = os.pipe(), os.pipe()
        flags = ["--headless=new", "--remote-debugging-pipe", f"--user-data-dir={home}", "--no-first-run"]
        flags += ["--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
        flags += ["--no-sandbox"] if os.geteuid() == 0 else []
        ends = to_browser[0], from_browser[1]
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, *map(str, ends), program, *flags],
            pass_fds=ends,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in ends:
            os.close(end)
        self.writes, self.reads = to_browser[1], from_browser[0]
        self.rest, self.number, self.session, self.complaints, self.loaded = b"", 0, None, [], 0
        target = self.command("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.command(f"{domain}.enable")

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.writes)
        os.close(self.reads)

    def open(self, path, width, height, *, phone=False, scripts=True):
        """Show a file or an address in a window of this size; wait until it is loaded."""
        self.command("Emulation.setScriptExecutionDisabled", value=not scripts)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone}
        self.command("Emulation.setDeviceMetricsOverride", **size)
        self.complaints.clear()
        before = self.loaded
        self.command("Page.navigate", url=path if isinstance(path, str) else path.resolve().as_uri())
        while self.loaded == before:
            self.receive()

    def value(self, expression):
        """The value of a JavaScript expression on the page."""
        answer = self.command("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def type(self, text):
        """Type into what has the focus."""
        self.command("Input.insertText", text=text)

    def press(self, key):
        """Press a key such as "k", "Tab" or "ArrowRight"."""
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        code = {} if len(key) == 1 else {"code": key}
        self.command("Input.dispatchKeyEvent", type="keyDown", key=key, text=text, **code)
        self.command("Input.dispatchKeyEvent", type="keyUp", key=key, **code)

    def wait_for_frames(self):
        """Wait until the page was drawn twice, with the events of what happened before."""
        twice = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        self.command("Runtime.evaluate", expression=twice, awaitPromise=True)

    def wait_for(self, expression):
        """Wait until a JavaScript expression is true."""
        end = time.monotonic() + ANSWER_SECONDS
        while not self.value(expression):
            assert time.monotonic() < end, expression
            time.sleep(0.02)

    def screenshot(self, path):
        """Save what the window shows as PNG."""
        path.write_bytes(base64.b64decode(self.command("Page.captureScreenshot")["data"]))

    def command(self, method, **parameters):
        self.number += 1
        wanted, message = self.number, {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.writes, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == wanted:
                assert "error" not in answer, answer
                return answer["result"]

    def receive(self):
        """The next message; messages about the page are added to ``complaints``."""
        end = time.monotonic() + ANSWER_SECONDS
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.reads], [], [], max(0.0, end - time.monotonic()))
            more = os.read(self.reads, 1 << 16) if ready else b""
            assert more, "the browser does not answer"
            self.rest += more
        text, _, self.rest = self.rest.partition(b"\0")
        message = json.loads(text)
        what, details = message.get("method"), message.get("params", {})
        self.loaded += what == "Page.loadEventFired"
        if what in {"Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"}:
            self.complaints.append(details)
        return message
