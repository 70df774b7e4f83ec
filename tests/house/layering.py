#!/usr/bin/env python3
"""Who may include whom in include/soma.

A file includes its own folder and folders of a lower number. Foreign libraries have their places: Highway in -inl
files and in dispatch/, xtensor in xtensor.hpp, JSON and xxHash in io/ and above, protozero in io/tensorboard.hpp,
libpng and libjpeg in io/images/, MPI in parallel/mpi.hpp, <iostream> nowhere.
soma/plugin.h is plain C with nothing of soma in it: it may be included
everywhere. compat/ is the other side of it, for shared libraries: it includes nothing else, and nobody includes it.
"""

import re

import house

PLAIN_C = "soma/plugin.h"
LAYERS = {
    "compat": 0,
    "base": 0,
    "numeric": 1,
    "simd": 2, "runtime": 2,
    "tensor": 3,
    "kernels": 4, "neuroncore": 4,
    "ops": 5,
    "data": 5,
    "programs": 6, "autograd": 6, "state": 6, "metrics": 6,
    "nn": 7, "optim": 7, "parallel": 7, "io": 7, "text": 7, "testing": 7,
    "models": 8,
    "train": 9,
    "dispatch": 10,
}
TOP = 11  # api.hpp, soma.hpp, xtensor.hpp ...: they join everything

SET_BY_DISPATCH = {"HWY_TARGET_INCLUDE", "HWY_DISABLED_TARGETS"}
DEFINE = re.compile(r"^\s*#\s*(?:define|undef)\s+(HWY_\w+)")
PRAGMA_ONCE = re.compile(r"^\s*#\s*pragma\s+once\b", re.MULTILINE)
TOGGLE = re.compile(r"^\s*#\s*if\s+defined\((\w+)\)\s*==\s*defined\(HWY_TARGET_TOGGLE\)", re.MULTILINE)


def folder(name):
    """"base" of soma/base/error.hpp, "" of a top-level header."""
    parts = name.split("/")
    return parts[1] if len(parts) > 2 else ""


def may_use_highway(name):
    return (name.endswith("-inl.hpp") or name == "soma/soma.hpp"
            or (folder(name) == "dispatch" and name.endswith(".cpp")))


def check_soma_include(name, used, report):
    own, other = folder(name), folder(used)
    if used == PLAIN_C:
        return
    if (own == "compat") != (other == "compat"):
        report(f"<{used}>: compat/ is for shared libraries, which know soma/plugin.h and nothing else")
    if own == "":
        return
    if other == "":
        report(f"<{used}> joins the layers; a file inside one cannot include it")
    elif other not in LAYERS:
        report(f"<{used}>: folder {other}/ has no layer")
    elif other != own and LAYERS[other] >= LAYERS[own]:
        report(f"{own}/ (layer {LAYERS[own]}) includes <{used}> (layer {LAYERS[other]})")
    if used.endswith("-inl.hpp") and not may_use_highway(name):
        report(f"<{used}> brings Highway into a header that has to be light")


def check_include(name, bracket, used, exists, report):
    if bracket == '"':
        report(f'"{used}": write <soma/...> with the full path')
    elif used.startswith("soma/"):
        if not exists:
            report(f"<{used}> does not exist")
        else:
            check_soma_include(name, used, report)
    elif used.startswith("hwy/") and not may_use_highway(name):
        report(f"<{used}>: Highway belongs in -inl files and dispatch/")
    elif (used.startswith("xtensor/") or used == "xtensor.hpp") and name != "soma/xtensor.hpp":
        report(f"<{used}>: xtensor belongs in soma/xtensor.hpp")
    elif used.startswith(("nlohmann/", "xxhash", "utf8proc")) and folder(name) and LAYERS[folder(name)] < LAYERS["io"]:
        report(f"<{used}>: JSON, xxHash and utf8proc belong in io/, text/ and above")
    elif used.startswith("protozero/") and name != "soma/io/tensorboard.hpp":
        report(f"<{used}>: protozero belongs in soma/io/tensorboard.hpp")
    elif used in ("png.h", "jpeglib.h") and not name.startswith("soma/io/images/"):
        report(f"<{used}>: libpng and libjpeg belong in soma/io/images/")
    elif used == "mpi.h" and name != "soma/parallel/mpi.hpp":
        report("<mpi.h>: MPI belongs in soma/parallel/mpi.hpp")
    elif used == "iostream":
        report("<iostream>: the library does not print, and every unit would pay for it")


def compiled_repeatedly(root, uses):
    """Files that a pass of foreach_target compiles: what dispatch/*.cpp reach."""
    reached, waiting = set(), [name for name in uses if name.endswith(".cpp")]
    while waiting:
        for used in uses.get(waiting.pop(), []):
            if used not in reached:
                reached.add(used)
                waiting.append(used)
    return reached


def main():
    options = house.arguments(__doc__)
    include = options.root / "include"
    files = {path.relative_to(include).as_posix(): path
             for path in sorted(include.rglob("*")) if path.suffix in (".hpp", ".h", ".cpp")}
    uses = {name: [used for _, _, used in house.includes(path) if used in files]
            for name, path in files.items()}
    repeated = compiled_repeatedly(options.root, uses)

    problems = []
    for name, path in files.items():
        if folder(name) and folder(name) not in LAYERS:
            problems.append(f"include/{name}: folder {folder(name)}/ has no layer (see tests/house/layering.py)")
            continue
        for number, bracket, used in house.includes(path):
            check_include(name, bracket, used, used in files,
                          lambda message, n=number: problems.append(f"include/{name}:{n}: {message}"))
        for number, line in house.lines(path):
            match = DEFINE.match(line)
            if match and name != "soma/base/config.hpp" and not (
                    folder(name) == "dispatch" and match.group(1) in SET_BY_DISPATCH):
                problems.append(f"include/{name}:{number}: only base/config.hpp sets {match.group(1)}")
        if not name.endswith(".hpp"):
            continue
        text = house.read(path)
        if name.endswith("-inl.hpp") and name in repeated:
            if not TOGGLE.search(text) or PRAGMA_ONCE.search(text):
                problems.append(f"include/{name}: compiled once per target, so it needs the toggle guard "
                                "and no #pragma once")
        elif name.endswith("-inl.hpp") and TOGGLE.search(text):
            pass
        elif not PRAGMA_ONCE.search(text):
            problems.append(f"include/{name}: no #pragma once")
    house.finish(problems, f"{len(files)} files keep to their layers")


if __name__ == "__main__":
    main()
