#!/usr/bin/env python3
"""soma-ls and soma-top from outside: what they print, as text and as JSON, and what they refuse.

usage: tools.py SOMA_LS SOMA_TOP
"""

import json
import os
import subprocess
import sys
import tempfile


def run(*command, **surroundings):
    environment = {**os.environ, **surroundings}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    return done.returncode, done.stdout, done.stderr


def main():
    ls, top = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        code, out, err = run(ls, "trn1.32xlarge", "--topology", XDG_RUNTIME_DIR=folder)
        assert code == 0 and err == "", err
        assert "1, 3, 4, 12" in out and "sources disagree" in out and "24.725 $ an hour" in out, out
        assert "[ 0]--[ 1]--[ 2]--[ 3]" in out, out
        code, out, _ = run(ls, "trn1.2xlarge", XDG_RUNTIME_DIR=folder)
        assert code == 0 and "not given" in out, out

        code, out, _ = run(ls, "trn1.32xlarge", "--json", XDG_RUNTIME_DIR=folder)
        told = json.loads(out)
        assert code == 0 and len(told["devices"]) == 16
        assert told["devices"][0]["connected_to"] == [1, 3, 4, 12]
        assert [figure["value"] for figure in told["bf16_tflops"]] == [3400, 3040]
        assert told["dollars_per_hour"]["source"]

        for wrong in (["trn7"], ["--frobnicate"]):
            code, out, err = run(ls, *wrong)
            assert code == 2 and out == "" and len(err.splitlines()) == 1, (code, err)
            assert err.rstrip().endswith("]"), err

        os.mkdir(os.path.join(folder, "soma"))
        with open(os.path.join(folder, "soma", "17"), "w", encoding="ascii") as page:
            page.write("something else")
        code, out, _ = run(top, "--once", XDG_RUNTIME_DIR=folder)
        assert code == 0 and "no run publishes a page" in out and '"17": is no page of a run' in out, out
        code, out, _ = run(top, "--once", "--json", XDG_RUNTIME_DIR=folder)
        assert code == 0 and json.loads(out) == {"runs": [], "left_out": ['"17": is no page of a run']}, out
        code, out, err = run(top, "--once", XDG_RUNTIME_DIR="")
        assert code == 1 and err.rstrip().endswith("[file.write]"), err
        code, out, err = run(top, "--every", "0")
        assert code == 2 and err.rstrip().endswith("[cli.usage]"), err


if __name__ == "__main__":
    main()
