#!/usr/bin/env python3
"""Every error id is explained in docs/errors.md, nothing else is, and every id can happen."""

import re

import house

ID = re.compile(r'^\s*inline constexpr ErrorId (\w+)\{"([^"]+)"\};', re.MULTILINE)
ROW = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)
FORM = re.compile(r"[a-z_]+\.[a-z_0-9]+")


def main():
    options = house.arguments(__doc__)
    ids_file = options.root / "include/soma/base/error_ids.hpp"
    ids = ID.findall(house.read(ids_file))
    problems = [] if ids else [f"no ids found in {ids_file}"]

    texts = [text for _, text in ids]
    problems += [f'"{text}" is given twice' for text in sorted(set(texts)) if texts.count(text) > 1]
    problems += [f'"{text}" is not of the form area.what' for text in texts if not FORM.fullmatch(text)]

    page = options.root / "docs/errors.md"
    rows = ROW.findall(house.read(page)) if page.is_file() else []
    problems += [f"docs/errors.md has no row for `{text}`" for text in texts if text not in rows]
    problems += [f"docs/errors.md explains `{row}`, which does not exist" for row in rows if row not in texts]
    problems += [f"docs/errors.md has two rows for `{row}`" for row in sorted(set(rows)) if rows.count(row) > 1]

    code = "\n".join(house.read(path) for path in house.code(options.root, "include") if path != ids_file)
    problems += [f"error_id::{name} is never used" for name, _ in ids
                 if not re.search(rf"\berror_id::{name}\b", code)]
    house.finish(problems, f"{len(ids)} error ids, all documented and used")


if __name__ == "__main__":
    main()
