"""The driver of bench/serve.sh: asks servers for the same sentences in turn, and reads the CPU time that each has used."""

import argparse
import http.client
import json
import os
import statistics
import subprocess
import threading
import time
from pathlib import Path

SENTENCES = [
    "not a bad film at all", "the plot is thin but the actors carry it from the first scene to the last",
    "dull", "a story that begins well, loses its way in the middle and never finds it again",
    "one of the best films of the year, with music that stays", "I would not watch this a second time",
    "the ending is worth the two hours before it", "it has charm and little else",
]


def cpu_seconds(process):
    """What a process and its threads have used, in the ticks of the kernel's clock."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def started(command):
    """The process of a server and the port that its first line with a number names."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in process.stdout:
        port = line.rstrip().rpartition(":")[2].split("/")[0].split(" ")[0]
        if port.isdigit():
            threading.Thread(target=process.stdout.read, daemon=True).start()
            return process, int(port)
    raise SystemExit(f"{command[0]} named no port")


def wait_until_loaded(port, seconds=60):
    """The port is open before the model is read."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/ping")
        if connection.getresponse().status == 200:
            return
        connection.close()
        time.sleep(0.05)
    raise SystemExit(f"the server at port {port} is not ready after {seconds} s")


def ask(port, sentences, failures):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    for sentence in sentences:
        connection.request("POST", "/invocations", json.dumps({"inputs": sentence}), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            failures.append(f"{answer.status} {body[:200]}")
            return
    connection.close()


def milliseconds(process, port, connections, requests):
    """CPU milliseconds of a request, while so many connections ask one after the other."""
    each = max(1, requests // connections)
    failures, before = [], cpu_seconds(process)
    threads = [threading.Thread(target=ask, args=(port, (SENTENCES * (each // 8 + 1))[i % 8:][:each], failures))
               for i in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise SystemExit(f"a request failed: {failures[0]}")
    return (cpu_seconds(process) - before) / (each * connections) * 1e3


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--program", action="append", default=[])
    parser.add_argument("--connections", default="1,8,32")
    parser.add_argument("--requests", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    programs = options.program or ["build/release/bin/bert_classifier"]
    commands = [[program, "serve", f"--model={options.model}", "--port=0", "--threads=1"] for program in programs]
    servers = []
    try:
        for command in commands:
            servers.append(started(command))
        for process, port in servers:
            wait_until_loaded(port)
            milliseconds(process, port, 1, 16)
        print(f"CPU milliseconds a request, {options.requests} requests, medians of {options.rounds} rounds")
        for connections in map(int, options.connections.split(",")):
            times = [[] for _ in servers]
            for _ in range(options.rounds):
                for i, (process, port) in enumerate(servers):
                    times[i].append(milliseconds(process, port, connections, options.requests))
            for name, own in zip(programs, times):
                ratio = statistics.median(a / b for a, b in zip(own, times[0]))
                print(f"  {connections:2} connections  {statistics.median(own):7.2f}  {ratio:5.2f}  {name}", flush=True)
    finally:
        for process, _ in servers:
            process.terminate()
        for process, _ in servers:
            process.wait()


if __name__ == "__main__":
    main()
