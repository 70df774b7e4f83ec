#!/usr/bin/env python3
"""soma-ls and soma-top from outside: what they print, as text and as JSON, and what they refuse.

usage: tools.py SOMA_LS SOMA_TOP SOMA_PROFILE [BERT_CLASSIFIER]
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import event_files

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import program as tool  # noqa: E402  (it lies one folder up)


def run(*command, **surroundings):
    environment = {**os.environ, **surroundings}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    return done.returncode, done.stdout, done.stderr


def watch_a_run(top, classifier, folder):
    """A training run that is asked to shows up while it trains, and is gone behind it."""
    os.remove(os.path.join(folder, "soma", "17"))
    watch(top, classifier, folder, (), "measured")
    told = watch(top, classifier, folder, ("--device", "neuroncore", "--run-mode", "lazy", "--predict"), "predicted")
    assert told["engines"] == ["tensor", "vector", "scalar", "gpsimd", "dma"] and len(told["busy"]) == 5, told


def watch(top, classifier, folder, options, busy_is):
    training = tool.Process([classifier, "train", "--reviews", "2000", "--epochs", "50",
                             "--threads", "1", "--quiet", "--publish", *options],
                            env={**os.environ, "XDG_RUNTIME_DIR": folder}, stdout=subprocess.DEVNULL)
    try:
        told = []
        for _ in range(600):
            _, out, _ = run(top, "--once", "--json", XDG_RUNTIME_DIR=folder)
            told = json.loads(out)["runs"]
            if told and told[0]["step"] > 0 and told[0]["busy"] and told[0]["busy_is"] == busy_is:
                break
            time.sleep(0.1)
        assert told and told[0]["pid"] == training.pid, told
        assert " train --reviews 2000" in told[0]["command"] and told[0]["model"] == "bert", told
        assert told[0]["step"] > 0 and told[0]["steps_per_second"] > 0 and told[0]["resident_bytes"] > 0, told
        assert all(0 <= share <= 1 for share in told[0]["busy"]) and max(told[0]["busy"]) > 0, told
        assert told[0]["busy_is"] == busy_is and told[0]["cpus"] > 0, told
        assert (told[0]["device_bytes"] > 0) == (busy_is == "predicted"), told
        _, out, _ = run(top, "--once", XDG_RUNTIME_DIR=folder)
        shown = "threads, measured" if busy_is == "measured" else "engines, predicted"
        assert str(training.pid) in out and shown in out, out
        assert busy_is == "measured" or "tensor [" in out, out
    finally:
        training.terminate()
        training.wait()
    _, out, _ = run(top, "--once", "--json", XDG_RUNTIME_DIR=folder)
    assert json.loads(out)["runs"] == [], out
    return told[0]


def counters_of_a_run(classifier, folder):
    """A run on the accelerator's core leaves what the core did in its event files, step by step."""
    events = os.path.join(folder, "events")
    code, out, err = run(classifier, "train", "--reviews", "100", "--vocab-size", "300", "--max-length", "16",
                         "--batch-size", "10", "--max-steps", "4", "--quiet", "--device", "neuroncore",
                         "--run-mode", "lazy", "--predict", "--tensorboard", events)
    assert code == 0 and " compiled, " in out and "predicted  " in out, (out, err)
    told = event_files.scalars(events)
    for name in ("launches", "cuts", "compilations", "hits", "predicted_ms", "busy/tensor", "busy/dma"):
        points = told["device/" + name]
        assert [step for step, _ in points] == [1, 2, 3, 4], (name, points)
        if not name.startswith(("predicted", "busy")):
            assert all(a <= b for (_, a), (_, b) in zip(points, points[1:])), (name, points)
    assert told["device/compilations"][0][1] > 0 and told["device/launches"][0][1] > 0, told
    assert all(value > 0 for _, value in told["device/predicted_ms"]), told
    assert all(0 < value <= 1 for _, value in told["device/busy/tensor"]), told
    code, out, err = run(classifier, "train", "--reviews", "100", "--predict")
    assert code == 2 and err.rstrip().endswith("[cli.usage]") and "--device neuroncore" in err, (code, err)


def published(profile):
    """The published run stands beside the prediction of its own step, and of no other."""
    code, out, err = run(profile, "bert-base", "--batch", "8", "--length", "128", "--instance", "trn1.32xlarge")
    assert code == 0 and "No agreement is claimed" in out and "left out: the host" in out, (out, err)
    assert "22 % faster, up to 50 % cheaper; its own figures give 22 and 40 %" in out, out
    assert "6.64 steps a second" in out and "3915 are no steps" in out and "1797 if twice" in out, out
    ratio = float(re.search(r"which is ([0-9.]+) times that", out)[1])
    assert 1 <= ratio <= 4, ratio  # of the published step's time to the predicted one's


def profiles(profile, folder):
    code, out, err = run(profile, "matmul", "128x128", "128x512", "--type", "bf16")
    assert code == 0 and err == "" and out.startswith("estimate by published rules"), (out, err)
    page, trace = os.path.join(folder, "page.html"), os.path.join(folder, "trace.json")
    code, out, err = run(profile, "matmul", "128x128", "128x512", "--json", "--page", page, "--trace", trace)
    assert code == 0 and isinstance(json.loads(out), dict), err
    with open(trace, encoding="utf-8") as file:
        assert json.load(file)
    with open(page, encoding="utf-8") as file:
        assert file.read().startswith("<!DOCTYPE html>")
    step = ["bert-tiny", "--batch", "2", "--length", "16", "--instance", "trn1.32xlarge"]
    launches, told = [], []
    has_events = "--tensorboard" in run(profile, "--help")[1]
    for mode in ("eager", "lazy"):
        events = os.path.join(folder, "events of " + mode)
        code, out, err = run(profile, *step, "--mode", mode, *(("--tensorboard", events) if has_events else ()))
        assert code == 0 and "left out: the host" in out and "published fine-tuning" not in out, (out, err)
        launches.append(int(next(line for line in out.splitlines() if " launches in mode " in line).split()[0]))
        if not has_events:  # built without protozero
            continue
        told.append(event_files.scalars(events))
        assert told[-1]["device/launches"] == [(1, launches[-1])], told[-1]
        assert 0 < told[-1]["device/busy/vector"][0][1] <= 1, told[-1]
        assert any(name.startswith("operators/") and points[0][1] > 0 for name, points in told[-1].items()), told[-1]
    assert launches[0] > 10 * launches[1], launches
    if has_events:
        assert "device/compilations" not in told[0] and told[1]["device/compilations"][0][1] > 0, told
        assert 0 < told[1]["device/predicted_ms"][0][1] <= told[0]["device/predicted_ms"][0][1], told
    published(profile)
    for wrong in (["no_such_operator", "1"], ["matmul", "axb"], ["bert-tiny", "--length", "4096"],
                  ["bert-tiny", "--mode", "fast"], ["matmul", "2x2", "2x2", "--type", "fp13"],
                  ["matmul", "2x2", "2x2", "--instance", "trn1.32xlarge"]):
        code, out, err = run(profile, *wrong)
        assert code == 2 and len(err.splitlines()) == 1 and err.rstrip().endswith("[cli.usage]"), (wrong, code, err)
    code, out, err = run(profile, "bert-tiny", "--instance", "trn7")
    assert code == 2 and out == "" and err.rstrip().endswith("[neuroncore.instance]"), (code, out, err)
    code, out, err = run(profile, "matmul", "2x3", "2x3")
    assert code == 1 and len(err.splitlines()) == 1 and err.rstrip().endswith("]"), (code, err)


def main():
    ls, top, profile = sys.argv[1:4]
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
        code, out, err = run(ls, "--instance", "trn3-ultraserver-gen2", "-t", XDG_RUNTIME_DIR=folder)
        assert code == 0 and err == "" and "1152 cores, 2 appear as one" in out, (out, err)
        assert "between racks       128 GB/s a chip" in out and "36 servers of 4 chips" in out, out
        code, out, _ = run(ls, "trn2-ultraserver", "--json", XDG_RUNTIME_DIR=folder)
        told = json.loads(out)
        assert [link["gb_per_s"]["value"] for link in told["links"]] == [1024, 256] and told["servers"] == 4, out
        assert told["devices"][0]["connected_to"] == [1, 3, 4, 12, 16, 48], out
        assert [figure["value"] for figure in told["device_memory_gb_per_s"]] == [192000, 185600], out
        code, out, _ = run(ls, "trn1.32xlarge", "-j", XDG_RUNTIME_DIR=folder)
        told = json.loads(out)
        assert code == 0 and len(told) == 16 and told[0]["connected_to"] == [1, 3, 4, 12], out
        assert told[3]["nc_count"] == 2 and told[3]["memory_size"] == 32 << 30 and told[3]["numa_node"] is None, out
        assert told[0]["neuron_processes"] == [] and told[0]["bdf"] is None, out

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
        if len(sys.argv) > 4:
            watch_a_run(top, sys.argv[4], folder)
            counters_of_a_run(sys.argv[4], folder)
        profiles(profile, folder)
        code, out, err = run(top, "--every", "0")
        assert code == 2 and err.rstrip().endswith("[cli.usage]"), err


if __name__ == "__main__":
    main()
