"""What clients of hosting services send to serve, and what they get.

    python3 serve_types.py PROGRAM WORK_FOLDER
"""

import http.client
import json
import os
import subprocess
import sys
import time
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
        check_answers(server, checks)
    finally:
        server.end()
    return checks.finish("serve types")


if __name__ == "__main__":
    sys.exit(main())
