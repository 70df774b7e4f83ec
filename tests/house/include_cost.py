#!/usr/bin/env python3
"""What a unit pays for including soma, as a multiple of a plain unit with six standard headers.

Units of programs link soma::dispatch, so headers are measured with SOMA_DISPATCH: declarations, and no function of
impl/*.ipp. The headers that make contexts bring kernels along without it; HEADER_ONLY has what they may cost then.

A ratio of CPU times of runs that alternate with the plain unit's, so that a machine that is slow for a while is slow
for both: of the least times, or the median of the pairs' ratios where that is smaller. Measured are the headers that
programs include; with --all, every header.

The budgets are those of g++ 12. With another compiler, whose standard library has other costs, the table is only shown.
"""

import os
import pathlib
import statistics
import subprocess
import sys

import house

PLAIN = "".join(f"#include <{name}>\n" for name in ("vector", "string", "functional", "span", "map", "iostream"))
# The includes that torch/torch.h of custom operator libraries is compared with, and the most that
# it may cost.
LIBRARY_PLAIN = "".join(f"#include <{name}>\n" for name in ("string", "vector", "memory"))
MOST_LIBRARY = 2.0
XTENSOR = """#if __has_include(<xtensor/containers/xarray.hpp>)
#include <xtensor/containers/xadapt.hpp>
#include <xtensor/containers/xarray.hpp>
#else
#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>
#endif
"""
IO = "#include <nlohmann/json.hpp>\n#include <xxhash.h>\n"
TEXT = "#include <nlohmann/json.hpp>\n#include <utf8proc.h>\n#include <zlib.h>\n"
RUNS = 3
MOST_RUNS = 9
CLEARLY = 0.8
DISPATCH = ["-DSOMA_DISPATCH=1"]
MOST = 2.5  # for a header that is not named below
# What programs include, dispatched; the other headers are inside these. (Of soma.hpp and xtensor.hpp see below.)
FRONT = {
    "soma/api.hpp": 1.75, "soma/soma.hpp": 2.0, "soma/nn.hpp": 2.1, "soma/testing.hpp": 2.1, "soma/plugin.hpp": 2.0,
    "soma/neuroncore.hpp": 2.5, "soma/neuroncore_clock.hpp": 2.75, "soma/sparse.hpp": 2.0, "soma/processors.hpp": 2.0,
    "soma/train.hpp": 1.9, "soma/pipeline.hpp": 5.5, "soma/parallel.hpp": 1.5, "soma/mpi.hpp": MOST,
    "soma/io.hpp": 5.25, "soma/text.hpp": 5.25, "soma/models.hpp": 6.0, "soma/models/text_classifier.hpp": 5.25,
    "soma/decoders.hpp": 6.25,
    "soma/tensorboard.hpp": 2.0, "soma/xtensor.hpp": None,
}
# The same with kernels, for the unit of a header-only program that makes the context.
HEADER_ONLY = {"soma/soma.hpp": 5.0, "soma/neuroncore.hpp": 7.5, "soma/sparse.hpp": 7.5}
# Parts of the trainer, and headers that have no front header of their own.
MOST_BY_NAME = {"soma/curves.hpp": 4.25, "soma/train/curves/run_curves.hpp": 4.25,
                "soma/images.hpp": 5.0, "soma/io/images/load_image.hpp": 5.0,
                "soma/nn/class_sampler.hpp": 3.25,
                **{f"soma/train/{name}.hpp": 4.25 for name in ("best_weights", "callbacks/status_publisher", "checkpoints",
                                                               "checks", "evaluate", "evaluate_ranks", "evaluations",
                                                               "identity", "loop", "many_ranks", "pipeline/groups",
                                                               "pipeline/links", "pipeline/ranks", "pipeline/stage",
                                                               "ranks", "trainer", "trainer_base")},
                # Parts of api.hpp.
                **{f"soma/{name}.hpp": 3.0 for name in ("models/bert", "models/bert_config_file", "nn/number_tasks",
                                                        "nn/task", "io/executable_files")}}
# The JSON library alone costs 3.5; that is why it stands in one header, and api.hpp does not reach it.
MOST_WITH_IO = {"soma/io/json_text.hpp": 5.0, "soma/io/record_json.hpp": 6.0, "soma/io/json_lines.hpp": 6.0,
                "soma/io/safetensors_header.hpp": 5.0, "soma/io/safetensors.hpp": 6.5, "soma/io.hpp": FRONT["soma/io.hpp"],
                "soma/io/precision_json.hpp": 5.0, "soma/io/trace.hpp": 5.0, "soma/io/checkpoint_files.hpp": 6.5,
                "soma/io/checkpoint_part_folder.hpp": 6.5, "soma/io/checkpoint_folder.hpp": 8.5,
                "soma/io/checksums.hpp": MOST, "soma/io/state_hash.hpp": MOST,
                # Pipelines keep their decision in a file.
                "soma/pipeline.hpp": FRONT["soma/pipeline.hpp"],
                **{f"soma/{name}.hpp": 8.5 for name in ("train/pipeline", "train/pipeline/planner", "train/plan",
                                                        "train/pipeline/gradients", "train/pipeline/plan_costs")},
                "soma/models/config_reader.hpp": 8.0, "soma/models/decoder/config_json.hpp": 8.0,
                "soma/models/bert_config_json.hpp": 8.0, "soma/models/pretrained.hpp": 9.0}
# As above: in text/, JSON stands behind tokenizer_settings.hpp and, for readers of rows, json_row.hpp. Training needs
# maps, sets and a queue.
MOST_WITH_TEXT = {"soma/tables.hpp": 8.0, "soma/text/tables/read_table.hpp": 5.0,
                  "soma/text/tables/table_encoder.hpp": 8.0,
                  "soma/text/json_row.hpp": 5.0, "soma/text/row_reader.hpp": 6.5,
                  "soma/text/added_tokens.hpp": 7.5, "soma/text/tokenizer_stages.hpp": 7.5, "soma/text/xmc_reader.hpp": 3.25, "soma/text/labelled_text.hpp": 6.5,
                  "soma/text/stream_source.hpp": 7.0, "soma/text/train_vocabulary.hpp": 4.0,
                  "soma/text/tokenizer_settings.hpp": 7.5, "soma/text/tokenizer_json.hpp": 8.5, "soma/text.hpp": FRONT["soma/text.hpp"]}
# Readers, tokenizer files and weights, with a model over them.
MOST_WITH_MODELS = {"soma/models/model_files.hpp": 6.5, "soma/models/extreme_classifier.hpp": 4.25,
                    "soma/models/decoder/files.hpp": 16.0, "soma/models/language_model.hpp": 16.0,
                    "soma/decoders.hpp": FRONT["soma/decoders.hpp"],
                    "soma/models/extreme_files.hpp": 16.0, "soma/models/fast_classifier.hpp": 16.0, "soma/models/fast_options.hpp": 8.0,
                    **{name: FRONT[name] for name in ("soma/models/text_classifier.hpp", "soma/models.hpp")}}
TENSORBOARD = "#include <protozero/pbf_writer.hpp>\n"
WITH_TENSORBOARD = {"soma/tensorboard.hpp", "soma/io/tensorboard.hpp"}
IMAGES = "#include <png.h>\n#include <cstdio>\n#include <jpeglib.h>\n"
MPI = "#include <mpi.h>\n"
WITH_MPI = {"soma/mpi.hpp", "soma/parallel/mpi.hpp"}
# The single headers: for the unit with the kernels, and for those beside it.
MOST_SINGLE = {"soma.hpp": 6.0, "api.hpp": 1.75}
# Internal headers: only code that makes contexts includes operators, and only tests include the
# references.
NOT_PUBLIC = ("soma/ops/", "soma/programs/", "soma/kernels/reference/")


class Compiler:
    def __init__(self, compiler, root, work):
        self.command = [compiler, "-std=c++20", "-O2", "-I", root / "include", "-c", "-o", os.devnull]
        self.work = work

    def cpu_time(self, text, flags):
        """User CPU seconds of one compilation, or None if it fails."""
        unit = self.work / "unit.cpp"
        unit.write_text(text, encoding="utf-8")
        with subprocess.Popen([*self.command, *flags, unit], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True) as process:
            message = process.stderr.read()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            print(message, file=sys.stderr)
            return None
        return usage.ru_utime

    def beside_library(self):
        """(time of a unit with torch/torch.h, time of its plain one), the least of several."""
        own = [self.cpu_time("#include <soma/compat/torch/torch.h>\n", []) for _ in range(RUNS + 2)]
        plain = [self.cpu_time(LIBRARY_PLAIN, []) for _ in range(RUNS + 2)]
        return (None, 0) if None in own else (min(own), min(plain))

    def least(self, text, flags, most):
        """(time of the unit, time of the plain one beside it)

        One run decides what is far below `most`. What is above it gets more runs: a busy machine can only add time.
        """
        own, plain = [], []

        def pair():
            median = statistics.median(mine / other for mine, other in zip(own, plain))
            return min(own), max(min(plain), min(own) / median)

        while len(own) < RUNS or (pair()[0] > most * pair()[1] and len(own) < MOST_RUNS):
            plain.append(self.cpu_time(PLAIN, []))
            own.append(self.cpu_time(text, flags))
            if own[-1] is None or (most < float("inf") and own[-1] < CLEARLY * most * plain[-1]):
                return own[-1], plain[-1]
        return pair()

    def beside_xtensor(self, text, flags):
        """(most, least time, least time of the plain unit): the bridge may cost what xtensor costs, and two plain units

        The second is for operators of one's own, which bring tapes along. Both are measured, so a disturbance of either
        misleads: only what stays above is too much.
        """
        for _ in range(3):
            foreign, plain = self.least(XTENSOR, [], float("inf"))
            most = foreign / plain + 2
            time, plain = self.least(text, flags, most)
            if time is None or time <= most * plain:
                break
        return most, time, plain


def include(header):
    return f"#include <{header}>\n"


def reached(root, header):
    """The soma headers that one includes, directly or not."""
    found, waiting = set(), [header]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [used for _, _, used in house.includes(root / "include" / name)
                        if used.startswith("soma/") and not used.endswith(house.FUNCTIONS)]
    return found


def cases(root, every, has_xtensor, has_io, has_text, has_tensorboard, has_mpi, has_images):
    """(label, text, flags, most)"""
    interface = reached(root, "soma/api.hpp")
    for header in house.headers(root):
        if not every and header not in FRONT:
            continue
        if header.startswith(NOT_PUBLIC) and header not in interface:
            continue
        if header == "soma/xtensor.hpp" or (header in MOST_WITH_IO and not has_io):
            continue
        if header.startswith(("soma/text", "soma/tables")) and not has_text:
            continue
        if header in MOST_WITH_MODELS and not (has_io and has_text):
            continue
        if header in WITH_TENSORBOARD and not has_tensorboard:
            continue
        if header in WITH_MPI and not has_mpi:
            continue
        if header.startswith(("soma/images", "soma/io/images/")) and not has_images:
            continue
        most = {**MOST_BY_NAME, **MOST_WITH_IO, **MOST_WITH_TEXT, **MOST_WITH_MODELS, **FRONT}.get(header, MOST)
        yield header, include(header), DISPATCH, most
        if header in HEADER_ONLY:
            yield header + ", header-only", include(header), [], HEADER_ONLY[header]
    if has_xtensor and (root / "include/soma/xtensor.hpp").is_file():
        yield "soma/xtensor.hpp", include("soma/xtensor.hpp"), DISPATCH, None
    for name, most in MOST_SINGLE.items():
        flags = DISPATCH if name == "api.hpp" else []
        yield f"single_include/soma/{name}", f'#include "{root.resolve()}/single_include/soma/{name}"\n', flags, most
    yield "torch/torch.h, beside three headers", None, [], MOST_LIBRARY


def main():
    options = house.arguments(__doc__, "--compiler", "--work", switches=("--all",))
    work = pathlib.Path(options.work)
    work.mkdir(parents=True, exist_ok=True)
    compiler = Compiler(options.compiler, options.root, work)

    def found(text):
        return subprocess.run([options.compiler, "-std=c++20", "-E", "-x", "c++", "-"], input=text, text=True,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0

    problems = []
    print(f"{'ratio':>6} {'most':>6} {'seconds':>8}  header")
    has = (found(XTENSOR), found(IO), found(TEXT), found(TENSORBOARD), found(MPI), found(IMAGES))
    for label, text, flags, most in cases(options.root, options.all, *has):
        if text is None:
            time, plain = compiler.beside_library()
        elif most is None:
            most, time, plain = compiler.beside_xtensor(text, flags)
        else:
            time, plain = compiler.least(text, flags, most)
        if time is None:
            problems.append(f"{label} does not compile")
            continue
        ratio = time / plain
        print(f"{ratio:6.2f} {most:6.2f} {time:8.2f}  {label}{'' if ratio <= most else '   <-- too much'}")
        if ratio > most:
            problems.append(f"{label} costs {ratio:.2f} plain units, at most {most:.2f}")
    version = subprocess.run([options.compiler, "-dumpversion"], capture_output=True, text=True, check=False).stdout
    kind = subprocess.run([options.compiler, "--version"], capture_output=True, text=True, check=False).stdout
    broken = [problem for problem in problems if problem.endswith("does not compile")]
    if not broken and (version.split(".")[0].strip() != "12" or "clang" in kind):
        print("SKIPPED: the budgets are those of g++ 12, and this is " + kind.splitlines()[0])
        sys.exit(77)
    house.finish(problems, "a plain unit includes vector, string, functional, span, map, iostream")


if __name__ == "__main__":
    main()
