#!/usr/bin/env python3
"""serve answers every content type, refuses bad bodies, outlasts slow clients and stops in order."""

import contextlib, http.client, json, os, signal, socket, subprocess, sys, tempfile, threading, time

from program import Process


@contextlib.contextmanager
def starved(pid):
    """Meanwhile the threads of a process hardly get a processor, as on a machine that is overloaded."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setscheduler(int(thread), os.SCHED_IDLE, os.sched_param(0))
    hogs = [Process([sys.executable, "-c", "while True: pass"]) for _ in range(2 * os.cpu_count())]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


def lanes(program, folder):
    """Several batches at once: every request has the answers of predict, long ones in their order."""
    server = Process([program, "serve", "--model", folder + "/m", "--port", "0", "--lanes", "3", "--batch-size", "4"],
                     stdout=subprocess.PIPE, text=True)
    port = int(server.stdout.readline().rsplit(":", 1)[1])
    lists = [[f"request {i} asks for film number {j}" + " again" * (j % 7) for j in range(1 + 5 * (i % 5))]
             for i in range(24)]
    wanted = subprocess.run([program, "predict", "--model", folder + "/m"], capture_output=True, text=True, check=True,
                            input="\n".join(text for texts in lists for text in texts) + "\n").stdout.splitlines()
    found = [None] * len(lists)

    def ask(i):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        status = 503
        while status == 503:
            connection.request("POST", "/invocations", "\n".join(lists[i]), {"Content-Type": "text/plain"})
            answer = connection.getresponse()
            status, found[i] = answer.status, answer.read().decode().splitlines()
        assert status == 200, found[i]

    try:
        askers = [threading.Thread(target=ask, args=(i,)) for i in range(len(lists))]
        for asker in askers:
            asker.start()
        for asker in askers:
            asker.join()
        assert [line for lines in found for line in lines] == wanted, "an answer depends on its lane"
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=60) == 0
        assert f"texts             {len(wanted)}" in server.stdout.read()
    finally:
        server.kill()
        server.wait()


def main(program, folder):
    subprocess.run([program, "train", "--reviews", "500", "--epochs", "1", "--quiet", "--output", folder + "/m"],
                   check=True, stdout=subprocess.DEVNULL)
    server = Process([program, "serve", "--model", folder + "/m", "--port", "0", "--max-body", "20000",
                      "--read-timeout", "1"], stdout=subprocess.PIPE, text=True)
    port = int(server.stdout.readline().rsplit(":", 1)[1])

    def ask(body, kind="text/plain", connection=None, **headers):
        connection = connection or http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request("POST", "/invocations", body, {"Content-Type": kind, **headers})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    def ping():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request("GET", "/ping")
        return connection.getresponse().status

    try:
        while ping() == 503:
            time.sleep(0.05)
        assert ping() == 200
        texts = [f"a film that is number {i}, not bad at all" for i in range(40)]
        wanted = subprocess.run([program, "predict", "--model", folder + "/m"], input="\n".join(texts) + "\n",
                                capture_output=True, text=True, check=True).stdout
        assert ask("\n".join(texts)) == (200, wanted)
        status, body = ask(json.dumps({"inputs": texts}), "application/json; charset=utf-8")
        together = json.loads(body)["predictions"]
        assert status == 200 and len(together) == 40, body
        alone = [json.loads(ask(json.dumps({"text": text}), "application/json")[1])["predictions"][0]
                 for text in texts]
        assert alone == together, "a prediction depends on its batch"
        assert ask('"a ""b"",\nc"\r\nd\r\n', "text/csv")[1].count("\r\n") == 2
        assert ask('a\r\n""\r\n\r\nb\r\n', "text/csv")[1].count("\r\n") == 3, "an empty text is a row"
        for body, kind in [("", "text/plain"), ("{", "application/json"), ("[]", "application/json"),
                           ('{"text": 1}', "application/json"), ('{"inputs": []}', "application/json"),
                           ('{"inputs": [1]}', "application/json"), (b"\xff", "text/plain"),
                           ('"a', "text/csv"), ("a", "image/png"), ("a", "multipart/form-data; boundary=x")]:
            status, answer = ask(body, kind)
            assert status == 400 and json.loads(answer)["id"] == "serve.body", (body, kind, status, answer)
        assert ask("a" * 20001)[0] == 413
        assert ask(iter([b"a" * 9000] * 4))[0] == 413

        slow = socket.create_connection(("127.0.0.1", port))
        slow.sendall(b"POST /invocations HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n\r\nhalf")
        lines, results = wanted.splitlines(keepends=True), []

        def work(first):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            for i in range(20):
                j = (first + i) % 40
                results.append(ask(texts[j], connection=connection) == (200, lines[j]))
        threads = [threading.Thread(target=work, args=[i]) for i in range(16)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert results == [True] * 320, results.count(True)
        slow.settimeout(5)
        assert b" 408 " in slow.recv(1000).split(b"\r\n")[0]

        text = b"\n".join(b"x" for _ in range(30))
        with starved(server.pid):
            held = [socket.create_connection(("127.0.0.1", port)) for _ in range(200)]
            for client in held:
                client.sendall(b"POST /invocations HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n"
                               % len(text) + text)
            server.send_signal(signal.SIGTERM)
            time.sleep(2)
        for client in held:
            client.settimeout(60)
            assert client.recv(100).startswith(b"HTTP/1.1 200"), "lost in the stop"
        report = server.communicate(timeout=60)[0]
        assert server.returncode == 0, server.returncode
        print(report)
    finally:
        server.kill()
        server.wait()
    lanes(program, folder)
    bad = subprocess.run([program, "serve", "--model", folder + "/none", "--port", "0"], capture_output=True, text=True)
    assert bad.returncode == 1 and bad.stderr.count("\n") == 1, bad
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        bad = subprocess.run([program, "serve", "--model", folder + "/m", "--port", str(taken.getsockname()[1])],
                             capture_output=True, text=True)
        assert bad.returncode == 1 and "[serve.port]" in bad.stderr and bad.stderr.count("\n") == 1, bad


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1], folder)
