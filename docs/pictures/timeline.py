#!/usr/bin/env python3
"""Draws traces of a NeuronCore's programs (neuroncore::write_trace) one below the other, on one scale of time.

    python3 docs/pictures/timeline.py OUTPUT.svg "TITLE=TRACE.json" ["TITLE=TRACE.json" ...]

A row for each engine and DMA queue; a box is the time in which an instruction or a transfer occupies it. Boxes that
follow one another within a tenth of a microsecond are drawn as one.
"""

import argparse
import json
import pathlib

WIDTH, LEFT, RIGHT, ROW, BAR = 920, 110, 20, 20, 14
COLORS = {"tensor": "#7a4fa3", "vector": "#1f5fa8", "scalar": "#c2571a", "gpsimd": "#a63d57", "dma": "#2e8b57"}
GAP = 0.1  # microseconds


def read(path):
    """([(row, [(begin, end)])], end of the last): microseconds, rows in the trace's order."""
    names, slices = {}, {}
    for event in json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["traceEvents"]:
        if event["ph"] == "M" and event["name"] == "thread_name":
            names[event["tid"]] = event["args"]["name"]
        elif event["ph"] == "X":
            slices.setdefault(event["tid"], []).append((event["ts"], event["ts"] + event["dur"]))
    rows = []
    for row, name in sorted(names.items()):
        if name.split()[0] not in COLORS:
            continue  # regions and operators are not engines
        merged = []
        for begin, end in sorted(slices.get(row, [])):
            if merged and begin <= merged[-1][1] + GAP:
                merged[-1][1] = max(merged[-1][1], end)
            else:
                merged.append([begin, end])
        rows.append((name, merged))
    return rows, max(end for _, merged in rows for _, end in merged)


def text(x, y, content, anchor="start", weight="normal"):
    content = content.replace("&", "&amp;").replace("<", "&lt;")
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" '
            f'font-family="sans-serif" font-size="12" fill="#222">{content}</text>')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output")
    parser.add_argument("traces", nargs="+", metavar="TITLE=TRACE")
    options = parser.parse_args()
    traces = [(title, *read(path)) for title, path in (trace.rsplit("=", 1) for trace in options.traces)]
    longest = max(end for _, _, end in traces)
    scale = (WIDTH - LEFT - RIGHT) / longest
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000) if longest / step <= 10)

    parts, y = [], 24
    for title, rows, end in traces:
        parts.append(text(LEFT, y, f"{title}: {end:.0f} microseconds", weight="bold"))
        y += 8
        bottom = y + ROW * len(rows)
        for tick in range(0, int(longest) + 1, step):
            x = LEFT + tick * scale
            parts.append(f'<path d="M{x:.1f} {y}V{bottom}" stroke="#ddd"/>')
            parts.append(text(x, bottom + 14, str(tick), "middle"))
        for name, merged in rows:
            parts.append(text(LEFT - 8, y + 14, name, "end"))
            color = COLORS[name.split()[0]]
            parts += [f'<rect x="{LEFT + begin * scale:.1f}" y="{y + 3}" width="{max(0.4, (last - begin) * scale):.1f}" '
                      f'height="{BAR}" fill="{color}"/>' for begin, last in merged]
            y += ROW
        y += 44
    height = y - 14
    body = "\n".join(parts)
    pathlib.Path(options.output).write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}">\n'
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>\n{body}\n</svg>\n', encoding="utf-8")


if __name__ == "__main__":
    main()
