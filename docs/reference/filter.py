#!/usr/bin/env python3
"""Doxygen's view of a header: a comment that stands before a declaration becomes a documentation comment.

    python3 docs/reference/filter.py include/soma/autograd/tape.hpp

Doxygen calls it for each file (INPUT_FILTER) and reads what it prints. The rules:
  * The first comment of a file, up to an empty line, describes the file.
  * Lines of // directly before a declaration describe that declaration, in a namespace, a class or an enum. Comments in
    function bodies and in parameter lists stay what they are, and so do headings (// ---- name).
  * A comment behind a declaration, on its line, describes it as well; so do lines of // below that begin in its column.
  * Comments are plain text, so the characters that Doxygen would take for commands are escaped. `code` becomes code, and
    lines that are indented below a sentence (tables, formulas) keep their shape.
  * Specialisations of templates of std are left out: Doxygen 1.9.4 cannot place them.
Lines keep their numbers, so that a warning of Doxygen points to the line of the header.
"""

import re
import sys

COMMENT = re.compile(r"^(\s*)//(?!/)(.*)$")
NOT_PROSE = re.compile(r"^\s*(-{3,}|clang-format |NOLINT)")  # headings, and orders to tools
SPECIAL = re.compile(r"::|[\\@<>&#%]")
CODE = re.compile(r"`([^`]+)`")
LITERAL = re.compile(r'"(?:\\.|[^"\\])*"|(?<![0-9A-Fa-f])\'(?:\\.|[^\'\\])+\'')
HOLDS_NAMES = re.compile(r"^(?:inline |typedef )*(namespace|class|struct|union|enum|extern)\b")
OF_STD = re.compile(r"^(class|struct) std::")
GOES_ON = set(";,.()[]{?:&|+-*/=<>")  # after the brace of an initialiser, and not after that of a function


def escaped(text):
    return SPECIAL.sub(lambda match: "\\" + match.group(), text)


def prose(text):
    """One line of a comment for Doxygen."""
    parts, end = [], 0
    for match in CODE.finditer(text):
        parts += [escaped(text[end:match.start()]), "<code>", escaped(match.group(1)), "</code>"]
        end = match.end()
    return "".join(parts) + escaped(text[end:])


def documentation(texts, mark):
    """The lines of a comment, each behind `mark`. Lines that are indented keep their shape."""
    shaped = [text.startswith("   ") for text in texts] + [False]
    lines = []
    for index, text in enumerate(texts):
        if not shaped[index]:
            lines.append(mark + prose(text))
            continue
        begin = "" if index > 0 and shaped[index - 1] else r" \verbatim"
        end = "" if shaped[index + 1] else r" \endverbatim"
        lines.append(f"{mark}{begin}{text}{end}")
    return lines


def without_templates(text):
    """The declaration without its leading template lists."""
    text = text.strip()
    while text.startswith("template"):
        depth = 0
        for index, character in enumerate(text):
            depth += (character == "<") - (character == ">")
            if character == ">" and depth == 0:
                break
        text = text[index + 1:].strip()
    return text


class Scopes:
    """Which braces and parentheses are open in the code read so far."""

    def __init__(self):
        self.open = []  # for each brace: "names" (a namespace, a class), "enum" or "body"
        self.parentheses = 0
        self.statement = ""  # the declaration at hand
        self.body_ended = False

    def declares(self):
        return self.parentheses == 0 and "body" not in self.open

    def between(self):
        """True if no declaration has begun."""
        return self.declares() and (self.body_ended or not self.statement.strip())

    def kind(self):
        words = without_templates(self.statement)
        match = HOLDS_NAMES.match(words)
        if not match or not self.declares():
            return "body"
        if match.group(1) == "enum":
            return "enum"
        # A function may return `struct x`: it ends with parentheses.
        return "body" if words.endswith((")", "const", "noexcept", "=")) else "names"

    def read(self, code):
        for character in LITERAL.sub('""', code):
            if self.body_ended and not character.isspace():
                self.body_ended = False
                if character not in GOES_ON:
                    self.statement = ""
            inside = "body" in self.open
            if character in "([":
                self.parentheses += not inside
            elif character in ")]":
                self.parentheses -= not inside
            elif character == "{":
                self.open.append("body" if inside or self.parentheses else self.kind())
                if self.open[-1] != "body":
                    self.statement = ""
                continue
            elif character == "}":
                was = self.open.pop() if self.open else "names"
                if was == "body":
                    self.body_ended = self.declares()
                else:
                    self.statement = ""
                continue
            if inside:
                continue
            enum_goes_on = character == "," and self.open[-1:] == ["enum"]
            access = character == ":" and self.statement.strip() in ("public", "private", "protected")
            if self.parentheses == 0 and (character == ";" or enum_goes_on or access):
                self.statement = ""
            else:
                self.statement += character
        if "body" not in self.open and self.statement:
            self.statement += " "


def split_comment(line):
    """(code, column of the comment behind it or -1, the comment)"""
    at = LITERAL.sub(lambda match: "x" * len(match.group()), line).find("//")
    return (line, -1, "") if at < 0 else (line[:at], at, line[at + 2:])


class Translation:
    def __init__(self):
        self.scopes = Scopes()
        self.result = []
        self.pending = []  # (indentation, text) of a comment that may describe what follows
        self.at_begin = True  # of the file: its first comment has not been seen
        self.in_macro = False
        self.column = -1  # of the describing comment on the line before

    def flush(self, describes):
        if self.pending:
            indent = self.pending[0][0]
            texts = [text for _, text in self.pending]
            self.result += documentation(texts, indent + "///") if describes else [f"{indent}//{text}" for text in texts]
        self.pending = []

    def comment(self, line, indent, text):
        if self.column >= 0 and len(indent) == self.column:
            self.result.append(f"{indent}///<{prose(text)}")
            return
        self.column = -1
        if NOT_PROSE.match(text) or not self.scopes.between():
            self.flush(False)
            self.result.append(line)
        else:
            self.pending.append((indent, text))

    def code(self, line):
        """A line that is not a comment as a whole."""
        self.column = -1
        code = line.strip()
        if not code and self.pending and self.at_begin:
            self.result.append(r"/// \file")  # in the place of the empty line
            self.flush(True)
            self.at_begin = False
            return
        if code and code != "#pragma once":
            self.at_begin = False
        self.flush(bool(code) and not code.startswith(("}", "#")) and self.scopes.between())
        is_macro = self.in_macro or code.startswith("#")
        self.in_macro = is_macro and code.endswith("\\")
        if is_macro:
            self.result.append(line)
            return
        before, at, behind = split_comment(line)
        declared = self.scopes.declares()
        self.scopes.read(before)
        before = before.rstrip()
        ends = before.endswith((";", ",", "}")) or (self.scopes.open[-1:] == ["enum"] and before[-1:] != "{")
        if at >= 0 and declared and self.scopes.declares() and ends and not code.startswith("}"):
            self.result.append(f"{line[:at]}///<{prose(behind)}")
            self.column = at
        else:
            self.result.append(line)


def without_std(lines):
    """The lines, with empty ones in the place of specialisations of std."""
    lines, index = list(lines), 0
    while index < len(lines):
        if OF_STD.match(lines[index]):
            if index > 0 and lines[index - 1].startswith("template"):
                lines[index - 1] = ""
            while lines[index] != "};":
                lines[index] = ""
                index += 1
            lines[index] = ""
        index += 1
    return lines


def translated(lines):
    work = Translation()
    for line in without_std(lines):
        comment = COMMENT.match(line)
        if comment and not work.in_macro:
            work.comment(line, comment.group(1), comment.group(2))
        else:
            work.code(line)
    work.flush(False)
    return work.result


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        print("\n".join(translated(file.read().splitlines())))


if __name__ == "__main__":
    main()
