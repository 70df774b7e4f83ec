#!/usr/bin/env python3
"""Who may include whom in include/soma.

A file includes its own folder and folders of a lower number. Foreign libraries have their places: Highway in -inl
files and in dispatch/, xtensor in xtensor.hpp, JSON and xxHash in io/ and above, protozero in io/tensorboard.hpp,
libpng and libjpeg in io/images/, MPI in parallel/mpi.hpp, <iostream> nowhere.
soma/plugin.h is plain C with nothing of soma in it: it may be included
everywhere. compat/ is the other side of it, for shared libraries: it includes nothing else, and nobody includes it.

Functions of x.hpp stand in impl/x.ipp (or several files there), which x.hpp includes at its end and the units of
dispatch/ include themselves. Such a file obeys its folder's layer. x.hpp and its files are one node of a graph that has no
circle, so that header-only use does not depend on the order of includes.
"""

import collections
import posixpath
import re
import sys

import house

PLAIN_C = "soma/plugin.h"
LAYERS = {
    "compat": 0,
    "base": 0,
    "system": 1, "numeric": 1,
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

# Units that use soma without its library compile these; units of the library never read them.
WITHOUT_LIBRARY = {"soma/kernels/own_kernels-inl.hpp", "soma/static_context-inl.hpp", "soma/static_engine-inl.hpp",
                   "soma/static_sparse-inl.hpp"}
MACROS_OF_HIGHWAY = "hwy/detect_targets.h"  # names the target of such a unit
SET_BY_DISPATCH = {"HWY_TARGET_INCLUDE", "HWY_DISABLED_TARGETS"}
DEFINE = re.compile(r"^\s*#\s*(?:define|undef)\s+(HWY_\w+)")
PRAGMA_ONCE = re.compile(r"^\s*#\s*pragma\s+once\b", re.MULTILINE)
TOGGLE = re.compile(r"^\s*#\s*if\s+defined\((\w+)\)\s*==\s*defined\(HWY_TARGET_TOGGLE\)", re.MULTILINE)


def folder(name):
    """"base" of soma/base/error.hpp, "" of a top-level header."""
    parts = [part for part in name.split("/") if part != "impl"]
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
    if other == "" and not (own == "dispatch" and used.endswith(house.FUNCTIONS)):
        report(f"<{used}> joins the layers; a file inside one cannot include it")
    elif other != "" and other not in LAYERS:
        report(f"<{used}>: folder {other}/ has no layer")
    elif other not in ("", own) and LAYERS[other] >= LAYERS[own]:
        report(f"{own}/ (layer {LAYERS[own]}) includes <{used}> (layer {LAYERS[other]})")
    if used.endswith("-inl.hpp") and not may_use_highway(name) and used not in WITHOUT_LIBRARY:
        report(f"<{used}> brings Highway into a header that has to be light")


def check_include(name, bracket, used, exists, report):
    header = re.sub(r"/impl/([^/]+)\.ipp$", r"/\1.hpp", name)  # what a header may include, its functions may
    if bracket == '"':
        report(f'"{used}": write <soma/...> with the full path')
    elif used.startswith("soma/"):
        if not exists:
            report(f"<{used}> does not exist")
        else:
            check_soma_include(name, used, report)
    elif used.startswith("hwy/") and not may_use_highway(name) and used != MACROS_OF_HIGHWAY:
        report(f"<{used}>: Highway belongs in -inl files and dispatch/")
    elif (used.startswith("xtensor/") or used == "xtensor.hpp") and name != "soma/xtensor.hpp":
        report(f"<{used}>: xtensor belongs in soma/xtensor.hpp")
    elif used.startswith(("nlohmann/", "xxhash", "utf8proc")) and folder(name) and LAYERS[folder(name)] < LAYERS["io"]:
        report(f"<{used}>: JSON, xxHash and utf8proc belong in io/, text/ and above")
    elif used.startswith("protozero/") and header != "soma/io/tensorboard.hpp":
        report(f"<{used}>: protozero belongs in soma/io/tensorboard.hpp")
    elif used in ("png.h", "jpeglib.h") and not name.startswith("soma/io/images/"):
        report(f"<{used}>: libpng and libjpeg belong in soma/io/images/")
    elif used == "mpi.h" and header != "soma/parallel/mpi.hpp":
        report("<mpi.h>: MPI belongs in soma/parallel/mpi.hpp")
    elif used == "iostream":
        report("<iostream>: the library does not print, and every unit would pay for it")


def check_functions(name, files, uses, users, report):
    """A file of functions belongs to one header, which it includes; a header may have several."""
    owners = [user for user in users.get(name, []) if user.endswith(".hpp")]
    if len(owners) != 1:
        report(f"belongs to one header, which includes it; now {owners or 'none does'}")
    elif owners[0] not in uses[name]:
        report(f"includes <{owners[0]}>")
    if owners and posixpath.dirname(name) != posixpath.join(posixpath.dirname(owners[0]), "impl"):
        report(f"belongs into impl/ beside <{owners[0]}>")
    for user in users.get(name, []):
        if user.endswith(house.FUNCTIONS) and owners and owners[0] not in uses[user]:
            report(f"is included by {user}, which needs no more than the header")
    text = house.read(files[name])
    if not text.startswith("#pragma once\n"):
        report("begins without #pragma once")


def circle(uses):
    """Headers that include each other, in a row that ends with its first, or nothing. A header and its functions are one."""
    header = {used: user for user, names in uses.items() for used in names
              if used.endswith(house.FUNCTIONS) and user.endswith(".hpp")}
    graph = collections.defaultdict(set)
    for user, names in uses.items():
        if not user.endswith(".cpp"):
            graph[header.get(user, user)] |= {header.get(used, used) for used in names} - {header.get(user, user)}
    done, path = set(), []

    def visit(node):
        if node in path:
            return [*path[path.index(node):], node]
        if node in done:
            return []
        path.append(node)
        for used in sorted(graph.get(node, ())):
            found = visit(used)
            if found:
                return found
        done.add(path.pop())
        return []

    return next((found for node in sorted(graph) if (found := visit(node))), [])


def check_circles(report):
    """The search above, on graphs of known shape."""
    plain = {"a.hpp": ["b.hpp", "impl/a.ipp"], "b.hpp": [], "impl/a.ipp": ["a.hpp", "b.hpp"]}
    if circle(plain):
        report(f"layering.py sees a circle where none is: {circle(plain)}")
    through = {**plain, "b.hpp": ["impl/b.ipp"], "impl/b.ipp": ["b.hpp", "c.hpp"], "c.hpp": ["a.hpp"]}
    if circle(through) != ["a.hpp", "b.hpp", "c.hpp", "a.hpp"]:
        report(f"layering.py does not see the circle through a file of functions: {circle(through)}")


def compiled_repeatedly(root, uses):
    """Files that a pass of foreach_target compiles: what dispatch/*.cpp reach."""
    reached, waiting = set(), [name for name in uses if name.endswith(".cpp")]
    while waiting:
        for used in uses.get(waiting.pop(), []):
            if used not in reached and used not in WITHOUT_LIBRARY:
                reached.add(used)
                waiting.append(used)
    return reached


def main():
    sys.setrecursionlimit(10000)  # a chain of includes is as deep as the graph
    options = house.arguments(__doc__)
    include = options.root / "include"
    files = {path.relative_to(include).as_posix(): path
             for path in sorted(include.rglob("*")) if path.suffix in (*house.CODE, ".h")}
    uses = {name: [used for _, _, used in house.includes(path) if used in files]
            for name, path in files.items()}
    repeated = compiled_repeatedly(options.root, uses)

    users = collections.defaultdict(list)
    for name, names in uses.items():
        for used in names:
            users[used].append(name)

    problems = []
    check_circles(problems.append)
    around = circle(uses)
    if around:
        problems.append(f"a circle of headers with their functions: {' -> '.join(around)}")
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
        if name.endswith(house.FUNCTIONS):
            check_functions(name, files, uses, users, lambda message, of=name: problems.append(f"include/{of}: {message}"))
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
