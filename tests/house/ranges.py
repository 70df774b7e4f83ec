#!/usr/bin/env python3
"""Every number of options and settings stands in its struct's table, and says what values it may have.

The table of a struct is its function fields() (ops/fields.hpp). A floating-point member names its range there, also where any number
is right (any_number), so that nobody forgets to think of NaN, infinity and 0; a factor may be any number. Whole numbers have to be
listed. So have to be the numbers of structs that are members: they have tables of their own.
"""

import re

import house

FOLDERS = ("optim", "nn", "ops", "train")
# Other structs whose numbers decide steps.
ALSO = {"Schedule", "Group", "Step"}
STRUCT = re.compile(r"^( *)struct (\w+) (?:final )?\{\n(.*?)^\1\};", re.MULTILINE | re.DOTALL)
TABLE = re.compile(r"void fields\(FieldVisitor& visitor, (\w+)& \w+\) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
ENTRY = re.compile(r'visitor\.(\w+)\(\s*"(\w+)",\s*([\w.]+)(,[^;]*)?\);')
FLOATING = r"float|double"
WHOLE = r"std::size_t|std::u?int(?:8|16|32|64)_t|int|unsigned"
MEMBER = re.compile(rf"^(?:std::optional<)?({FLOATING}|{WHOLE}|\w+(?:Options|Settings?))>? ([^()]*);$")


def members(body):
    """(type, name) of the members of numbers and of structs of numbers."""
    plain = re.sub(r"//[^\n]*", "", body)
    plain = re.sub(r"\s+", " ", plain)
    for statement in re.split(r"(?<=;)", plain):
        match = MEMBER.match(statement.strip())
        if not match or statement.strip().startswith("static"):
            continue
        depth, names, name = 0, [], ""
        for letter in match.group(2) + ",":
            depth += (letter in "{([") - (letter in "})]")
            if letter == "," and depth == 0:
                names.append(name)
                name = ""
            else:
                name += letter
        for each in names:
            yield match.group(1), re.match(r"\w+", each.strip()).group(0)


def main():
    options = house.arguments(__doc__)
    structs, tables = {}, {}
    for folder in FOLDERS:
        for path in house.code(options.root, f"include/soma/{folder}"):
            text = house.read(path)
            for match in STRUCT.finditer(text):
                if re.search(r"(?:Options|Settings?)$", match.group(2)) or match.group(2) in ALSO:
                    structs[match.group(2)] = (path.name, list(members(match.group(3))))
            for match in TABLE.finditer(text):
                # The elements of an array are listed in a loop, by the array's name.
                tables[match.group(1)] = {
                    entry.group(3).split(".")[-1] if "." in entry.group(3) else entry.group(2): entry
                    for entry in ENTRY.finditer(match.group(2))
                }
    problems, count = [], 0
    for name, (place, numbers) in sorted(structs.items()):
        for kind, member in numbers:
            count += 1
            entry = tables.get(name, {}).get(member)
            if name not in tables:
                problems.append(f"{place}: {name} has numbers and no function fields(FieldVisitor&, {name}&)")
                break
            if entry is None:
                problems.append(f"{place}: {name}::{member} is not in fields()")
            elif re.fullmatch(FLOATING, kind) and entry.group(1) != "factor" and not entry.group(4):
                problems.append(f"{place}: {name}::{member} has no range in fields(); any_number if it may be NaN")
            elif entry.group(2) != member:
                problems.append(f'{place}: {name}::{member} is called "{entry.group(2)}" in fields()')
    house.finish(problems if count else ["no structs"], f"{count} numbers of {len(structs)} structs are in their tables")


if __name__ == "__main__":
    main()
