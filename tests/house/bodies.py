#!/usr/bin/env python3
"""Headers declare; functions stand in impl/x.ipp, so that a unit does not pay for what it never changes.

In a header of the folders below stay: templates, constexpr, functions with a deduced result or under #if, and bodies of at
most one statement that calls nothing, as `{ return rows_; }` (constructors: with their initialisers on one line). What a
loop over elements calls may stay as well; IN_LOOPS names it with its reason. Everything else belongs into impl/.

The headers are read as tokens, without a compiler: a body is what follows a parameter list at the scope of a namespace or
a class.
"""

import re

import house
import layering

# Kernels, the accelerator and its programs are read by few units.
FOLDERS = set(layering.LAYERS) - {"compat", "simd", "kernels", "neuroncore", "programs", "dispatch"}
# Folders inside these, too: the operators (those of the host stand in ops/x.hpp), and their samples.
IN_ONE_UNIT = {"ops", "testing"}
# These need libraries that have no compiled half of soma.
HEADERS_ONLY = ("soma/io/images/", "soma/io/tensorboard.hpp", "soma/parallel/mpi.hpp")
# "soma/folder/x.hpp: Class::name": the row of a benchmark that needs it, or another reason.
IN_LOOPS = {
    # Hashing a word of each text takes 2 ns; through the library the start of `bert_classifier train` took 1.09 times as long.
    **{f"soma/data/content_hash.hpp: ContentHash::{name}": "bert_classifier train --max-steps 1"
       for name in ("add_bytes", "add", "add_text", "value", "mix", "add_byte")},
    # One instruction where the CPU has it, instead of a call.
    "soma/numeric/fused.hpp: fused_multiply_add": "batch_norm's sums over pixels",
}

TOKEN = re.compile(
    r'(?P<skip>\s+|//[^\n]*|/\*.*?\*/)'
    r'|(?P<hash>\#(?:\\\n|[^\n])*)'
    r'|(?P<text>(?:u8|[uUL])?R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"'
    r"|(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')"
    r"|(?P<number>\.?\d(?:[eEpP][+-]|'?[\w.])*)"
    r'|(?P<word>[A-Za-z_]\w*)'
    r'|(?P<mark2>::|->|\[\[|\]\]|\.\.\.|.)', re.DOTALL)
CONDITION = re.compile(r"#\s*(if|else|elif|endif)")
CONTROL = {"for", "while", "if", "switch", "do", "try", "throw", "goto", "co_return", "co_await", "co_yield"}
CASTS = {"static_cast", "reinterpret_cast", "const_cast"}
# Words that stand before a parenthesis and call nothing, and cannot be a function's name.
NO_NAMES = {"alignas", "alignof", "sizeof", "decltype", "noexcept", "requires", "explicit", "static_assert", "return", "case",
            "throw", "void", "bool", "char", "int", "long", "short", "unsigned", "signed", "float", "double", "auto", "const"}
CLOSING = {"(": ")", "{": "}", "[": "]", "[[": "]]"}


class Token:
    def __init__(self, text, line, word, conditional):
        self.text, self.line, self.word, self.conditional = text, line, word, conditional


def tokens(source):
    """Of branches, the first: so braces match."""
    found, line, branches = [], 1, []
    for match in TOKEN.finditer(source):
        text, kind = match.group(), match.lastgroup
        if kind == "hash":
            condition = CONDITION.match(text)
            if condition and condition.group(1) == "if":
                branches.append(True)
            elif condition and condition.group(1) == "endif":
                branches.pop()
            elif condition:
                branches[-1] = False
        elif kind != "skip" and all(branches):
            found.append(Token('""' if match.group("text") else text, line, kind == "word", bool(branches)))
        line += text.count("\n")
    return found


class Body:
    def __init__(self, name, line, moves):
        self.name, self.line, self.moves = name, line, moves


class Reader:
    def __init__(self, source):
        self.tokens = tokens(source)
        self.at = 0
        self.found = []  # bodies of ordinary functions

    def text(self, ahead=0):
        place = self.at + ahead
        return self.tokens[place].text if place < len(self.tokens) else ""

    def group(self):
        """Passes a bracket and what is in it; returns that."""
        opening, begin, depth = self.text(), self.at, 0
        while self.at < len(self.tokens):
            depth += (self.text() == opening) - (self.text() == CLOSING[opening])
            self.at += 1
            if depth == 0:
                break
        return self.tokens[begin + 1:self.at - 1]

    def angles(self):
        """Passes <...> of a template."""
        depth = 0
        while self.at < len(self.tokens):
            if self.text() in ("(", "{", "["):
                self.group()
                continue
            depth += (self.text() == "<") - (self.text() == ">")
            self.at += 1
            if depth == 0:
                return

    def scope(self, classes, template):
        """Reads declarations until the brace that closes them."""
        while self.at < len(self.tokens) and self.text() != "}":
            self.declaration(classes, template)
        self.at += 1

    def declaration(self, classes, template):
        begin, words, name, parameters, value, colon = self.at, [], "", None, False, False
        while self.at < len(self.tokens):
            text, previous = self.text(), self.tokens[self.at - 1] if self.at > begin else None
            if text == ";" or text == "}":
                self.at += text == ";"
                return
            if text == "operator":
                self.at += 1
                name = "operator"
                while self.text() != "(" or (name == "operator" and self.text(1) == ")"):
                    name += self.text() if name != "operator" or not self.tokens[self.at].word else " " + self.text()
                    if self.text() == "(":
                        name += ")"
                        self.at += 1
                    self.at += 1
                words.append("operator")
            elif text == "<" and previous is not None and previous.word:
                self.angles()
            elif text == "(":
                before = self.tokens[self.at - 1] if self.at else None
                named = before is not None and ((before.word and before.text not in NO_NAMES) or "operator" in words)
                inside = self.group()
                if parameters is None and named and not value:
                    parameters, name = inside, name or self.named(begin, before)
            elif text in ("[", "[["):
                self.group()
            elif text == "{":
                if self.brace(begin, words, name, parameters, value, colon, classes, template):
                    return
            elif text == ":" and parameters is not None and not value:
                colon = self.at
                self.initialisers()
            else:
                value = value or text == "="
                if text in ("public", "private", "protected") and self.text(1) == ":":
                    self.at += 2
                    return
                words.append(text)
                self.at += 1

    def named(self, begin, before):
        """A function's name with the classes that it is written with."""
        place = next(index for index in range(self.at - 1, begin - 1, -1) if self.tokens[index] is before)
        parts = [before.text]
        if place > begin and self.tokens[place - 1].text == "~":
            parts.insert(0, "~")
            place -= 1
        while place - 2 >= begin and self.tokens[place - 1].text == "::" and self.tokens[place - 2].word:
            parts[:0] = [self.tokens[place - 2].text, "::"]
            place -= 2
        return "".join(parts)

    def initialisers(self):
        """Passes `: a_(a), b_{b}` up to the body."""
        self.at += 1
        while self.at < len(self.tokens):
            while self.text() not in ("(", "{", ";", ""):
                self.angles() if self.text() == "<" else self.step()
            if self.text() not in ("(", "{"):
                return
            self.group()
            while self.text() == "...":
                self.at += 1
            if self.text() != ",":
                return
            self.at += 1

    def step(self):
        self.at += 1

    def brace(self, begin, words, name, parameters, value, colon, classes, template):
        """Passes the brace; tells whether the declaration ends with it."""
        is_template = template or "template" in words
        first = self.tokens[begin]
        if "namespace" in words or (words[:1] == ["extern"] and parameters is None and not value and len(words) == 2):
            self.at += 1
            self.scope(classes, is_template or words == ["namespace"])  # a namespace without a name is a unit's own
            return True
        kind = next((word for word in words if word in ("class", "struct", "union", "enum")), None)
        if kind and parameters is None and not value:
            if kind == "enum":
                self.group()
                return False
            # `class Name final : public Base<T>`: the name stands before these.
            rest = words[words.index(kind) + 1:]
            end = next((index for index, word in enumerate(rest) if word in (":", "final")), len(rest))
            self.at += 1
            self.scope([*classes, "".join(rest[:end])], is_template)
            return False
        if parameters is None or value:
            self.group()
            return False
        end = self.at
        body = self.group()
        arrow = "->" in words
        ordinary = not is_template and not {"constexpr", "consteval", "friend"} & set(words) and (
            arrow or "auto" not in words) and not any(token.text == "auto" for token in parameters)
        if ordinary and not first.conditional:
            long = bool(colon) and self.tokens[colon].line != self.tokens[end].line
            self.found.append(Body("::".join([*classes, name]), first.line, long or not stays(body)))
        if self.text() == ";":
            self.at += 1
        return True


def stays(body):
    """At most one statement, which calls nothing."""
    words = [token.text for token in body]
    if words.count(";") > 1 or "{" in words or CONTROL.intersection(words):
        return False
    for index, word in enumerate(words):
        if word != "(" or index == 0:
            continue
        before = body[index - 1]
        if before.text in (">", ")", "]"):
            opening = next((place for place in range(index - 1, -1, -1) if words[place] == "<"), 0)
            if before.text != ">" or words[opening - 1] not in CASTS:
                return False
        elif before.word and before.text not in NO_NAMES:
            return False
    return True


def read(source):
    reader = Reader(source)
    while reader.at < len(reader.tokens):
        reader.scope([], False)
    return reader.found


SAMPLE = """
#pragma once
#include <vector>
namespace soma {
struct Plain { int a = 0; std::vector<int> v{1, 2}; void (*f)(int){nullptr}; std::function<int(int)> g{}; };
enum class Kind : int { one, two };
inline const std::vector<int> table = {f(1), f(2)};
inline constexpr auto square = [](int x) { return f(x) * f(x); };
template <class T, int N = (3 > 2)> T twice(T x) { return g(x); }
template <class T> class Box { public: T get() { f(); return g(); } struct In { void h() { f(); } }; };
constexpr int small(int x) { return f(x); }
inline int any(const auto& x) { return f(x); }
inline auto deduced(int x) { return f(x); }
#ifdef SOMEWHERE
inline int there() { return f(1); }
#else
inline int there() { return f(2); 
#endif
inline int moves_one(int x) { return f(x); }
inline auto moves_two(int x) -> std::vector<int> { return {x}; }
inline int stays_one(int x) { return static_cast<int>(x) + (x + 1) * sizeof(int); }
class Some final : public Base<int> {
 public:
  explicit Some(int a) : a_(g(a)), b_{a} {}
  Some(int a, int b)
      : a_(a),
        b_(b) {}
  Some() = default;
  ~Some() { f(); }
  int a() const noexcept { return a_; }
  int moves() const override { return b(); }
  bool operator==(const Some& other) const { return a_ == other.a_; }
  int operator()(int x) const { return f(x); }
  operator std::vector<int>() const { return v(); }
  friend bool operator<(const Some& a, const Some& b) { return f(a, b); }
  struct Inner { void deep() { if (x) y = 1; } int x, y; };
  [[nodiscard]] static Some made() { return Some(1); }

 private:
  int a_ = 0, b_{0};
};
inline int Some::later(const char* text) const { const char q = '"'; return text[0] == q; }
namespace { int own() { return f(1); } }
extern "C" { inline int c_name() { return f(R"x({)x"); } }
}  // namespace soma
"""
SAMPLE_MOVES = ["moves_one", "moves_two", "Some::Some", "Some::~Some", "Some::moves", "Some::operator()",
                "Some::operator std::vector<int>", "Some::Inner::deep", "Some::made", "Some::later", "c_name"]
SAMPLE_STAYS = ["stays_one", "Some::Some", "Some::a", "Some::operator=="]


def main():
    options = house.arguments(__doc__)
    problems, stay, headers, used = [], 0, 0, set()
    sample = read(SAMPLE)
    for moves, wanted in ((True, SAMPLE_MOVES), (False, SAMPLE_STAYS)):
        names = [body.name for body in sample if body.moves == moves]
        if names != wanted:
            problems.append(f"of the sample {'move' if moves else 'stay'} {names}, wanted {wanted}")
    for header in house.headers(options.root):
        folder = layering.folder(header)
        if folder not in FOLDERS or header.startswith(HEADERS_ONLY) or (folder in IN_ONE_UNIT and header.count("/") > 2):
            continue
        headers += 1
        for body in read(house.read(options.root / "include" / header)):
            key = f"{header}: {body.name}"
            if not body.moves:
                stay += 1
            elif key in IN_LOOPS:
                used.add(key)
            else:
                problems.append(f"include/{header}:{body.line}: {body.name}: its body belongs into impl/")
    problems += [f"IN_LOOPS in bodies.py: no body that needs the exception '{key}'" for key in sorted(IN_LOOPS.keys() - used)]
    house.finish(problems, f"{headers} headers with {stay} bodies of a statement without a call, {len(used)} exceptions")


if __name__ == "__main__":
    main()
