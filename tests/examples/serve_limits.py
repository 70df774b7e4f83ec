"""serve stands up to clients and machines that go to the limit: each case fails for its own reason only.

    python3 serve_limits.py PROGRAM WORK_FOLDER
"""

import contextlib
import http.client
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import program as tool

HEAD = b"POST /invocations HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\n"


class Server:
    def __init__(self, model, *options, memory=None, files=None, **environment):
        def limit():
            for kind, number in [(resource.RLIMIT_AS, memory), (resource.RLIMIT_NOFILE, files)]:
                if number is not None:
                    resource.setrlimit(kind, (number, resource.getrlimit(kind)[1]))
        self.process = tool.Process([PROGRAM, "serve", "--model", model, "--port=0", "--threads=1", *options],
                                    stdout=subprocess.PIPE, text=True, preexec_fn=limit,
                                    env=tool.environment(environment))
        self.port = int(self.process.stdout.readline().rsplit(":", 1)[1])
        while b"ready" not in self.exchange(b"GET /ping HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"):
            time.sleep(0.02)

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def exchange(self, request, then=lambda client: None):
        """All that comes back until the server closes the connection."""
        with self.connect() as client:
            client.sendall(request)
            then(client)
            return b"".join(iter(lambda: client.recv(65536), b""))

    def post(self, body, *headers):
        return self.exchange(HEAD + b"Connection: close\r\n" + b"".join(header + b"\r\n" for header in headers) +
                             b"Content-Length: %d\r\n\r\n" % len(body) + body)


@contextlib.contextmanager
def serving(*arguments, **settings):
    server = Server(*arguments, **settings)
    try:
        yield server
        server.process.send_signal(signal.SIGTERM)
        server.process.communicate(timeout=60)
        assert server.process.returncode == 0, server.process.returncode
    finally:
        server.process.kill()
        server.process.wait()


def expect(answer, status, error=None):
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.split()[1] == str(status).encode(), answer[:300]
    assert error is None or json.loads(body)["id"] == error, answer[:300]
    return body


def check_ranges(server):
    whole = expect(server.post(b"good\nbad\n" * 500), 200)
    for ranges in [b"0-3", b"0-1,3-5", b",".join([b"0-"] * 2650)]:
        assert expect(server.post(b"good\nbad\n" * 500, b"Range: bytes=" + ranges), 200) == whole, ranges[:20]


def check_broken_bodies(server):
    def chunked(chunks, name=b"chunked", then=lambda client: None):
        return server.exchange(HEAD + b"Transfer-Encoding: " + name + b"\r\n\r\n" + chunks, then)
    assert expect(chunked(b"1\r\na\r\n" * 20000 + b"0\r\n\r\n"), 200) == expect(server.post(b"a" * 20000), 200)
    expect(chunked(b"4\r\ngood\r\n0\r\n\r\n", name=b"Chunked"), 200)
    expect(chunked(b"4\r\ngood\r\n0\r\n\r\n", name=b"gzip"), 400)
    expect(chunked(b"x\r\ngood\r\n0\r\n\r\n"), 400, "serve.body")
    trailed = chunked(b"4\r\ngood\r\n0\r\nName: value\r\n\r\n")
    if not trailed.startswith(b"HTTP/1.1 200"):  # newer versions of the library know trailers
        expect(trailed, 400, "serve.body")
    expect(chunked(b"1;" + b"x" * 5000 + b"\r\na\r\n" + (b"1;" + b"x" * 5000 + b"\r\na\r\n") * 50), 413,
           "serve.body_size")
    expect(chunked(b"9\r\ngood"), 408, "serve.timeout")
    end = lambda client: client.shutdown(socket.SHUT_WR)
    expect(chunked(b"9\r\ngood", then=end), 400, "serve.body")
    expect(server.exchange(HEAD + b"Content-Length: 9\r\n\r\ngood", end), 400, "serve.body")
    expect(server.exchange(HEAD + b"Content-Length: 9\r\n\r\ngood"), 408, "serve.timeout")
    expect(server.exchange(HEAD + b"Content-Le"), 408, "serve.timeout")
    expect(server.exchange(HEAD + b"Name: value\r\n" * 10000), 400, "serve.request")


def check_amounts(server):
    expect(server.post(b"\n" * 1250), 200)
    expect(server.post(b"\n" * 1251), 413, "serve.body_size")
    for kind, body in [(b"application/json", lambda count: b'{"inputs":["' + b'","' * (count - 1) + b'"]}'),
                       (b"text/csv", lambda count: b"a\n" * count)]:
        for count, status, error in [(1250, 200, None), (1251, 413, "serve.body_size")]:
            expect(server.exchange(b"POST /invocations HTTP/1.1\r\nHost: a\r\nContent-Type: " + kind +
                                   b"\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body(count)) +
                                   body(count)), status, error)
    # 64 of the largest bodies are held at once, and no more.
    held = [server.connect() for _ in range(65)]
    for client in held:
        client.sendall(HEAD + b"Content-Length: 20000\r\n\r\n" + b"a" * 19999)
    time.sleep(0.3)
    refused = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    refused.request("POST", "/invocations", b"a" * 20000, {"Content-Type": "text/plain"})
    answer = refused.getresponse()
    assert answer.status == 503 and json.loads(answer.read())["id"] == "serve.busy", answer.status
    for client in held:
        client.close()
    time.sleep(0.3)
    # By the same connection, unless the library has closed it: the body was read to its end.
    refused.request("POST", "/invocations", "good", {"Content-Type": "text/plain"})
    assert refused.getresponse().status == 200


def check_idle_connections(server):
    """One that waits is not given up while there are threads, however many come and go."""
    idle = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    for _ in range(3):
        idle.request("GET", "/ping")
        answer = idle.getresponse()
        assert answer.getheader("Keep-Alive").startswith("timeout=15,") and answer.read() == b"ready\n"
        for _ in range(300):
            server.exchange(b"GET /ping HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert idle.sock is not None


def check_slow_reader(server):
    """An answer beyond what the system keeps for a client, which takes four times --read-timeout to read it."""
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        client.settimeout(60)
        client.connect(("127.0.0.1", server.port))
        body = b'{"inputs":[' + b",".join([b'"a"'] * 2000) + b"]}"
        client.sendall(HEAD.replace(b"text/plain", b"application/json") +
                       b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        answer, begin = client.recv(65536), time.monotonic()
        length = int(answer.split(b"Content-Length: ")[1].split(b"\r\n")[0])
        assert length > 8e6, length
        while piece := client.recv(65536):
            answer += piece
            time.sleep(max(0, begin + 4 * len(answer) / length - time.monotonic()))
        assert len(json.loads(expect(answer, 200))["predictions"]) == 2000


def check_memory(model):
    """Without memory for all of them, requests fail one by one, and the server goes on."""
    with serving(model, MALLOC_ARENA_MAX="1") as server:
        texts = b'{"inputs":[' + b",".join([b'""'] * 60000) + b"]}"
        head = HEAD.replace(b"text/plain", b"application/json") + b"Content-Length: %d\r\n\r\n" % len(texts)
        clients = [server.connect() for _ in range(16)]
        for client in clients:  # each has its thread from now on
            client.sendall(head + texts[:1])
        time.sleep(0.3)
        process = server.process.pid
        used = int(Path(f"/proc/{process}/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.prlimit(process, resource.RLIMIT_AS, (used + (12 << 20), resource.RLIM_INFINITY))
        answers = []

        def work(client):
            client.sendall(texts[1:])
            answers.append(client.recv(65536))
        threads = [threading.Thread(target=work, args=[client]) for client in clients]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        failed = [answer for answer in answers if not answer.startswith(b"HTTP/1.1 200")]
        assert failed, "memory was enough for all"
        assert server.process.poll() is None
        resource.prlimit(process, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        expect(server.post(b"good"), 200)


def check_few_threads(model):
    """Where the system does not give a thread for each connection, those that it gives serve all."""
    with serving(model, memory=700_000_000) as server:
        idle = [server.connect() for _ in range(300)]
        expect(server.post(b"good"), 200)
        threads = len(os.listdir(f"/proc/{server.process.pid}/task"))
        assert threads < 256, threads
        for client in idle:
            client.close()


def check_few_files(model):
    """Connections that wait make way where the process may have no more of them."""
    with serving(model, files=40) as server:
        idle = [server.connect() for _ in range(60)]
        begin = time.monotonic()
        expect(server.post(b"good"), 200)
        assert time.monotonic() - begin < 10, "they were kept for as long as where there is room"
        for client in idle:
            client.close()


def main(folder):
    tool.fresh_folder(folder)
    labels = [b"a" * 1500, b"b" * 1500]
    rows = b"".join(b"a %s film %d\t%s\n" % ([b"dull", b"good"][i % 2], i, labels[i % 2]) for i in range(60))
    (folder / "rows.tsv").write_bytes(rows)
    for name, data in [("model", ["--reviews=500"]), ("long", [f"--data={folder}/rows.tsv"])]:
        tool.must_run(PROGRAM, ["train", "--quiet", "--epochs=1", "--max-length=16", "--vocab-size=300",
                                f"--output={folder}/{name}", *data])
    model = str(folder / "model")
    with serving(model, "--max-body=20000", "--read-timeout=1") as server:
        for check in [check_ranges, check_broken_bodies, check_amounts, check_idle_connections]:
            check(server)
            print(check.__name__, "passed", flush=True)
    with serving(str(folder / "long"), "--read-timeout=1") as server:
        check_slow_reader(server)
        print("check_slow_reader passed", flush=True)
    check_few_files(model)
    print("check_few_files passed", flush=True)
    program = Path(PROGRAM).read_bytes()
    if b"libasan." in program or b"libtsan." in program:
        return  # they take more address space than any machine has
    for check in [check_memory, check_few_threads]:
        check(model)
        print(check.__name__, "passed", flush=True)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv[1])
    main(Path(sys.argv[2]).resolve())
