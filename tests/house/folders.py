#!/usr/bin/env python3
"""The maps are true: the table of folders in docs/design.md, and the README.md of each folder of include/soma.

The table names every folder with its layer (as in layering.py) and, in its row, every folder inside it. A README.md
names every header of its folder, and no file or folder that does not exist. The folders of kernels/ have one each.
A folder impl/ belongs to the headers beside it: it holds their functions, in .ipp files, and nothing else does.
"""

import re

import house
import layering

ROW = re.compile(r"^\| `(\w+)/` \| (\d+|above) \| (.*) \|$", re.MULTILINE)
CODE = re.compile(r"`([\w./-]+)`")
IMPL = "impl"
WITH_README = ("kernels", "ops", "programs", "neuroncore")


def check_table(root, report):
    page = house.read(root / "docs/design.md")
    rows = {name: (layer, text) for name, layer, text in ROW.findall(page)}
    folders = {path.name: path for path in (root / "include/soma").iterdir() if path.is_dir() and path.name != IMPL}
    for name in sorted(folders.keys() - rows.keys()):
        report(f"docs/design.md: no row for `{name}/`")
    for name, (layer, text) in rows.items():
        if name not in folders:
            report(f"docs/design.md: `{name}/` is no folder of include/soma")
            continue
        wanted = "above" if name == "dispatch" else str(layering.LAYERS.get(name))
        if layer != wanted:
            report(f"docs/design.md: `{name}/` is layer {layer}, but {wanted} in tests/house/layering.py")
        for inner in sorted(path.name for path in folders[name].iterdir() if path.is_dir() and path.name != IMPL):
            if f"`{inner}/`" not in text:
                report(f"docs/design.md: the row of `{name}/` does not name `{inner}/`")


def check_readme(root, folder, report):
    readme = folder / "README.md"
    place = readme.relative_to(root)
    if not readme.is_file():
        report(f"{place} does not exist")
        return
    named = {code for code in CODE.findall(house.read(readme)) if code.endswith((".hpp", house.FUNCTIONS, "/"))}
    for code in sorted(named):
        inside, elsewhere = folder / code, root / "include" / code
        if not inside.exists() and not elsewhere.exists() and not (folder.parent / code).exists():
            report(f"{place}: no `{code}`")
    for path in sorted(folder.rglob("*.hpp")):
        inner = path.relative_to(folder)
        covered = len(inner.parts) > 1 and (path.parent / "README.md").is_file()
        listed = len(inner.parts) > 1 and f"{inner.parts[0]}/" in named
        if not covered and not listed and inner.as_posix() not in named:
            report(f"{place} does not name `{inner.as_posix()}`")


def check_impl(root, report):
    for path in sorted((root / "include/soma").rglob("*")):
        if path.is_file() and (path.parent.name == IMPL) != (path.suffix == house.FUNCTIONS):
            report(f"{path.relative_to(root)}: {IMPL}/ is for {house.FUNCTIONS} files, and the only place for them")


def main():
    options = house.arguments(__doc__)
    problems = []
    check_table(options.root, problems.append)
    check_impl(options.root, problems.append)
    readmes = 0
    for name in WITH_README:
        top = options.root / "include/soma" / name
        inner = sorted(path for path in top.iterdir() if path.is_dir() and path.name != IMPL) if name == "kernels" else []
        for folder in [top, *inner]:
            check_readme(options.root, folder, problems.append)
            readmes += 1
    house.finish(problems, f"the table of folders and {readmes} README.md are true")


if __name__ == "__main__":
    main()
