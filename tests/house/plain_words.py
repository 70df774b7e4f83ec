#!/usr/bin/env python3
"""Comments in plain words: few begin with "What", "Of" or "Whether" instead of a subject and a verb.

A comment is a block of `//` lines that stand alone, or the comment behind code on one line. Documents are left out.
"""

import re

import house

FOLDERS = ("include", "examples", "tests", "bench", "fuzz")
MOST_COMMENTS = 60
COMMENT = re.compile(r'^(?P<code>(?:[^"/]|/(?!/)|"(?:[^"\\]|\\.)*")*?)//+<?\s*(?P<text>.*)$')
BEGINNING = re.compile(r"(?:What|Of|Whether)\b", re.IGNORECASE)


def comments(lines):
    """The line number and the first line of each comment."""
    before = None
    for number, line in enumerate(lines, start=1):
        found = COMMENT.match(line)
        column = len(found["code"]) if found else None
        if found and (found["code"].strip() or column != before):
            yield number, found["text"]
        before = column


def main():
    options = house.arguments(__doc__)
    count, begun = 0, []
    for folder in FOLDERS:
        for path in house.code(options.root, folder):
            for number, text in comments(house.read(path).splitlines()):
                count += 1
                if BEGINNING.match(text):
                    begun.append(f"{path.relative_to(options.root)}:{number}: {text}")
    summary = f"{count} comments, {len(begun)} begin with What, Of or Whether, at most {MOST_COMMENTS}"
    house.finish([*begun, summary] if len(begun) > MOST_COMMENTS else [], summary)


if __name__ == "__main__":
    main()
