"""Adds the bad inputs that are files of rows, which cannot be read or learnt from."""

import gzip

import program as tool
from bad_cases import GOOD, TRAIN, case

ROWS = tool.rows()


def data(name, content, error, *options, file="rows.tsv", says=""):
    case(name, [*TRAIN, f"--data={file}", *options], 1, error, {file: content}, says=says)


case("data missing", [*TRAIN, "--data=nowhere.tsv"], 1, "file.read", says="nowhere.tsv")
data("data empty", b"", "text.file_empty")
data("data blank lines", b"\n\r\n\n", "text.file_empty")
data("data header only", b"text\tlabel\n", "text.file_empty")
data("data binary", bytes(range(256)) * 20, "text.row_encoding")
data("data binary of unknown name", b"\x89PNG\r\n\x1a\n" + bytes(99), "text.file_format",
     file="rows.png")
data("data zero byte", ROWS + b"a\0b\t1\n", "text.row_encoding", says="line 61")
data("data not UTF-8", ROWS + b"caf\xe9\t1\n", "text.row_encoding", says="line 61")
data("data surrogate", ROWS + b"a\xed\xa0\x80b\t1\n", "text.row_encoding")
data("data huge line", ROWS + b"a " * 1_000_000 + b"\t1\n", "text.row_too_long", says="line 61")
data("data huge line without end", b"x" * 3_000_000, "text.row_too_long")
case("data whose first line is long", [*TRAIN, "--data=rows.tsv"], 0, "",
     {"rows.tsv": b"long " * 40_000 + b"\t1\n" + ROWS})
data("data row too narrow", ROWS + b"only a text\n", "text.row_columns", says="line 61")
data("data row too wide", ROWS + b"a\tb\tc\n", "text.row_columns")
data("data three columns", b"a\tb\tc\n" * 9, "text.column")
data("data column number", ROWS, "text.column", "--text-column=3")
data("data column zero", ROWS, "text.column", "--text-column=0")
data("data column below zero", ROWS, "text.column", "--label-column=-1")
data("data column beyond 64 bits", ROWS, "text.column", "--text-column=99999999999999999999")
data("data column name", b"text\tlabel\n" + ROWS, "text.column", "--text-column=words",
     says="words")
data("data one column for both", ROWS, "text.column", "--text-column=2", "--label-column=2")
data("data header of other names", b"heading\tstars\n" + ROWS, "text.column", "--label-column=mark")
NAMED = ROWS.replace(b"\t0", b"\tdull").replace(b"\t1", b"\tgood")
data("data header that no name tells", b"heading\tmood\n" + NAMED, "text.header", says="--header")
data("data header that no name tells, streamed", b"heading\tmood\n" + NAMED, "text.header",
     "--stream=50", says="--header")
data("data header twice", b"text\tlabel\n" + NAMED + b"text\tlabel\n" + NAMED, "text.header",
     says="line 62")
data("data header and a class of its name", b"text\tlabel\n" + NAMED + b"a\tlabel\n", "text.header")
data("data classes that look the same", NAMED + b"a\tg\xc2\xadood\n", "text.label_alike",
     says="U+00AD")
data("csv with semicolons", b"good, really;1\n" + ROWS.replace(b"\t", b";"), "text.file_format", file="rows.csv", says="semicolons")
data("data several labels in a cell", b"a\tx|y\nb\tx\nc\ty\n", "text.label_separator",
     "--multi-label", says="x|y")
data("data columns of fastText", b"__label__1 a\n__label__2 b\n", "text.column", "--text-column=1",
     file="rows.txt")
data("data without the second text", b"a\tb\t1\nc\t \t0\n", "text.row_empty", "--text-column=1",
     "--pair-column=2")
data("data columns twice", ROWS, "text.column", "--text-columns=1,1", "--label-column=2")
data("data all of one text", b"same\t1\nsame\t0\n" * 9, "text.split", says="the same text")
for name, content in [("of no JSON", b"good,5\n"), ("that lack a class", b'{"0": 1}'),
                      ("of another class", b'{"0": 1, "1": 1, "2": 1}'),
                      ("below zero", b'{"0": 1, "1": -1}'), ("of a text", b'{"0": 1, "1": "2"}'),
                      ("of nothing", b'{"0": 0, "1": 0}'), ("that overflow", b'{"0": 1, "1": 1e60}')]:
    case(f"class weights {name}", [*TRAIN, *GOOD, "--class-weights=w.json"], 2, "cli.usage",
         {"w.json": content}, says="--class-weights")
case("class weights missing", [*TRAIN, *GOOD, "--class-weights=w.json"], 1, "file.read")
data("data one class", ROWS.replace(b"\t0", b"\t1"), "text.one_class")
data("data label missing", ROWS + b"a text\t\n", "text.row_label")
data("data text missing", ROWS + b"  \t1\n", "text.row_empty")
data("data too many classes", b"".join(b"text %d\tname %d\n" % (i, i) for i in range(1500)),
     "text.label_count", "--label-column=2")
data("data of two columns of texts", b"".join(b"text %d\tname %d\n" % (i, i) for i in range(50)),
     "text.column", says="--label-column")
data("data labels that are the same", ROWS + b"a\t1.0\n", "text.label_alike",
     says='"1" (line 2 of "rows.tsv") and "1.0" (line 61')
data("data labels that are the same, streamed", ROWS + b"a\t1.0\n", "text.label_alike",
     "--stream=9", says="--merge-labels")
data("data lists of labels", b"a\t['x', 'y']\nb\t['x']\n", "text.row_label", says="--multi-label")
data("data list of labels cut", b"a\t['x', 'y'\nb\t['x']\n", "text.row_label", "--multi-label",
     says="line 1")
data("data columns of labels", b"text,x,y\na,1,0\nb,0,7\n", "text.row_label", "--label-columns=x,y",
     file="rows.csv", says='line 3 of "rows.csv" is "7" in column "y"')
data("data columns of labels missing", b"text,x\na,1\n", "text.column", "--label-columns=x,y",
     file="rows.csv")
data("data UTF-16 cut", b"\xff\xfe" + (ROWS.decode() + "cut\t1").encode("utf-16-le") + b"a",
     "text.row_encoding", says="line 61")
data("data all rows bad", b"a\tb\n" + b"x\n" * 9, "text.one_class", "--skip-bad-rows")
data("data all rows bad and skipped", b" \t1\n \t0\n", "text.file_empty", "--skip-bad-rows")
data("data without words", b"\xe2\x80\x8b\t0\n\xe2\x80\x8b\t1\n" * 60, "text.training",
     "--dev=../base/rows.tsv")
data("data too few to hold out", b"a\t0\nb\t1\n", "text.split", "--held-out-share=0.001")
data("csv quote not closed", b'text,label\n"a film,1\n' + b"b,0\n" * 9, "text.row_quote",
     file="rows.csv", says="line 2")
data("csv quote inside", b'text,label\na "film",1\n', "text.row_quote", file="rows.csv")
data("csv text behind quote", b'text,label\n"a" film,1\n', "text.row_quote", file="rows.csv")
data("csv that is tsv", ROWS, "text.file_format", file="rows.csv")
data("fastText without label", b"__label__1 good\nbad\n", "text.row_label", file="rows.txt")
data("fastText with a label behind the text", b"__label__1 good __label__2 tail\n",
     "text.row_label", file="rows.txt")
data("fastText with two labels", b"__label__1 __label__2 good\n", "text.row_label", file="rows.txt")
data("JSON lines cut", b'{"text": "a", "label": 1}\n{"text": "b", "la\n', "text.row_json",
     file="rows.jsonl", says="line 2")
data("JSON lines without label", b'{"text": "a"}\n', "text.row_json", file="rows.jsonl")
data("JSON lines label null", b'{"text": "a", "label": null}\n', "text.row_json",
     file="rows.jsonl")
data("JSON lines text list", b'{"text": ["a"], "label": 1}\n', "text.row_json", file="rows.jsonl")
data("JSON lines twice", b'{"text": "a", "text": "b", "label": 1}\n', "text.row_json",
     file="rows.jsonl")
data("JSON lines deep", b'{"text": ' + b"[" * 200_000 + b"\n", "text.row_json", file="rows.jsonl")
data("JSON lines escaped zero", b'{"text": "a\\u0000b", "label": 1}\n', "text.row_encoding",
     file="rows.jsonl")
data("JSON lines label of two lines", b'{"text": "a", "label": "b\\nc"}\n', "text.row_label",
     file="rows.jsonl", says="b\\nc")
data("JSON lines label of spaces", b'{"text": "a", "label": "  "}\n', "text.row_label",
     file="rows.jsonl", says="without label")
data("JSON lines label with a tab", b'{"text": "a", "label": "b\\tc"}\n', "text.row_label",
     file="rows.jsonl")
data("gzip broken", gzip.compress(ROWS)[:40] + bytes(40), "text.file_gzip", file="rows.tsv.gz")
data("gzip cut", gzip.compress(ROWS * 50)[:-40], "text.file_gzip", file="rows.tsv.gz")
data("gzip cut in its header", gzip.compress(ROWS)[:5], "text.file_gzip", file="rows.tsv.gz")
data("gzip broken in its second head",
     gzip.compress(ROWS) + b"\x1e" + gzip.compress(ROWS)[1:], "text.file_gzip", file="rows.tsv.gz")
data("data folder without files", None, "text.folder", file="rows")
case("data folder without train", [*TRAIN, "--data=rows"], 1, "text.folder",
     {"rows/test.tsv": ROWS})
case("data folder with two trains", [*TRAIN, "--data=rows"], 1, "text.folder",
     {"rows/train.tsv": ROWS, "rows/train.csv": b"a,1\n"})
case("data folder with an empty train", [*TRAIN, "--data=rows"], 1, "text.folder",
     {"rows/train": None})
case("data device", [*TRAIN, "--data=/dev/zero"], 1, "file.read")
case("dev missing", [*TRAIN, *GOOD, "--dev=nowhere.tsv"], 1, "file.read")
case("dev folder", [*TRAIN, *GOOD, "--dev=dev"], 1, "file.read", {"dev": None})
case("dev with a new label", [*TRAIN, *GOOD, "--dev=dev.tsv"], 1, "text.label_unseen",
     {"dev.tsv": b"good\t1\nbad\t7\n"}, says="line 2")
case("dev with a new label that is long", [*TRAIN, *GOOD, "--dev=dev.tsv"], 1, "text.label_unseen",
     {"dev.tsv": b"good\t1\nbad\t" + b"7" * 500_000 + b"\n"}, says="500000 bytes")
case("dev empty", [*TRAIN, *GOOD, "--dev=dev.tsv"], 1, "text.file_empty", {"dev.tsv": b""})
