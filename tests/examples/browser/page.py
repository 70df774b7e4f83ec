#!/usr/bin/env python3
"""Builds examples/browser, runs its module under node, and opens the page in a headless Chromium.

    python3 page.py ROOT WORK_FOLDER

The page must be one file of at most 2 MB that asks for nothing, and must read 95 % of 500 new digits. Exit code 77 where PyPI's
ziglang (ZIG="python3 -m ziglang") is missing; without node or Chromium these parts are left out.
"""

import base64
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

SKIPPED = 77
MOST_BYTES = 2_000_000
LEAST_ACCURACY = 95.0


class Browser:
    """A headless Chromium with one page, spoken to by its protocol for developers."""

    def __init__(self, program, address, work):
        profile = work / "profile"
        shutil.rmtree(profile, ignore_errors=True)
        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", "--window-size=780,1000",
             f"--user-data-dir={profile}", address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        port_file = profile / "DevToolsActivePort"
        for _ in range(600):
            if port_file.exists() and port_file.read_text().count("\n") > 0:
                break
            time.sleep(0.1)
        self.port = int(port_file.read_text().split()[0])

    def page(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/json", timeout=30) as answer:
            return next(page for page in json.load(answer) if page["type"] == "page")

    def picture(self):
        """A PNG of the page: one request over a WebSocket."""
        path = self.page()["webSocketDebuggerUrl"].split(str(self.port), 1)[1]
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nUpgrade: websocket\r\n"
                               "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                               "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode())
            stream = connection.makefile("rb")
            while stream.readline().strip():
                pass
            request = b'{"id": 1, "method": "Page.captureScreenshot"}'
            connection.sendall(bytes([0x81, 0x80 | len(request), 0, 0, 0, 0]) + request)  # masked by zeros
            text = b""
            while True:
                head = stream.read(2)
                size = head[1] & 127
                if size > 125:
                    size = int.from_bytes(stream.read(2 if size == 126 else 8), "big")
                text += stream.read(size)
                if head[0] & 128:
                    break
        return base64.b64decode(json.loads(text)["result"]["data"])

    def end(self):
        self.process.terminate()
        self.process.wait(30)


def in_browser(program, page, work):
    browser = Browser(program, page.as_uri(), work)
    try:
        title = ""
        for _ in range(1200):
            title = browser.page()["title"]
            if "new digits" in title or title.startswith("failed"):
                break
            time.sleep(0.1)
        time.sleep(0.5)
        (work / "page.png").write_bytes(browser.picture())
    finally:
        browser.end()
    print(f"Chromium: {title}")
    found = re.match(r"([\d.]+) % of 500 new digits", title)
    if not found or float(found.group(1)) < LEAST_ACCURACY:
        sys.exit(f"the page says: {title}")


def main():
    root, work = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    zig = os.environ.get("ZIG", f"{sys.executable} -m ziglang")
    if subprocess.run([*zig.split(), "version"], capture_output=True, check=False).returncode != 0:
        print("SKIPPED: needs PyPI's ziglang")
        sys.exit(SKIPPED)
    work.mkdir(parents=True, exist_ok=True)
    example = root / "examples/browser"
    subprocess.run(["bash", example / "build.sh", work], check=True, env={**os.environ, "ZIG": zig})
    page = work / "digits.html"
    if page.stat().st_size > MOST_BYTES:
        sys.exit(f"{page}: {page.stat().st_size} bytes, at most {MOST_BYTES}")
    # Modules are letters that may look like anything.
    text = re.sub(r'"[A-Za-z0-9+/=]{1000,}"', "", page.read_text(encoding="utf-8"))
    addresses = re.findall(r"(?:https?:)?//[a-z][\w.]*/|\bfetch\(|XMLHttpRequest|WebSocket|<link|<img|src=", text)
    if addresses:
        sys.exit(f"the page may ask for something: {addresses[:5]}")
    if shutil.which("node"):
        # Older ones have relaxed SIMD behind an option.
        option = "--experimental-wasm-relaxed-simd"
        known = subprocess.run(["node", "--v8-options"], capture_output=True, text=True, check=True).stdout
        run = ["node", "--no-warnings", *([option] if option in known else []), root / "tests/examples/browser/run.mjs",
               example / "worker.js"]
        # The second run begins with a file that is no module, as a browser without relaxed SIMD does.
        (work / "broken.wasm").write_bytes(b"no module")
        for modules in (["relaxed.wasm"], ["broken.wasm", "learner.wasm"]):
            subprocess.run([*run, *(work / name for name in modules)], check=True)
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser:
        in_browser(browser, page, work)
    print("the page learns")


if __name__ == "__main__":
    main()
