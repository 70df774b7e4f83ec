"""train --plot and --report: what they hold, of both kinds of models, also when a run is resumed.

    python3 report.py PROGRAM WORK_FOLDER [--browser]

--browser: a headless Chromium draws the page; exit code 77 where there is none.
"""

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import program as tool  # noqa: E402  (it lies one folder up)

TRAIN = ["train", "--quiet", "--vocab-size=300", "--max-length=16", "--threads=1", "--epochs=3",
         "--batch-size=8", "--evaluate-every=5", "--data=rows.tsv", "--dev=dev.tsv"]
EVIL = '</td></bdi><script>document.title="taken"</script><img src=x onerror=alert(1)>'
SVG = "{http://www.w3.org/2000/svg}"


class Page(HTMLParser):
    """Tags of a page with their attributes, and the text of the cells of each table."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.tables, self.cell = [], {}, None
        self.rows = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag == "table":
            self.rows = self.tables.setdefault(dict(attributes).get("id"), [])
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.cell = []

    def handle_endtag(self, tag):
        if tag in ("td", "th") and self.cell is not None:
            self.rows[-1].append("".join(self.cell))
            self.cell = None

    def handle_data(self, text):
        if self.cell is not None:
            self.cell.append(text)


def write_rows(work):
    (work / "rows.tsv").write_bytes(tool.rows(80))
    # Texts with the wrong label, which a model that has learnt is sure of; one that would like to
    # be a script, one in another direction of writing.
    dev = tool.rows(20) + f"a good {EVIL} film\t0\na dull \u202eplot with music\t1\n".encode()
    (work / "dev.tsv").write_bytes(dev)


def polylines(svg):
    return [line for line in svg.iter(SVG + "polyline")]


def check_page(text, checks, name):
    page = Page(text)
    tags = {tag for tag, _ in page.tags}
    checks.that(not tags & {"script", "img", "link", "a", "iframe", "object", "image", "use"},
                f"{name}: tags {tags}")
    for tag, attributes in page.tags:
        checks.that(not {"src", "href", "style", "onerror", "onload"} & set(attributes),
                    f"{name}: attributes {attributes} of {tag}")
    results = dict(row for row in page.tables["results"])
    checks.that({"validation loss", "accuracy", "steps"} <= set(results), f"{name}: {results}")
    matrix = [[int(cell) for cell in row[1:]] for row in page.tables["confusion"][1:]]
    checks.that(sum(map(sum, matrix)) == 22, f"{name}: a matrix of 22 texts, {matrix}")
    wrong = page.tables["wrong"][1:]
    checks.that(len(wrong) == matrix[0][1] + matrix[1][0], f"{name}: {len(wrong)} wrong, {matrix}")
    checks.that(all(float(a[0]) >= float(b[0]) for a, b in zip(wrong, wrong[1:])),
                f"{name}: the surest first")
    checks.that(all(row[1] != row[2] for row in wrong), f"{name}: wrong ones only")
    checks.that(any(EVIL in row[3] for row in wrong), f"{name}: a text is shown as it is, {wrong}")
    return page


def find_browser():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if shutil.which(name):
            return shutil.which(name)
    return None


def check_browser(work, page, checks):
    """What a browser makes of the page: no script ran, the curves have a size, the rows are there."""
    browser = find_browser()
    if browser is None:
        print("SKIPPED: no Chromium (on Debian: apt-get install chromium)")
        sys.exit(77)
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=" +
               str(work / "browser"), "--virtual-time-budget=2000"]
    address = (work / page).resolve().as_uri()
    dom = subprocess.run([*command, "--dump-dom", address], capture_output=True, text=True,
                         timeout=120).stdout
    drawn = Page(dom)
    checks.that("<title>taken" not in dom, "no script of a text has run")
    checks.that({tag for tag, _ in drawn.tags} & {"script", "img"} == set(), "no tag of a text is one")
    checks.that(sum(tag == "polyline" for tag, _ in drawn.tags) >= 5, "the curves are in the document")
    # The picture itself: curves in their colours, on white.
    shot = work / "page.png"
    subprocess.run([*command, f"--screenshot={shot}", "--window-size=1200,2400", address],
                   capture_output=True, timeout=120)
    checks.that(shot.exists() and shot.stat().st_size > 20000, "the page is drawn")
    colours = subprocess.run([sys.executable, "-c", COUNT_COLOURS, str(shot)], capture_output=True,
                             text=True, timeout=120).stdout.split()
    checks.that(len(colours) == 4 and all(int(count) > 50 for count in colours),
                f"pixels of training, validation, accuracy and correct cells: {colours}")


# Counts pixels near four colours of a PNG, in a process of its own: rows of filters are plain loops.
COUNT_COLOURS = """
import struct, sys, zlib
data = open(sys.argv[1], 'rb').read()
at, packed = 8, b''
while at < len(data):
    length, kind = struct.unpack('>I4s', data[at:at + 8])
    body = data[at + 8:at + 8 + length]
    if kind == b'IHDR':
        width, height, depth, colour = struct.unpack('>IIBB', body[:10])
    if kind == b'IDAT':
        packed += body
    at += 12 + length
step = {2: 3, 6: 4}[colour]
raw, stride, last = zlib.decompress(packed), width * step, bytearray(width * step)
wanted = [(0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00), (0xE6, 0x9F, 0x00), (0xE3, 0xF1, 0xE3)]
counts = [0] * 4
for y in range(height):
    kind, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
    for x in range(stride):
        a = line[x - step] if x >= step else 0
        b, c = last[x], last[x - step] if x >= step else 0
        if kind == 1: line[x] = (line[x] + a) & 255
        elif kind == 2: line[x] = (line[x] + b) & 255
        elif kind == 3: line[x] = (line[x] + (a + b) // 2) & 255
        elif kind == 4:
            p = a + b - c
            pa, pb, pc = abs(p - a), abs(p - b), abs(p - c)
            line[x] = (line[x] + (a if pa <= pb and pa <= pc else b if pb <= pc else c)) & 255
    last = line
    for x in range(0, stride, step):
        for i, (r, g, b) in enumerate(wanted):
            if abs(line[x] - r) + abs(line[x + 1] - g) + abs(line[x + 2] - b) < 12:
                counts[i] += 1
print(*counts)
"""


def main():
    program, work = sys.argv[1], tool.fresh_folder(Path(sys.argv[2]))
    checks = tool.Checks()
    write_rows(work)
    if "--browser" in sys.argv:
        tool.must_run(program, [*TRAIN, "--report=run.html", "--learning-rate=3e-3"], folder=work)
        check_browser(work, "run.html", checks)
        return checks.finish("report in a browser")

    tool.must_run(program, [*TRAIN, "--plot=whole.svg", "--report=run.html", "--learning-rate=3e-3"],
                  folder=work)
    svg = ElementTree.parse(work / "whole.svg").getroot()
    # Training loss and its mean, validation loss, three metrics, the rate.
    checks.that(len(polylines(svg)) == 7, f"{len(polylines(svg))} curves")
    page = check_page((work / "run.html").read_text(encoding="utf-8"), checks, "bert")
    checks.that("svg" in {tag for tag, _ in page.tags}, "the curves are in the page")
    checks.that((work / "whole.svg").read_text() in (work / "run.html").read_text(),
                "the page has the picture of --plot")

    # Stopped behind step 13 and resumed: the same picture, byte for byte.
    go_on = [*TRAIN, "--learning-rate=3e-3", "--schedule=constant", "--warmup-steps=0"]
    tool.must_run(program, [*go_on, "--plot=long.svg"], folder=work)
    begun = [*go_on, "--plot=part.svg", "--report=part.html", "--checkpoint=kept"]
    tool.must_run(program, [*begun, "--max-steps=13"], folder=work)
    tool.must_run(program, [*begun, "--resume"], folder=work)
    # At its end, step 13, the shorter run evaluated once more than the longer one.
    values = [re.search(r"^loss\t.*$", (work / name).read_text(), re.MULTILINE).group()
              for name in ("long.svg", "part.svg", "part.html")]
    checks.that(values[0] == values[1] == values[2], "a resumed run's curve is that of a whole run")

    # The fast kind, and models without classes.
    fast = ["train", "--model-kind=fast", "--quiet", "--data=rows.tsv", "--dev=dev.tsv", "--epochs=4"]
    tool.must_run(program, [*fast, "--plot=fast.svg", "--report=fast.html"], folder=work)
    check_page((work / "fast.html").read_text(encoding="utf-8"), checks, "fast")
    checks.that(polylines(ElementTree.parse(work / "fast.svg").getroot()), "curves of the fast kind")
    tool.must_run(program, [*TRAIN, "--regression", "--report=numbers.html"], folder=work)
    page = Page((work / "numbers.html").read_text(encoding="utf-8"))
    checks.that("confusion" not in page.tables and page.tables["wrong"][0][0] == "error",
                f"a page of numbers: {sorted(map(str, page.tables))}")
    tool.must_run(program, [*TRAIN, "--multi-label", "--report=several.html"], folder=work)
    page = Page((work / "several.html").read_text(encoding="utf-8"))
    checks.that("confusion" not in page.tables and "wrong" in page.tables, "a page of several labels")

    for option in ("plot", "report"):
        result = tool.run(program, [*TRAIN, f"--{option}=nowhere/a"], folder=work)
        checks.that(result.returncode == 1 and result.stderr.endswith(b"[file.write]\n"),
                    f"--{option} in no folder: {result.stderr}")
        result = tool.run(program, [*TRAIN, f"--{option}=model/a", "--output=model"], folder=work)
        checks.that(result.returncode == 2 and result.stderr.endswith(b"[cli.usage]\n"),
                    f"--{option} in the model: {result.stderr}")
        result = tool.run(program, [*TRAIN, f"--{option}=rows.tsv"], folder=work)
        checks.that(result.returncode == 2 and b"same file" in result.stderr,
                    f"--{option} over the rows: {result.stderr}")
    checks.that(not list(work.glob("*.partial")), "no file that is not whole is left")
    return checks.finish("report")


if __name__ == "__main__":
    sys.exit(main())
