#!/usr/bin/env python3
"""Compares what the tensorboard package reads in a folder with what write_events.cpp wrote."""

import sys

import numpy as np
from tensorboard.backend.event_processing.event_accumulator import SCALARS, EventAccumulator

RATE = "caf\u00e9/rate"


def scalars(events, tag):
    """Points may have become tensors: newer versions read every scalar so."""
    if tag in events.Tags()["scalars"]:
        return [(point.wall_time, point.step, point.value) for point in events.Scalars(tag)]
    return [(point.wall_time, point.step, point.tensor_proto.float_val[0]) for point in events.Tensors(tag)]


def main():
    events = EventAccumulator(sys.argv[1], size_guidance={SCALARS: 0})
    events.Reload()
    tags = events.Tags()
    assert sorted(tags["scalars"] + tags["tensors"]) == sorted(["loss", RATE]), tags
    loss, rate = scalars(events, "loss"), scalars(events, RATE)
    assert len(loss) == 100 and len(rate) == 10, (len(loss), len(rate))
    for i, (time, step, value) in enumerate(loss):
        assert (time, step, value) == (1000.5 + i, i * 10**9, float(np.float32(1 / (1 + i)))), (i, time, step, value)
    for i, (_, step, value) in enumerate(rate):
        assert (step, value) == (10 * i, float(np.float32(-1e-5 * 10 * i))), (i, step, value)
    print(f"tensorboard reads {len(loss) + len(rate)} points")


if __name__ == "__main__":
    main()
