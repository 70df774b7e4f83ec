"""What clients of hosting services send to serve, and what they get.

    python3 serve_types.py PROGRAM WORK_FOLDER
"""

import gzip
import http.client
import json
import os
import socket
import subprocess
import sys
import time
import zlib
from pathlib import Path

import program as tool

JSON, LINES, CSV, PLAIN = ("application/json", "application/jsonlines", "text/csv", "text/plain")


class Server:
    def __init__(self, program, model):
        self.process = tool.Process([program, "serve", f"--model={model}", "--port=0"],
                                    stdout=subprocess.PIPE, env=tool.environment())
        self.port = int(self.process.stdout.readline().rsplit(b":", 1)[1])
        while self.request("GET", "/ping")[0] == 503:
            time.sleep(0.01)

    def request(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.getheader("Content-Type"), answer.read().decode()

    def ask(self, kind, body, accept=None):
        headers = {"Content-Type": kind, **({"Accept": accept} if accept else {})}
        return self.request("POST", "/invocations", body.encode() if isinstance(body, str) else body, headers)

    def end(self):
        self.process.terminate()
        self.process.communicate(timeout=60)


def check_bodies(server, checks):
    def good(kind, body, count, name):
        status, _, answer = server.ask(kind, body, accept=JSON)
        found = len(json.loads(answer).get("predictions", [])) if status == 200 else answer
        checks.that(found == count, f"{name}: {status}, {found}, wanted {count}")
        return answer

    one = good(PLAIN, "fine film", 1, "plain")
    for kind, body, name in [
            (JSON, '{"inputs": "fine film"}', "inputs a string"),
            (JSON, '{"inputs": "fine film", "parameters": {"top_k": [1]}}', "with parameters"),
            (JSON, '{"inputs": ["fine film"]}', "inputs a list"),
            (JSON, '{"instances": ["fine film"]}', "instances"),
            (LINES, '{"text": "fine film"}', "a line"),
            (LINES, '\n{"inputs": "fine film"}\r\n\n', "blank lines"),
            ("application/x-ndjson", '{"inputs": ["fine film"]}\n', "another name"),
            (CSV, "fine film\n", "csv"),
            (CSV + "; header=absent", "fine film\n", "csv without a header"),
            (CSV + "; header=present", "text\nfine film\n", "csv with a header"),
            ('Text/CSV;charset=utf-8; HEADER="present"', "id,text\n7,fine film\n", "a column")]:
        checks.that(good(kind, body, 1, name) == one, f"{name}: another answer")
    for name, form in [("a mark", lambda text: b"\xef\xbb\xbf" + text), ("UTF-16", lambda text: text.decode().encode("utf-16")),
                       ("UTF-16 of the other order", lambda text: b"\xfe\xff" + text.decode().encode("utf-16-be"))]:
        for kind, body in [(PLAIN, b"fine film"), (JSON, b'{"inputs": "fine film"}'), (CSV, b'"fine film"\r\n'),
                           (LINES, b'{"text": "fine film"}\n')]:
            checks.that(good(kind, form(body), 1, name) == one, f"{name}, {kind}: another answer")
    status, _, answer = server.ask(PLAIN, b"\xff\xfea\0\0\xd8")
    checks.that(status == 400 and json.loads(answer)["id"] == "serve.body", f"half a character: {status}, {answer}")
    good(LINES, '{"text": "fine"}\n{"text": "dull"}\n', 2, "lines")
    good(CSV + ";header=present", "text,label\nfine,1\n\ndull,0\n", 2, "rows behind a header")
    for kind, body, name in [
            (JSON, '{"instances": "fine"}', "instances a string"),
            (JSON, '{"inputs": {"text": "fine"}}', "inputs an object"),
            (JSON, '{"inputs": [["fine"]]}', "a list in a list"),
            (JSON, '{"text": ["fine"]}', "text a list"),
            (JSON, '{"text": "fine", "inputs": "dull"}', "two of them"),
            (LINES, '{"text": "fine"}\n{"text": 1}\n', "a line without text"),
            (LINES, '{"inputs": ["fine", "dull"]}', "a line with two"),
            (LINES, '{"text": "fine"', "half a line"),
            (LINES, "\n\n", "no line"),
            (CSV + "; header=present", "text\n", "a header alone"),
            (CSV + "; header=present", "id,text\n7\n", "a row without the column"),
            (CSV + "; header=maybe", "fine\n", "another header"),
            ("application/x-npy", "fine", "another type")]:
        status, kind, answer = server.ask(kind, body)
        checks.that(status == 400 and json.loads(answer)["id"] == "serve.body",
                    f"{name}: {status}, {answer}")
    _, _, answer = server.ask(LINES, '{"text": "fine"}\n{"text": 1}\n')
    checks.that("line 2" in json.loads(answer)["error"], f"which line: {answer}")


def check_tables(server, checks):
    """A row of CSV is one text, unless a header names its column."""
    def answer(body, kind=CSV):
        status, _, found = server.ask(kind, body)
        return found if status == 200 else status

    whole = answer('"fine film, dull film"\n')
    checks.that(isinstance(whole, str), f"a text in quotes: {whole}")
    for body in ("inputs\n\"fine film, dull film\"\n", '"inputs"\r\n"fine film, dull film"\r\n',
                 'id,inputs\n7,"fine film, dull film"\n'):
        checks.that(answer(body) == whole, f"the header inputs: {body} {answer(body)}")
    one = answer("inputs\n", CSV + "; header=absent")
    checks.that(isinstance(one, str) and one.count("\n") == 1, f"no header: {one}")
    for body, kind in [("fine film, dull film\n", CSV), ("17,fine film\n", CSV), ("fine\nfine,film\n", CSV),
                       ("inputs\n", CSV), ("inputs\nfine,film\n", CSV), ("id,inputs\n7\n", CSV),
                       ("id,words\n7,fine\n", CSV + "; header=present"), ("inputs,id\nfine,7\n", CSV + ";header=absent")]:
        checks.that(answer(body, kind) == 400, f"{kind} {body!r}: {answer(body, kind)}")


def check_encodings(server, checks):
    """A packed body is answered as one that is not; what is no gzip is refused."""
    def ask(data, encoding, kind=PLAIN):
        status, _, found = server.request("POST", "/invocations", data,
                                          {"Content-Type": kind, "Content-Encoding": encoding})
        return found if status == 200 else (status, json.loads(found)["id"])

    text = b"fine film\n" * 3
    _, _, wanted = server.ask(PLAIN, text.decode())
    packed = gzip.compress(text)
    for encoding in ("gzip", "GZIP", "x-gzip"):
        checks.that(ask(packed, encoding) == wanted, f"{encoding}: {ask(packed, encoding)}")
    checks.that(ask(text, "identity") == wanted, "identity")
    checks.that(ask(gzip.compress(text[:10]) + gzip.compress(text[10:]), "gzip") == wanted, "two members")
    checks.that(ask(gzip.compress(b'{"inputs": "fine film"}'), "gzip", JSON)
                == server.ask(JSON, '{"inputs": "fine film"}')[2], "JSON")
    for data, encoding, name in [(text, "gzip", "no gzip"), (packed[:-1], "gzip", "cut short"), (b"", "gzip", "nothing"),
                                 (packed + b"x", "gzip", "more behind it"), (gzip.compress(b""), "gzip", "empty"),
                                 (zlib.compress(text), "gzip", "zlib"), (text, "br", "another encoding"),
                                 (packed, "gzip, gzip", "twice")]:
        checks.that(ask(data, encoding) == (400, "serve.body"), f"{name}: {ask(data, encoding)}")
    # What is unpacked counts, however small it was.
    checks.that(ask(gzip.compress(b"x" * (1 << 20)), "gzip") != (413, "serve.body_size"), "as long as --max-body")
    for size in ((1 << 20) + 1, 1 << 28):
        checks.that(ask(gzip.compress(bytes(size)), "gzip") == (413, "serve.body_size"), f"{size} bytes unpacked")


def check_hosts(server, checks):
    """HTTP/1.1 needs one header Host."""
    for head, wanted in [(b"GET /ping HTTP/1.1", 400), (b"GET /ping HTTP/1.1\r\nHost: a", 200),
                         (b"GET /ping HTTP/1.1\r\nHost:", 200), (b"GET /ping HTTP/1.1\r\nHost: [::1]:80", 200),
                         (b"GET /ping HTTP/1.1\r\nHost: a\r\nHost: a", 400), (b"GET /ping HTTP/1.0", 200),
                         (b"GET http://a/ping HTTP/1.1", 400), (b"GET /ping HTTP/1.1\r\nHost: a/b", 400)]:
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
            client.sendall(head + b"\r\nConnection: close\r\n\r\n")
            answer = b"".join(iter(lambda: client.recv(4096), b""))
        checks.that(b" %d " % wanted in answer.split(b"\r\n")[0], f"{head}: {answer[:300]}")
        if wanted == 400:
            checks.that(b"serve.request" in answer and b"Host" in answer, f"{head}: {answer}")


def check_pairs(server, checks):
    """A model of pairs takes pairs, in each type of body, and nothing else."""
    pair = {"text": "red thing", "text_pair": "a, blue one"}
    status, _, one = server.ask(JSON, json.dumps({"inputs": pair}))
    checks.that(status == 200 and len(json.loads(one)["predictions"]) == 1, f"a pair: {status} {one}")
    for kind, body, name in [
            (JSON, json.dumps(pair), "text and text_pair"),
            (JSON, json.dumps({"text_pair": pair["text_pair"], "text": pair["text"]}), "the other order"),
            (JSON, json.dumps({"inputs": [pair]}), "inputs a list"),
            (JSON, json.dumps({"instances": [{**pair, "id": {"text": [1]}}], "text_pairs": 1}), "instances"),
            (LINES, json.dumps({"inputs": pair}) + "\n\n", "a line"),
            (LINES, json.dumps(pair), "a line without its end"),
            (PLAIN, "red thing\ta, blue one\n", "plain"),
            (CSV, 'red thing,"a, blue one"\n', "csv"),
            (CSV, 'text,text_pair\nred thing,"a, blue one"\n', "csv with the usual names"),
            (CSV + ";header=present", 'b,n,a\n"a, blue one",7,red thing\n', "csv with those of the training rows"),
            (CSV + "; header=present", 'x,y\nred thing,"a, blue one"\n', "csv with two columns")]:
        status, _, answer = server.ask(kind, body, accept=JSON)
        checks.that((status, answer) == (200, one), f"{name}: {status}, {answer}")
    status, _, answer = server.ask(JSON, json.dumps({"inputs": [pair, {**pair, "text": "x"}, pair]}))
    checks.that(status == 200 and len(json.loads(answer)["predictions"]) == 3, f"three: {answer}")
    for kind, body, name in [
            (JSON, '{"inputs": "red thing"}', "a string"), (JSON, '{"text": "red thing"}', "text alone"),
            (JSON, json.dumps({"inputs": [pair, "red"]}), "a string behind a pair"),
            (JSON, '{"inputs": {"text_pair": "a"}}', "no text"), (JSON, '{"inputs": {}}', "nothing"),
            (JSON, '{"inputs": {"text": "a", "text_pair": 1}}', "a number"),
            (JSON, '{"inputs": [["a", "b"]]}', "a list in a list"), (JSON, '{"text_pair": "a"}', "only its second"),
            (LINES, json.dumps({"inputs": [pair, pair]}), "two in a line"), (PLAIN, "red thing\n", "plain"),
            (PLAIN, "a\tb\tc\n", "three"), (CSV, "red thing\n", "csv"), (CSV, "a,b,c\n", "csv of three"),
            (CSV, "inputs\nred thing\n", "the header inputs"),
            (CSV + ";header=present", "a,c,d\n1,2,3\n", "a header without the second text")]:
        status, _, answer = server.ask(kind, body)
        checks.that(status == 400 and json.loads(answer)["id"] == "serve.body", f"{name}: {status}, {answer}")


def check_answers(server, checks):
    """Accept by its weights; without a wish the type of the body."""
    for accept, kind, wanted in [
            (None, LINES, LINES), ("*/*", CSV, CSV), (JSON, CSV, JSON), (LINES, JSON, LINES),
            ("text/*", JSON, PLAIN), ("text/html, application/json;q=0.5", PLAIN, JSON),
            ("text/csv;q=0.2, text/plain; q=0.9", JSON, PLAIN), ("*/*, text/plain;q=0", PLAIN, JSON),
            ("application/jsonlines, */*;q=0.1", JSON, LINES), ("APPLICATION/JSON", CSV, JSON)]:
        body = {JSON: '{"inputs": ["a", "b"]}', LINES: '{"text": "a"}\n{"text": "b"}\n'}
        status, found, answer = server.ask(kind, body.get(kind, "a\nb\n"), accept)
        checks.that((status, found) == (200, wanted), f"{accept} of {kind}: {status}, {found}")
        count = len(json.loads(answer)["predictions"]) if wanted == JSON else answer.count("\n")
        checks.that(count == 2, f"{accept} of {kind}: {answer}")
        if wanted == LINES:
            checks.that(all("probabilities" in json.loads(line) for line in answer.splitlines()),
                        f"lines of JSON: {answer}")
    status, kind, answer = server.ask(PLAIN, "a", "application/x-npy, image/*")
    checks.that((status, kind, json.loads(answer)["id"]) == (406, JSON, "serve.accept"),
                f"an answer of no type: {status}, {kind}, {answer}")


def main():
    program, work = os.path.abspath(sys.argv[1]), Path(sys.argv[2]).absolute()
    checks = tool.Checks()
    folder = tool.fresh_folder(work)
    tool.must_run(program, [*tool.THIRTY_STEPS, f"--output={folder}/model"])
    server = Server(program, folder / "model")
    try:
        check_bodies(server, checks)
        check_tables(server, checks)
        check_encodings(server, checks)
        check_hosts(server, checks)
        check_answers(server, checks)
        status, _, answer = server.ask(JSON, '{"inputs": {"text": "fine", "text_pair": "dull"}}')
        checks.that(status == 400, f"a pair for single texts: {status}, {answer}")
        status, _, answer = server.ask(JSON, '{"text": "fine", "text_pair": "dull"}')
        checks.that(status == 400 and "one text" in answer, f"a pair for single texts: {status}, {answer}")
    finally:
        server.end()
    lines = "".join(f"red thing {i}\tthe {'red' if i % 2 else 'blue'} one\t{i % 2}\n" for i in range(60))
    (folder / "pairs.tsv").write_text("a\tb\tlabel\n" + lines)
    tool.must_run(program, ["train", "--quiet", "--vocab-size=200", "--max-length=16", "--epochs=1", "--threads=1",
                            f"--data={folder}/pairs.tsv", "--text-column=a", "--pair-column=b",
                            "--label-column=label", f"--output={folder}/pairs"])
    server = Server(program, folder / "pairs")
    try:
        check_pairs(server, checks)
    finally:
        server.end()
    return checks.finish("serve types")


if __name__ == "__main__":
    sys.exit(main())
