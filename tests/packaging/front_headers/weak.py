#!/usr/bin/env python3
"""No body of soma is in an object of a unit that links soma::dispatch, but those that may stand in headers.

Usage: weak.py OBJECT...   (compiled at -O0, where nothing is inlined)

The linker may see a function of soma as weak, which is how a compiler marks what several units compile, if it is
- an instance of a template, or stands in one;
- a member that the compiler writes (constructor, destructor, assignment), a table or a variable;
- one that calls nothing, as `{ return rows_; }`: tests/house/bodies.py lets these stand in headers;
- in ALLOWED, with a reason.
"""

import re
import subprocess
import sys

CONSTEXPR = "constexpr"
CHOOSES = "joins the unit's context with a table of the library"
NO_HALF = "its component has no compiled half"
# Name behind soma::<version>:: (with :: at its end, all in it) and why its body stands in a header.
ALLOWED = {
    "Shape::begin": CONSTEXPR, "Shape::end": CONSTEXPR, "Shape::elements": CONSTEXPR, "neuroncore::trn1": CONSTEXPR,
    "detail::alignment_of": CONSTEXPR,
    "add_sparse": CHOOSES, "detail::install_sparse": CHOOSES, "neuroncore::make_core": CHOOSES,
    "mpi::": NO_HALF, "EventFile::": NO_HALF,
}
CALL = re.compile(r"R_\w+_(?:PLT32|CALL26|JUMP26|CALL_PLT)\s+(?P<to>.*?)(?:[-+]0x[0-9a-f]+)?$")
NOT_CALLED = ("__stack_chk_fail", "_Unwind_Resume")


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def short(name):
    """"Shape::elements" of a demangled "soma::v0_3::Shape::elements() const"."""
    plain = re.sub(r"operator(<=>|<<|<|>>|>|\(\))", "operator_", name).replace("(anonymous namespace)", "anonymous")
    return re.sub(r"^.*?\bsoma::v\w+::", "", plain.split("(")[0].split("[abi:")[0])


def may_be_weak(name):
    plain = short(name)
    parts = plain.split("::")
    return ("<" in plain or "{lambda" in plain or "~" in plain or "operator=" in parts
            or (len(parts) > 1 and parts[-1] == parts[-2]))


def main():
    problems, weak = [], set()
    for path in sys.argv[1:]:
        names = {line.split()[2] for line in output("nm", "--defined-only", path).splitlines()
                 if re.match(r"[0-9a-f]* W _ZNK?4soma", line)}
        plain = dict(zip(sorted(names), output("c++filt", *sorted(names)).splitlines()))
        weak |= names
        function = ""
        for line in output("objdump", "-dr", "--no-show-raw-insn", path).splitlines():
            begin = re.match(r"[0-9a-f]+ <(.*)>:$", line)
            if begin:
                function = begin.group(1)
            call = CALL.search(line)
            if not call or function not in names or call.group("to").startswith(NOT_CALLED):
                continue
            name = plain[function]
            allowed = next((begin for begin in ALLOWED if short(name) == begin or
                            (begin.endswith("::") and short(name).startswith(begin))), None)
            if not allowed and not may_be_weak(name):
                problems.append(f"{path}: {name} calls {call.group('to')}: the body of such a function belongs into impl/")
            names.discard(function)
    if not weak:
        problems.append("no weak function of soma at all: the names of objects are not understood")
    for problem in problems:
        print(problem)
    print(f"{len(weak)} weak functions")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
