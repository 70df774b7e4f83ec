#!/usr/bin/env python3
"""Draws training curves from the JSON logs of bert_classifier (--log-json) as an SVG picture.

    python3 docs/pictures/curves.py OUTPUT.svg [--line NAME=VALUE ...] LOG.jsonl [LOG.jsonl ...]

Left: the loss of each step, smoothed (each log a line). Right: accuracy on held-out rows, where the log has
evaluations (--evaluate-every); --line adds a level to compare with, such as a bag of words.
"""

import argparse
import json
import pathlib

WIDTH, HEIGHT, LEFT, TOP, BOTTOM, GAP = 920, 320, 60, 30, 40, 70
PANEL = (WIDTH - 2 * LEFT - GAP) / 2
COLORS = ("#1f5fa8", "#c2571a", "#2e8b57", "#7a4fa3", "#a63d57", "#5b6770", "#8a7a1f")
SMOOTHING = 0.95


def read(path):
    """(name, [(step, smoothed loss)], [(step, accuracy)])"""
    losses, accuracies, smooth, weight = [], [], 0.0, 0.0
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if entry.get("event") == "evaluation":
            accuracies.append((entry["step"], entry["accuracy"]))
        elif "loss" in entry and "event" not in entry:
            smooth = SMOOTHING * smooth + (1 - SMOOTHING) * entry["loss"]
            weight = SMOOTHING * weight + (1 - SMOOTHING)
            losses.append((entry["step"], smooth / weight))
    return pathlib.Path(path).stem, losses, accuracies


def ticks(low, high, count=5):
    """Round numbers between two."""
    raw = (high - low) / count
    step = next(size * 10.0**power for power in range(-6, 7) for size in (1, 2, 5) if size * 10.0**power >= raw)
    first = -(-low // step)
    values = []
    while first * step <= high + 1e-9:
        values.append(first * step + 0.0)  # no -0
        first += 1
    return values


class Panel:
    def __init__(self, index, title, steps, low, high):
        self.x = LEFT + index * (PANEL + GAP)
        self.steps, self.low, self.high = steps, low, high
        self.parts = [text(self.x, TOP - 12, title, "start", "bold")]
        for value in ticks(low, high):
            y = self.at(0, value)[1]
            self.parts.append(f'<path d="M{self.x:.1f} {y:.1f}h{PANEL:.1f}" stroke="#ddd"/>')
            self.parts.append(text(self.x - 6, y + 4, f"{value:g}", "end"))
        for value in ticks(0, steps):
            self.parts.append(text(self.at(value, low)[0], HEIGHT - BOTTOM + 16, f"{value:g}", "middle"))
        self.parts.append(text(self.x + PANEL, HEIGHT - 6, "step", "end"))

    def at(self, step, value):
        height = HEIGHT - TOP - BOTTOM
        return (self.x + PANEL * step / self.steps,
                TOP + height * (self.high - value) / (self.high - self.low))

    def curve(self, points, color):
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in (self.at(*point) for point in points))
        self.parts.append(f'<path d="{path}" fill="none" stroke="{color}" stroke-width="1.5"/>')

    def level(self, name, value):
        x, y = self.at(0, value)
        self.parts.append(f'<path d="M{x:.1f} {y:.1f}h{PANEL:.1f}" stroke="#444" stroke-dasharray="4 3"/>')
        self.parts.append(text(x + PANEL - 4, y - 4, f"{name} {value:g}", "end"))


def text(x, y, content, anchor, weight="normal"):
    content = content.replace("&", "&amp;").replace("<", "&lt;")
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" '
            f'font-family="sans-serif" font-size="12" fill="#222">{content}</text>')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output")
    parser.add_argument("logs", nargs="+")
    parser.add_argument("--line", action="append", default=[], metavar="NAME=VALUE")
    options = parser.parse_args()
    runs = [read(path) for path in options.logs]
    lines = [(name, float(value)) for name, value in (line.rsplit("=", 1) for line in options.line)]

    steps = max(losses[-1][0] for _, losses, _ in runs)
    loss = Panel(0, "loss, smoothed", steps, 0, max(value for _, losses, _ in runs for _, value in losses) * 1.05)
    levels = [value for _, _, points in runs for _, value in points] + [value for _, value in lines]
    accuracy = Panel(1, "accuracy, held out", steps, max(0.0, min(levels) - 0.02), min(1.0, max(levels) + 0.02))
    for i, (name, losses, accuracies) in enumerate(runs):
        color = COLORS[i % len(COLORS)]
        loss.curve(losses, color)
        if accuracies:
            accuracy.curve(accuracies, color)
        loss.parts.append(text(loss.x + PANEL - 4, TOP + 14 + 15 * i, name, "end").replace("#222", color))
    for name, value in lines:
        accuracy.level(name, value)
    body = "\n".join(loss.parts + accuracy.parts)
    pathlib.Path(options.output).write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}">\n'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>\n{body}\n</svg>\n', encoding="utf-8")


if __name__ == "__main__":
    main()
