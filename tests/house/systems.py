#!/usr/bin/env python3
"""System calls stand in include/soma/system/, and nothing else asks which system a unit is compiled for.

Two parts belong to Linux alone and know nothing of the rest: compat/, which shared libraries are compiled with, and MPI's
own header. <windows.h> is included nowhere: it defines words such as "small" and "near" as macros.
"""

import re

import house

SYSTEM_HEADERS = re.compile(
    r"(unistd|fcntl|pthread|sched|dlfcn|link|poll|io|share|process|windows|psapi|intrin|cpuid|time|signal)\.h$"
    r"|(sys|linux|mach|netinet|arpa)/|(thread|mutex|condition_variable|shared_mutex|future|semaphore)$")
WINDOWS = re.compile(r"windows\.h$|winsock", re.IGNORECASE)
QUESTIONS = re.compile(r"\b(__linux__|__linux|linux|_WIN32|_WIN64|__MINGW32__|__MINGW64__|__CYGWIN__|__APPLE__|__unix__"
                       r"|__wasm__|__wasi__|__EMSCRIPTEN__|__FreeBSD__)\b")
CONDITION = re.compile(r"\s*#\s*(if|ifdef|ifndef|elif)\b")
OWN = "include/soma/system/"
APART = ("include/soma/compat/",)
# Random programs of operators run in threads of the standard library: only tests include it.
TESTING = "include/soma/testing/"


def check(name, path, report):
    for number, _, used in house.includes(path):
        if WINDOWS.search(used):
            report(number, f"<{used}>: declare what is needed, as include/soma/system/ does")
        elif SYSTEM_HEADERS.match(used) and not name.startswith((OWN, TESTING)):
            report(number, f"<{used}>: system calls belong in {OWN}")
    if name.startswith(OWN):
        return
    for number, line in house.lines(path):
        found = QUESTIONS.search(line) if CONDITION.match(line) else None
        if found:
            report(number, f"asks for {found.group(1)}: ask the macros of soma/system/which.hpp, or move it to {OWN}")


def main():
    options = house.arguments(__doc__)
    problems, files = [], 0
    for path in house.code(options.root, "include"):
        name = path.relative_to(options.root).as_posix()
        if name.startswith(APART):
            continue
        files += 1
        check(name, path, lambda number, text, of=name: problems.append(f"{of}:{number}: {text}"))
    house.finish(problems, f"{files} files leave system calls to {OWN}")


if __name__ == "__main__":
    main()
