#!/usr/bin/env python3
"""Moves the bodies of plain functions out of headers: x.hpp keeps the declaration, impl/x.ipp beside it gets the body.

usage: split_bodies.py ROOT

A body stays in its header if it is a template's, constexpr, or one statement that calls nothing. The script writes the
units of the library that compile the bodies (include/soma/dispatch/*.cpp, components/*.cpp), and formats what it wrote.
Needs libclang 14 (PyPI), clang-format, and the libraries of all components.
"""
import clang.cindex as c, collections, os, pathlib, re, subprocess, sys
K = c.CursorKind
LEFT = {"xtensor.hpp", "mpi.hpp", "parallel/mpi.hpp", "tensorboard.hpp", "io/tensorboard.hpp", "images.hpp"}
root, rule = os.path.abspath(sys.argv[1]), "getter"
rooms = """base numeric runtime tensor kernels kernels/convert kernels/random neuroncore ops programs programs/graph data
  autograd state metrics nn optim io text parallel testing models train .""".split()
src = root + "/all_headers.cpp"
names = sorted(str(f.relative_to(root + "/include")) for f in pathlib.Path(root, "include/soma").rglob("*.hpp"))
with open(src, "w") as unit:
    for name in names:
        if not re.search(r"-inl\.hpp$|^soma/compat/|/reference/", name): unit.write(f"#include <{name}>\n")
INC = root + "/include/"
idx = c.Index.create()
inc = [i for i in os.popen("g++ -E -Wp,-v -x c++ /dev/null 2>&1 | grep '^ /'").read().split() if "lib/gcc" not in i]
args = ["-std=c++20", "-DSOMA_DISPATCH=1", "-I" + INC, "-isystem/usr/lib/llvm-14/lib/clang/14.0.6/include",
        "-isystem/usr/lib/x86_64-linux-gnu/openmpi/include", "-DOMPI_SKIP_MPICXX=1"] + ["-isystem" + i for i in inc]
tu = idx.parse(src, args=args)
os.remove(src)
for d in tu.diagnostics:
    if d.severity >= 3: print("DIAG", d)
texts, depth_at, skipped = {}, {}, collections.Counter()

def text(f):
    if f not in texts:
        t = open(f, "rb").read(); texts[f] = t
        depth, marks, off = 0, [], 0
        for line in t.splitlines(keepends=True):
            s = line.strip()
            if re.match(rb"#\s*if", s): depth += 1
            marks.append((off, depth))
            if re.match(rb"#\s*endif", s): depth -= 1
            off += len(line)
        depth_at[f] = marks
    return texts[f]

def conditional(f, off):
    text(f); d = 0
    for o, dd in depth_at[f]:
        if o > off: break
        d = dd
    return d > 0

def kind(x):
    try: return x.kind
    except ValueError: return None

def chain(cur):
    """(namespaces, classes) of a declaration by semantic parents; None if in a template or function."""
    ns, cl = [], []
    p = cur.semantic_parent
    while p is not None and kind(p) != K.TRANSLATION_UNIT:
        k = kind(p)
        if k == K.NAMESPACE:
            if not p.spelling: return None
            ns.insert(0, p.spelling)
        elif k in (K.CLASS_DECL, K.STRUCT_DECL): cl.insert(0, p.spelling)
        else: return None
        p = p.semantic_parent
    return ns, cl

def room_of(f):
    rel = f[len(INC):]
    parts = rel.split("/")
    if parts[0] != "soma" : return None
    if len(parts) == 2: return "."
    if parts[1:3] == ["io", "images"]: return "io/images"
    return parts[1] if len(parts) == 3 or parts[1] not in ("ops", "programs", "kernels") or parts[2] in ("graph", "convert", "random") else parts[1] + "/" + parts[2]

edits = collections.defaultdict(list)      # file -> [(start, end, replacement)]
moved = collections.defaultdict(list)      # file -> [(namespace, text)]
count = collections.Counter()

CONTROL = {"for", "while", "if", "switch", "do", "try", "throw", "goto"}
def stays(body_text, toks, is_ctor, init_text):
    b = body_text.decode()
    inner = b.strip()[1:-1].strip()
    if rule == "all": return False
    if rule == "getter": return inner.count(";") <= 1 and "(" not in inner and "{" not in inner and "\n" not in inner and not (set(re.findall(r"[A-Za-z_]+", inner)) & CONTROL) and init_text.count(b"\n") == 0
    # one statement (or none), without control flow, at most 2 lines
    words = set(re.findall(r"[A-Za-z_]+", inner))
    if inner.count(";") > 1 or words & CONTROL or "[" in re.sub(r"\[\w+\]", "", inner): return False
    if "\n" in inner: return False
    if is_ctor and init_text.count(b"\n") > 1: return False
    return True

def strip_specifiers(s):
    s = re.sub(r"\[\[[^\]]*\]\]\s*", "", s)
    return re.sub(r"\b(static|virtual|explicit|inline|friend|extern)\b\s*", "", s)

def handle(ch):
    f = ch.location.file.name
    t = text(f)
    cc = chain(ch)
    if cc is None: skipped["template or local"] += 1; return
    ns, cl = cc
    kids = [x for x in ch.get_children()]
    body = [x for x in kids if kind(x) == K.COMPOUND_STMT]
    if not body: return
    b = body[-1]
    bs, be = b.extent.start.offset, b.extent.end.offset
    start, name_off = ch.extent.start.offset, ch.location.offset
    toks = list(ch.get_tokens())
    head = [x for x in toks if x.extent.start.offset < bs]
    before_name = [x.spelling for x in head if x.extent.start.offset < name_off]
    if {"constexpr", "consteval", "friend", "template"} & set(before_name): skipped["constexpr"] += 1; return
    is_ctor, is_dtor = ch.kind == K.CONSTRUCTOR, ch.kind == K.DESTRUCTOR
    arrow = "->" in [x.spelling for x in head]
    if not is_ctor and "auto" in before_name and not arrow: skipped["auto"] += 1; return
    if conditional(f, start): skipped["#if"] += 1; return
    sp = [x.spelling for x in head]
    if "default" in sp and sp[sp.index("default") - 1] == "=": return
    # where declaration ends: the colon of initialisers, or the body
    stop = bs
    if is_ctor:
        d, seen = 0, False
        for x in head:
            s, o = x.spelling, x.extent.start.offset
            if o < name_off: continue
            if s in ("(", "[", "{"): d += 1
            elif s in (")", "]", "}"):
                d -= 1
                if d == 0: seen = True
            elif s == ":" and d == 0 and seen: stop = o; break
    init_text = t[stop:bs]
    in_class = kind(ch.lexical_parent) in (K.CLASS_DECL, K.STRUCT_DECL)
    first = ch.canonical == ch
    if stays(t[bs:be], toks, is_ctor, init_text) and (in_class or first): count["stay"] += 1; return
    # --- text of the definition
    pre = t[start:name_off].decode()
    pre_s = strip_specifiers(pre)
    # class qualifiers written out of class already
    mid_start = name_off
    cuts = []   # (start, end) removed in the declarator
    for p in kids:
        if kind(p) == K.PARM_DECL:
            d = 0; prev = None
            for x in p.get_tokens():
                s = x.spelling
                if x.extent.start.offset >= p.extent.end.offset: break
                if s in ("(", "[", "{"): d += 1
                elif s in (")", "]", "}"): d -= 1
                elif s == "=" and d == 0:
                    cuts.append((prev, p.extent.end.offset)); break
                prev = x.extent.end.offset
    for x in head:
        if x.spelling in ("override", "final") and x.extent.start.offset > name_off:
            s0 = x.extent.start.offset
            while t[s0 - 1:s0] in (b" ", b"\n"): s0 -= 1
            cuts.append((s0, x.extent.end.offset))
    def cutout(a, e):
        out, pos = b"", a
        for s0, e0 in sorted(cuts):
            if s0 >= a and e0 <= e: out += t[pos:s0]; pos = e0
        return (out + t[pos:e]).decode()
    decl = re.sub(r"\s*//[^\n]*$", "", cutout(mid_start, stop).rstrip())
    qual = "::".join(cl) + "::" if (cl and in_class) else ""
    # return type that names a member of the class
    nested = False
    if in_class and not is_ctor and not is_dtor and not arrow and ch.kind != K.CONVERSION_FUNCTION:
        for x in kids:
            if kind(x) in (K.TYPE_REF, K.TEMPLATE_REF) and x.location.offset < name_off:
                r = x.referenced
                if r is not None and kind(r.semantic_parent) in (K.CLASS_DECL, K.STRUCT_DECL, K.CLASS_TEMPLATE):
                    prevtok = t[:x.extent.start.offset].rstrip()
                    nested = nested or not prevtok.endswith(b"::")
    if nested:
        definition = f"SOMA_INLINE auto {qual}{decl} -> {pre_s.strip()}"
    else:
        definition = f"SOMA_INLINE {pre_s}{qual}{decl}"
    if pre_s.strip() == "" and not nested: definition = f"SOMA_INLINE {qual}{decl}"
    rest = t[stop:be].decode()
    definition += (" " if rest[0] in ":{" else "") + rest
    # dedent
    line_start = t.rfind(b"\n", 0, start) + 1
    indent = len(t[line_start:start]) - len(t[line_start:start].lstrip())
    definition = re.sub(r"\n {%d}" % indent, "\n", definition) if indent else definition
    whole = (not in_class) and (cl or not first)
    if whole:
        # leave nothing: take the comment above along, and attributes before
        s0 = line_start
        lines = t[:s0].decode().split("\n")[:-1]
        taken = []
        while lines and re.match(r"^\s*//", lines[-1]): taken.insert(0, lines.pop())
        s1 = s0 - sum(len(x.encode()) + 1 for x in taken)
        if any("----" in x for x in taken): taken, s1 = [], s0
        between = t[line_start:start].decode()  # attributes
        e1 = be
        if t[e1:e1 + 1] == b"\n": e1 += 1
        edits[f].append((s1, e1, b""))
        comment = "".join(x.strip() + "\n" for x in taken)
        moved[f].append((ns, comment + definition))
    else:
        declaration = t[start:stop].decode().rstrip()
        remark = re.search(r"\s*//[^\n]*$", declaration)
        if remark: declaration = declaration[:remark.start()]
        if not in_class: declaration = re.sub(r"^((?:\[\[[^\]]*\]\]\s*)?)inline\s+", r"\1", declaration)
        a = start
        if not in_class:
            # attribute before, then inline
            pass
        edits[f].append((start, be, (declaration + ";" + (remark.group(0) if remark else "")).encode()))
        moved[f].append((ns, definition))
    count["moved"] += 1
    count["lines"] += t[start:be].count(b"\n") + 1

def visit(cur):
    for ch in cur.get_children():
        k = kind(ch)
        if k is None: continue
        f = ch.location.file
        if f is None or not f.name.startswith(INC + "soma/"): continue
        if f.name.endswith("-inl.hpp") or f.name.endswith(".h") or f.name.endswith(".cpp"): continue
        r = room_of(f.name)
        if k in (K.NAMESPACE, K.CLASS_DECL, K.STRUCT_DECL, K.LINKAGE_SPEC, K.UNEXPOSED_DECL):
            visit(ch); continue
        if r not in rooms or os.path.relpath(f.name, INC + "soma") in LEFT: continue
        if k in (K.FUNCTION_DECL, K.CXX_METHOD, K.CONSTRUCTOR, K.DESTRUCTOR, K.CONVERSION_FUNCTION) and ch.is_definition():
            handle(ch)
visit(tu.cursor)

made = []
for f, es in sorted(edits.items()):
    t = texts[f]
    es = sorted(set(es))
    for (s, e, r), (s2, e2, r2) in zip(es, es[1:]):
        if s2 < e: print("OVERLAP", f, s, e, s2, e2)
    for s, e, r in reversed(es): t = t[:s] + r + t[e:]
    t = t.decode()
    # empty namespaces
    for _ in range(3): t = re.sub(r"\nnamespace [\w:]+ \{\s*\}  // namespace [\w:]+\n", "\n", t)
    t = re.sub(r"\n{3,}", "\n\n", t)
    rel = pathlib.Path(f[len(INC):])
    ipp = rel.parent / "impl" / (rel.stem + ".ipp")
    includes = re.findall(r"^#include <[^>]+>.*$", re.sub(r"(?ms)^#if.*?^#endif.*?$", "", texts[f].decode()), re.M)
    out = ["#pragma once", f"// The functions of {rel.name}.", "", f"#include <{rel}>", ""]
    out += includes
    cur = None
    for ns, d in moved[f]:
        n = "::".join(ns)
        if n != cur:
            if cur is not None: out += [f"}}  // namespace {cur}"]
            out += ["", f"namespace {n} {{", ""]; cur = n
        out += [d, ""]
    out += [f"}}  // namespace {cur}", ""]
    (pathlib.Path(INC) / ipp).parent.mkdir(parents=True, exist_ok=True)
    (pathlib.Path(INC) / ipp).write_text("\n".join(out))
    t = t.rstrip("\n") + f"\n\n#ifndef SOMA_DISPATCH\n#include <{ipp}>\n#endif\n"
    open(f, "w").write(t)
    made.append(str(ipp))

# ---- the units of the library
headers = {}
for path in pathlib.Path(INC).rglob("*"):
    if path.suffix in (".hpp", ".ipp"):
        headers[path.relative_to(INC).as_posix()] = re.findall(r"^\s*#\s*include <([^>]+)>", path.read_text(), re.M)

def foreign(name, seen):
    """The libraries behind the headers that a file reaches."""
    found = set()
    for used in headers.get(name, []):
        if not used.startswith("soma/"):
            found |= {library for library in ("nlohmann", "xxhash", "utf8proc", "zlib") if used.startswith(library)}
        elif used not in seen:
            seen.add(used)
            found |= foreign(used, seen)
    return found

def reaches_text(name, seen):
    return any(used.startswith("soma/text/") or (used not in seen and not seen.add(used) and reaches_text(used, seen))
               for used in headers.get(name, []))

def unit_of(name):
    room, needs = name.split("/")[1], foreign(name, {name})
    if room == "text": return "components/text"
    if room == "models": return "components/models" if needs or reaches_text(name, {name}) else "learn"
    if name.startswith(("soma/train/pipeline", "soma/train/impl/pipeline")): return "components/pipeline" if needs else "train"
    if room == "io": return "components/io" if needs else "core"
    if room == "impl":
        return {"testing": "testing", "neuroncore_clock": "neuroncore"}.get(pathlib.Path(name).stem, "plugin")
    if name.startswith("soma/neuroncore/processors/"): return "plugin"
    return {"autograd": "learn", "nn": "learn", "optim": "learn", "parallel": "train", "train": "train",
            "neuroncore": "neuroncore", "programs": "neuroncore", "testing": "testing"}.get(room, "core")

SAYS = {"core": "soma::dispatch: tensors, contexts, numbers, data, files that need no other library.",
        "learn": "soma::dispatch: tapes, layers, optimizers, models.",
        "train": "soma::dispatch: the trainer and ranks.",
        "neuroncore": "soma::dispatch: the model of the accelerator's core, its clock and its device.",
        "testing": "soma::dispatch: the checks of operators.",
        "plugin": "soma::dispatch: operators from shared libraries, and the processors that run some of them.",
        "components/io": "The compiled half of soma::io.",
        "components/pipeline": "The compiled half of soma::io: trainings in stages.",
        "components/text": "The compiled half of soma::text.",
        "components/models": "The compiled half of soma::models."}
units = collections.defaultdict(list)
for name in made: units[unit_of(name)].append(name)
for unit, parts in units.items():
    path = pathlib.Path(INC, "soma/dispatch", unit + ".cpp")
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"// {SAYS[unit]}\n\n" + "".join(f"#include <{part}>\n" for part in sorted(parts)))
changed = [INC + name for name in made] + [INC + name.replace("impl/", "").replace(".ipp", ".hpp") for name in made]
subprocess.run(["clang-format", "-i", *changed], cwd=root, check=True)
print(dict(count), "skipped", dict(skipped), "files", len(made), {unit: len(parts) for unit, parts in units.items()})
