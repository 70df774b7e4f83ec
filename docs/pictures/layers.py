#!/usr/bin/env python3
"""Draws docs/pictures/layers.svg: the folders of include/soma as layers, from their #include lines.

    python3 docs/pictures/layers.py            draws it
    python3 docs/pictures/layers.py --check    ends with 1 if the picture is not the one that would be drawn

A row is a layer, with the numbers of tests/house/layering.py. An arrow means "includes". Arrows that follow from
others are left out: where a includes b and b includes c, no arrow goes from a to c.
"""

import argparse
import collections
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/house"))

import house  # noqa: E402
import layering  # noqa: E402

PICTURE = ROOT / "docs/pictures/layers.svg"
HOLDS = {
    "autograd": "variables, the tape",
    "base": "errors, configuration",
    "compat": "for shared libraries",
    "data": "batches, orders, splits",
    "dispatch": "the compiled units",
    "io": "files, logs, images",
    "kernels": "pure functions on spans",
    "metrics": "accuracy, F1, R2",
    "models": "BERT, Mlp, ConvNet",
    "neuroncore": "the accelerator's core",
    "nn": "modules, tasks",
    "system": "calls of the operating system",
    "numeric": "formats, rounding, draws",
    "ops": "operators as records",
    "optim": "optimizers, schedules",
    "parallel": "ranks, sums over them",
    "programs": "operators on that core",
    "runtime": "context, threads, memory",
    "simd": "vector lanes",
    "state": "named tensors",
    "tensor": "tensors, ragged batches",
    "testing": "checks of operators",
    "text": "readers, tokenizer",
    "train": "trainer, ranks, reports",
}
WIDTH, LEFT, BOX, HEIGHT, ROW, TOP = 1040, 34, 156, 40, 78, 8
COLORS = ("#eef3f9", "#ffffff")


def graph(root):
    """{folder: folders that its files include}; files beside the folders are left out."""
    include = root / "include"
    uses = collections.defaultdict(set)
    for path in sorted((include / "soma").rglob("*")):
        if path.suffix not in (".hpp", ".h", ".ipp", ".cpp"):
            continue
        own = layering.folder(path.relative_to(include).as_posix())
        for _, _, used in house.includes(path):
            other = layering.folder(used) if used.startswith("soma/") else ""
            if own and other and other != own:
                uses[own].add(other)
    return uses


def reduced(uses):
    """Without the arrows that follow from others. The graph has no cycles: layers see to that."""
    reached = {}

    def reach(name):
        if name not in reached:
            reached[name] = set(uses[name]).union(*(reach(other) for other in sorted(uses[name])))
        return reached[name]

    return {name: sorted(other for other in uses[name]
                         if not any(other in reach(between) for between in uses[name]))
            for name in sorted(layering.LAYERS)}


def places(arrows):
    """{folder: (x, y) of the middle of its box}: in each row, near the folders that it has arrows to."""
    rows = collections.defaultdict(list)
    for name, layer in sorted(layering.LAYERS.items()):
        rows[layer].append(name)
    around = collections.defaultdict(list)
    for name, others in arrows.items():
        for other in others:
            around[name].append(other)
            around[other].append(name)
    x = {}

    def spread(names):
        step = (WIDTH - LEFT) / len(names)
        for i, name in enumerate(names):
            x[name] = LEFT + step * (i + 0.5)

    def near(name):
        return sum(x[other] for other in around[name]) / max(1, len(around[name]))

    for names in rows.values():
        spread(names)
    for _ in range(8):  # settles after a few rounds; the number is fixed, so the picture is too
        for names in (rows[layer] for layer in sorted(rows)):
            if len(names) == 1 and around[names[0]]:
                x[names[0]] = min(max(near(names[0]), LEFT + BOX / 2), WIDTH - BOX / 2)
                continue
            names.sort(key=lambda name: (near(name), name))
            spread(names)
    top = max(rows)
    return {name: (x[name], TOP + ROW * (top - layer) + ROW / 2) for layer, names in rows.items() for name in names}


def text(x, y, content, size, weight="normal", color="#222", anchor="middle"):
    content = content.replace("&", "&amp;").replace("<", "&lt;")
    return (f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" font-family="sans-serif" font-size="{size}" '
            f'font-weight="{weight}" fill="{color}">{content}</text>')


def arrow(start, end):
    (x, y), (to_x, to_y) = (start[0], start[1] + HEIGHT / 2), (end[0], end[1] - HEIGHT / 2 - 5)
    bend = (to_y - y) / 2
    return (f'<path d="M{x:.0f} {y:.0f}C{x:.0f} {y + bend:.0f} {to_x:.0f} {to_y - bend:.0f} {to_x:.0f} {to_y:.0f}" '
            'fill="none" stroke="#7d8fa6" stroke-width="1.2" marker-end="url(#head)"/>')


def draw(root):
    arrows = reduced(graph(root))
    at = places(arrows)
    rows = max(layering.LAYERS.values()) + 1
    height = TOP + ROW * rows + 8
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}">',
             '<defs><marker id="head" viewBox="0 0 6 6" refX="3" refY="3" markerWidth="6" markerHeight="6" orient="auto">'
             '<path d="M0 0L6 3L0 6z" fill="#7d8fa6"/></marker></defs>',
             f'<rect width="{WIDTH}" height="{height}" fill="white"/>']
    for layer in range(rows):
        y = TOP + ROW * (rows - 1 - layer)
        parts.append(f'<rect x="0" y="{y}" width="{WIDTH}" height="{ROW}" fill="{COLORS[layer % 2]}"/>')
        parts.append(text(14, y + ROW / 2 + 4, str(layer), 12, color="#7d8fa6"))
    parts += [arrow(at[name], at[other]) for name, others in arrows.items() for other in others]
    for name, (x, y) in sorted(at.items()):
        parts.append(f'<rect x="{x - BOX / 2:.0f}" y="{y - HEIGHT / 2:.0f}" width="{BOX}" height="{HEIGHT}" rx="4" '
                     'fill="white" stroke="#1f5fa8"/>')
        parts.append(text(x, y - 3, name + "/", 13, "bold"))
        parts.append(text(x, y + 12, HOLDS[name], 11, color="#444"))
    return "\n".join([*parts, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    options = parser.parse_args()
    picture = draw(ROOT)
    if not options.check:
        PICTURE.write_text(picture, encoding="utf-8")
    elif not PICTURE.is_file() or house.read(PICTURE) != picture:
        sys.exit("docs/pictures/layers.svg is not what the #include lines say: python3 docs/pictures/layers.py draws it")


if __name__ == "__main__":
    main()
