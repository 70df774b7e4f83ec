#!/usr/bin/env python3
"""What the scripts of comparison take and refuse, with a worker that measures nothing. Needs neither a build nor PyTorch.

Usage: comparisons.py --root CHECKOUT
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

parser = argparse.ArgumentParser()
parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
BENCH = parser.parse_args().root / "bench"
WORKER = f"""#!{sys.executable}
import sys
for line in sys.stdin:
    print('{{"seconds": 1, "tokens": 1, "gflops": 2, "peak": 4, "rss": 1073741824}}', flush=True)
"""


class Compare(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.worker = self.folder / "worker"
        self.worker.write_text(WORKER, encoding="utf-8")
        self.worker.chmod(0o755)

    def compare(self, *words):
        return subprocess.run([sys.executable, "-B", BENCH / "yardstick/compare.py", self.worker, "--rounds=1", *words],
                              capture_output=True, text=True, check=False, timeout=60)

    def test_a_case_is_measured(self):
        result = self.compare("--cases=^recompute/")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        rows = [line for line in result.stdout.splitlines() if line.startswith("recompute/")]
        self.assertEqual(len(rows), 1)
        self.assertEqual(rows[0].split()[-6:], ["1.00", "2.00", "2.00", "0.50", "1.00", "1.00"])
        self.assertIn("no folder of lengths", result.stdout)

    def test_cases_with_texts_need_a_folder(self):
        result = self.compare(str(self.folder), "--cases=^recompute/")
        self.assertEqual(result.returncode, 0)
        self.assertEqual(result.stdout.count("\nrecompute/"), 2)
        self.assertNotIn("no folder of lengths", result.stdout)

    def test_one_thread_is_measured_once(self):
        result = self.compare("--threads=1", "--cases=^linear/1024x768x768/fp8_e4m3 beside bf16/dx")
        self.assertEqual(result.stdout.count("\nlinear/"), 1)

    def test_what_cannot_be_is_refused(self):
        for words, message in (([str(self.folder / "none")], "no folder"), (["--cases=no such case"], "no case matches"),
                               (["--rounds=0"], "at least 1"), (["--threads=0"], "at least 1")):
            result = self.compare(*words)
            self.assertEqual(result.returncode, 2, words)
            self.assertIn(message, result.stderr)


class Scripts(unittest.TestCase):
    def test_help_needs_nothing(self):
        for name in ("compare_pytorch.sh", "compare_ml_dtypes.sh"):
            for word in ("--help", "-h"):
                result = subprocess.run(["bash", BENCH / name, word], capture_output=True, text=True, check=False,
                                        timeout=60, env={**os.environ, "LC_ALL": "C"})
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                self.assertIn(f"Usage: bash bench/{name}", result.stdout)
                self.assertNotIn("set -euo", result.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
