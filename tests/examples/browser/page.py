#!/usr/bin/env python3
"""Builds examples/browser, runs its module under node, and opens the page in a headless Chromium.

    python3 page.py ROOT WORK_FOLDER

The page must be one file of at most 2 MB that asks for nothing, and must read 95 % of 500 new digits. Exit code 77 where PyPI's
ziglang (ZIG="python3 -m ziglang") is missing; without node or Chromium these parts are left out.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

SKIPPED = 77
MOST_BYTES = 2_000_000
LEAST_ACCURACY = 95.0


def in_browser(browser, page, work):
    """The title once the page has learnt, by the browser's own print of the document."""
    # Budget: virtual time stands still while a worker computes, so it ends only when nothing is left to do.
    output = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={work / 'profile'}",
         "--virtual-time-budget=60000", "--timeout=120000", "--dump-dom", page.as_uri()],
        capture_output=True, text=True, timeout=600, check=True).stdout
    title = re.search(r"<title>(.*?)</title>", output).group(1)
    print(f"Chromium: {title}")
    found = re.match(r"([\d.]+) % of 500 new digits", title)
    if not found or float(found.group(1)) < LEAST_ACCURACY:
        sys.exit(f"the page says: {title}")
    subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={work / 'profile'}",
         "--virtual-time-budget=60000", "--timeout=120000", "--window-size=760,900",
         f"--screenshot={work / 'page.png'}", page.as_uri()],
        capture_output=True, timeout=600, check=True)


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
    text = page.read_text(encoding="utf-8")
    addresses = re.findall(r"(?:https?:)?//[a-z][\w.]*/|\bfetch\(|XMLHttpRequest|WebSocket|<link|<img|src=", text)
    if addresses:
        sys.exit(f"the page may ask for something: {addresses[:5]}")
    if shutil.which("node"):
        subprocess.run(["node", "--no-warnings", root / "tests/examples/browser/run.mjs", example / "worker.js",
                        work / "learner.wasm"], check=True)
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser:
        in_browser(browser, page, work)
    print("the page learns")


if __name__ == "__main__":
    main()
