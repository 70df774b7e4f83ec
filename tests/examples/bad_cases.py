"""Keeps the list of bad inputs, and the arguments that they share."""

from dataclasses import dataclass, field

TRAIN = ["train", "--quiet", "--vocab-size=300", "--max-length=32", "--threads=1", "--epochs=1",
         "--output=out"]
TUNE = [option for option in TRAIN if not option.startswith("--vocab-size")]
EVALUATE = ["evaluate", "--threads=1"]
PREDICT = ["predict", "--threads=1"]
GOOD = ["--data=../base/rows.tsv"]


@dataclass
class Case:
    name: str
    arguments: list
    code: int
    error: str
    files: dict = field(default_factory=dict)  # in the case's folder; None: a folder
    text: bytes = b"a good film\n"             # on standard input
    says: str = ""                             # what the line has in it besides


CASES = []


def case(name, arguments, code, error, files=None, **more):
    assert all(name != other.name for other in CASES), name  # it is the case's folder
    CASES.append(Case(name, arguments, code, error, files or {}, **more))
