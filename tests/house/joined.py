#!/usr/bin/env python3
"""Sources of programs include what they name.

Programs are built from units that join several sources (CMAKE_UNITY_BUILD), where a source also sees the headers of those before
it. A build that compiles them one by one does not. So the includes of each file reach a header that declares a type of the
folder which the file names. (Functions have names that others have too; a compiler finds those.)
"""

import re

import house

FOLDERS = ("examples", "bench")
TYPE = re.compile(r"^(?:struct|class|enum class) ([A-Z]\w*)\b", re.MULTILINE)
OWN = re.compile(r"\b(?:struct|class|typename|using) ([A-Z]\w*)")  # inside of others too, and arguments of templates
NOT_CODE = re.compile(r"//[^\n]*|\"(?:\\.|[^\"\\\n])*\"")
NAME = re.compile(r"(?<![\w:.>])[A-Z]\w*\b")


def reached(path, folder, included):
    """The files of this folder that a file includes, itself too."""
    files, left = set(), [path]
    while left:
        file = left.pop()
        if file in files:
            continue
        files.add(file)
        for name in included[file]:
            left += [other for other in (file.parent / name, folder / name) if other in included]
    return files


def main():
    options = house.arguments(__doc__)
    problems, count = [], 0
    for name in FOLDERS:
        folder = options.root / name
        code = {path: NOT_CODE.sub("", house.read(path)) for path in house.code(options.root, name)}
        included = {path: [name for _, bracket, name in house.includes(path) if bracket == '"'] for path in code}
        declared = {path: set(TYPE.findall(text)) for path, text in code.items()}
        headers = {}
        for path in code:
            if path.suffix == ".hpp":
                for word in declared[path]:
                    headers.setdefault(word, set()).add(path)
        for path, text in code.items():
            count += 1
            files = reached(path, folder, included)
            known = set(OWN.findall(text)).union(*(declared[file] for file in files))
            for word in sorted((set(NAME.findall(text)) & headers.keys()) - known):
                wanted = " or ".join(sorted(header.relative_to(folder).as_posix() for header in headers[word]))
                problems.append(f"{path.relative_to(options.root)}: names {word} and does not include {wanted}")
    house.finish(problems if count else ["no files"], f"{count} files of programs include what they name")


if __name__ == "__main__":
    main()
