#!/usr/bin/env python3
"""Code blocks of the vendor's documents of custom operators, as files: blocks.py FOLDER_OF_DOCUMENTS OUT

Whole operators only, known by the names of their functions: each becomes OUT/<name>/kernel.cpp, unchanged but for the
indent and, where a block lacks it, the #include of the page's other blocks. A shape file of ours stands beside a kernel
that has none in the documents.
"""

import pathlib
import re
import sys
import textwrap

INCLUDE = "#include <torch/torch.h>\n"
SHAPES = {
    "negate": "torch::Tensor shape(torch::Tensor x)",
    "add": "torch::Tensor shape(torch::Tensor x, torch::Tensor)",
}


def blocks(page):
    """The text of each indented block that a line ending in "::" introduces, without options."""
    lines = page.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        if not (line.strip() == "::" or re.match(r"\s*\.\. code-block:: c\+\+", line)):
            continue
        indent = len(line) - len(line.lstrip())
        body = []
        for inner in lines[number + 1:]:
            if inner.strip() and len(inner) - len(inner.lstrip()) <= indent:
                break
            if not re.match(r"\s*:[\w-]+:", inner):
                body.append(inner)
        yield textwrap.dedent("\n".join(body)).strip("\n") + "\n"


def main():
    documents, out = map(pathlib.Path, sys.argv[1:3])
    found = {}
    for page in sorted(documents.rglob("*.rst")):
        for text in blocks(page):
            if "NEURON_LIBRARY" in text and "tensor_negate_shape" in text:
                found["guide_shape"] = text
            elif "tensor_negate_compute" in text and "return t_out" in text:
                kind = "tcm" if "tcm_malloc" in text else "printf" if "printf" in text else "guide"
                found.setdefault(f"negate_{kind}", text)
            elif "tensor_add_compute" in text and "return t_out" in text:
                found.setdefault("add_streams" if "stream" in text else "add_elements", text)
    wanted = {"guide_shape", "negate_guide", "negate_tcm", "negate_printf", "add_elements", "add_streams"}
    if wanted - found.keys():
        sys.exit(f"the documents lack {sorted(wanted - found.keys())}")
    for name, text in found.items():
        if name == "guide_shape":
            continue
        folder = out / name
        folder.mkdir(parents=True)
        (folder / "kernel.cpp").write_text(text if "#include" in text else INCLUDE + text, encoding="utf-8")
        function = "tensor_negate" if name.startswith("negate") else "tensor_add"
        ours = (INCLUDE + '#include "torchneuron/register.h"\n'
                f'{SHAPES[name.split("_")[0]]} {{ return torch::zeros(x.sizes(), torch::kFloat); }}\n'
                f'NEURON_LIBRARY(my_ops, m) {{ m.def("{function}", &shape, "{function}_compute"); }}\n')
        (folder / "shape.cpp").write_text(found["guide_shape"] if name == "negate_guide" else ours, encoding="utf-8")
    print(f"{len(found) - 1} operators in the documents")


if __name__ == "__main__":
    main()
