"""Compares throughput with a pure Python loop; see README.md beside this file."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from baselines import pure_python  # noqa: E402

console = Console(stderr=True)
WORDS_A_LINE = 8


def make_payloads(lines: int) -> list[bytes]:
    """Return lines of words that are spread over the alphabet like English ones, from a fixed seed."""
    random.seed(20)
    starts = random.choices("tashwiobmfcldpnegryuvjkqzx", weights=range(26, 0, -1), k=1000)
    words = [start + "".join(random.choices("etaoinshrdlu", k=random.randint(1, 8))) for start in starts]
    weights = [1 / (rank + 10) for rank in range(len(words))]
    chosen = iter(random.choices(words, weights, k=lines * WORDS_A_LINE))
    return [" ".join(next(chosen) for _ in range(WORDS_A_LINE)).encode() for _ in range(lines)]


def measure_pure(payloads: list[bytes]) -> tuple[float, list[bytes]]:
    """Return the seconds the loop took, and its outputs."""
    started = time.perf_counter()
    outputs = pure_python.run(payloads)
    return time.perf_counter() - started, outputs


def measure_wallaroo(payloads: list[bytes], expected_bytes: int) -> tuple[float, bytes]:
    """Return the seconds from the first byte that is sent to the last one received, and what was received."""
    frames = b"".join(struct.pack(">I", len(payload)) + payload for payload in payloads)
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as receiver:
        machida = start_machida(receiver.getsockname()[1], Path(folder, "state"))
        try:
            source = wait_until_ready(machida)
            connection, _ = receiver.accept()
            with connection, socket.create_connection(source) as sender:
                started = time.perf_counter()
                threading.Thread(target=sender.sendall, args=(frames,), daemon=True).start()
                received = receive(connection, expected_bytes)
                return time.perf_counter() - started, received
        finally:
            machida.send_signal(signal.SIGTERM)
            machida.communicate(timeout=60)


def start_machida(out_port: int, home: Path) -> subprocess.Popen[str]:
    command = [Path(sys.executable).with_name("machida"), "--application-module", "apps.word_count"]
    command += ["--in", "127.0.0.1:0", "--out", f"127.0.0.1:{out_port}", "--resilience-dir", home]
    environment = os.environ | {"PYTHONPATH": str(HERE)}
    return subprocess.Popen(command, cwd=HERE, env=environment, stdout=subprocess.PIPE, text=True)


def wait_until_ready(machida: subprocess.Popen[str]) -> tuple[str, int]:
    """Return the address that the application listens on, once it says that it is ready."""
    address = None
    for line in machida.stdout:
        if found := re.search(r"listening +(\S+):(\d+)", line):
            address = found[1], int(found[2])
        if "successfully initialized" in line and address:
            return address
    raise click.ClickException("The application did not start.")


def receive(connection: socket.socket, expected_bytes: int) -> bytes:
    connection.settimeout(120)
    parts: list[bytes] = []
    received = 0
    while received < expected_bytes:
        part = connection.recv(1 << 20)
        if not part:
            raise click.ClickException("The application ended before all of its output had come.")
        parts.append(part)
        received += len(part)
    return b"".join(parts)


def check_equal(theirs: list[bytes], ours: bytes) -> None:
    """Compare complete outputs; the order between keys is nobody's promise."""
    if Counter(ours.splitlines(keepends=True)) != Counter(theirs):
        raise click.ClickException("The outputs differ: no time counts.")


@click.command()
@click.option("--lines", default=1_250_000, show_default=True, help="Lines of eight words.")
@click.option("--rounds", default=3, show_default=True)
@click.option("--quick", is_flag=True, help="A smaller input, one round.")
def main(lines: int, rounds: int, *, quick: bool) -> None:
    """Measure word count throughput against a pure Python loop."""
    if quick or os.environ.get("QUICK"):
        lines, rounds = 400_000, 1
    with console.status("Making the input ..."):
        payloads = make_payloads(lines)
    words = lines * WORDS_A_LINE
    pure_rates, our_rates = [], []
    for number in range(1, rounds + 1):
        with console.status(f"Round {number} of {rounds}: the pure loop ..."):
            seconds, outputs = measure_pure(payloads)
            pure_rates.append(words / seconds)
        with console.status(f"Round {number} of {rounds}: Wallaroo ..."):
            seconds, received = measure_wallaroo(payloads, sum(map(len, outputs)))
            our_rates.append(words / seconds)
            check_equal(outputs, received)
    report(words, pure_rates, our_rates)


def report(words: int, pure_rates: list[float], our_rates: list[float]) -> None:
    ratios = [ours / pure for ours, pure in zip(our_rates, pure_rates, strict=True)]
    table = Table(title=f"Word count, 27 keys, {words:,} words, socket to socket")
    for column in ("", "words/s (median)", "lowest", "highest"):
        table.add_column(column, justify="left" if not column else "right")
    for name, rates in (("pure Python loop, one core", pure_rates), ("Wallaroo", our_rates)):
        table.add_row(name, f"{statistics.median(rates):,.0f}", f"{min(rates):,.0f}", f"{max(rates):,.0f}")
    table.add_row("ratio", f"{statistics.median(ratios):.2f}", f"{min(ratios):.2f}", f"{max(ratios):.2f}")
    Console().print(table)
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    figures = {
        "words": words,
        "cores": os.cpu_count(),
        "pure_python": pure_rates,
        "wallaroo": our_rates,
        "ratios": ratios,
    }
    (results / "word_count.json").write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
