#!/usr/bin/env python3
"""What tests/everything.py promises, with suites that take no time: it goes on after a failure and where it was stopped.

Usage: every_suite.py --root CHECKOUT
"""

import argparse
import contextlib
import io
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = None


def suite(name, script):
    return everything.Suite(name, ["bash", "-c", script])


class Everything(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.page = Path(self.folder.name) / "page.md"

    def run_all(self, suites, now="abc", cpu="a CPU", **options):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            failed = everything.run_all(suites, self.page, Path(self.folder.name) / "logs", now, cpu, **options)
        return failed, said.getvalue(), everything.read_rows(self.page)

    def test_goes_on_after_a_failure(self):
        failed, _, rows = self.run_all([suite("bad", "echo the reason; exit 3"), suite("good", "exit 0")])
        self.assertEqual((failed, rows["bad"].result, rows["good"].result), (1, "failed", "passed"))
        self.assertEqual(rows["bad"].reason, "the reason")
        self.assertEqual((rows["good"].state, rows["good"].cpu), ("abc", "a CPU"))

    def test_goes_on_where_it_was(self):
        marks = Path(self.folder.name) / "marks"
        suites = [suite("first", f"echo first >> {marks}"), suite("second", f"echo second >> {marks}; exit 1"),
                  suite("third", f"echo third >> {marks}; echo SKIPPED: no wheel; exit 77")]
        self.run_all(suites)
        _, _, rows = self.run_all(suites)
        self.assertEqual(marks.read_text().split(), ["first", "second", "third", "second"])
        self.assertEqual((rows["third"].result, rows["third"].reason), ("skipped", "SKIPPED: no wheel"))
        self.run_all(suites[:1], now="def")  # another state
        self.run_all(suites[:1], now="def", cpu="another CPU")
        self.run_all(suites[:1], now="def", cpu="another CPU", again=True)
        self.run_all(suites[:1], now="def+", cpu="another CPU")
        self.run_all(suites[:1], now="def+", cpu="another CPU")  # what was changed may have changed again
        self.assertEqual(marks.read_text().split().count("first"), 6)
        self.assertEqual(set(everything.read_rows(self.page)), {"first", "second", "third"})

    def test_two_runs_at_once(self):
        row = everything.Row("other", "passed").line().strip()
        self.run_all([suite("first", "exit 0")])
        _, _, rows = self.run_all([suite("second", f"echo '{row}' >> {self.page}")], order=["other", "second", "first"])
        self.assertEqual(list(rows), ["other", "second", "first"])

    def test_time_is_up(self):
        start = time.monotonic()
        long = suite("long", "sleep 300 & wait")
        _, said, rows = self.run_all([suite("short", "exit 0"), long, suite("later", "exit 0")], hours=1.5 / 3600)
        self.assertLess(time.monotonic() - start, 60)
        self.assertEqual(set(rows), {"short"})
        self.assertEqual(said.count("the time is up"), 2)

    def test_judged(self):
        summary = "50% tests passed, 1 tests failed out of 2\n\nThe following tests FAILED:\n\t  7 - io_test/reads (Failed)\n"
        self.assertEqual(everything.judged(8, summary), ("failed", "2", "io_test/reads"))
        summary = "100% tests passed, 0 tests failed out of 3\nThe following tests did not run:\n\t1871 - parallel/hosts (Skipped)\n"
        self.assertEqual(everything.judged(0, summary), ("passed", "3", "skipped: parallel/hosts"))
        summary = "5: SKIPPED: no node\n100% tests passed, 0 tests failed out of 1\n\t5 - platforms (Skipped)\n"
        self.assertEqual(everything.judged(0, summary), ("skipped", "", "SKIPPED: no node"))

    def test_state_and_page(self):
        git = lambda *arguments: subprocess.run(["git", "-C", self.folder.name, "-c", "user.name=a", "-c", "user.email=a@b",
                                                 *arguments], check=True, capture_output=True)
        git("init", "-q")
        (Path(self.folder.name) / "code").write_text("1")
        git("add", "code")
        git("commit", "-qm", "first")
        first = everything.state(self.folder.name, "page.md")
        self.page.write_text("rows")
        git("add", "page.md")
        git("commit", "-qm", "page")
        self.assertEqual(everything.state(self.folder.name, "page.md"), first)
        (Path(self.folder.name) / "code").write_text("2")
        self.assertEqual(everything.state(self.folder.name, "page.md"), first + "+")

    def test_the_list_has_all(self):
        names = [one.name for one in everything.all_suites()]
        self.assertEqual(len(names), len(set(names)))
        for name in ("ordinary", "asan", "ubsan", "tsan", "dev-clang", "fresh bookworm first_step", "release build"):
            self.assertIn(name, names)
        for source in (ROOT / "fuzz").glob("*_fuzz.cpp"):
            self.assertIn("fuzz " + source.stem.removesuffix("_fuzz"), names)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=Path, required=True)
    options, rest = parser.parse_known_args()
    ROOT = options.root.resolve()
    sys.path.insert(0, str(ROOT / "tests"))
    import everything
    unittest.main(argv=[sys.argv[0], *rest])
