"""The workloads as Bytewax dataflows; for the contract of a baseline see README.md one folder up.

Written for speed, as far as Bytewax's documentation goes: steps that work on batches (`flat_map_batch`,
`stateful_batch`), files as the unit of parallelism (`DirSource`), large batches from the source, a sink that writes a
batch at once, and no recovery directory, so nothing is made durable. The steps are those of the applications.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import bytewax.operators as op
from bytewax.connectors.files import DirSource
from bytewax.dataflow import Dataflow
from bytewax.operators import StatefulBatchLogic
from bytewax.outputs import DynamicSink, StatelessSinkPartition

_LINES_AT_ONCE = 1_000
_FARTHEST_PRICE = 0.5


class Letter(StatefulBatchLogic):
    """The counts of all words with one first letter."""

    def __init__(self, totals):
        self._totals = totals or {}

    def on_batch(self, values):
        totals = self._totals
        outputs = []
        for word in values:
            total = totals[word] = totals.get(word, 0) + 1
            outputs.append((word, total))
        return outputs, False

    def snapshot(self):
        return self._totals.copy()


class Word(StatefulBatchLogic):
    """The count of one word."""

    def __init__(self, total):
        self._total = total or 0

    def on_batch(self, values):
        before = self._total
        self._total += len(values)
        return [(word, total) for total, word in enumerate(values, before + 1)], False

    def snapshot(self):
        return self._total


class Symbol(StatefulBatchLogic):
    """The latest prices of one symbol."""

    def __init__(self, prices):
        self._bid, self._ask = prices or (99.0, 101.0)

    def on_batch(self, values):
        rejected = []
        for kind, message in values:
            if kind == "prices":
                self._bid, self._ask = message
            else:
                middle = (self._bid + self._ask) / 2
                if abs(message[1] - middle) > _FARTHEST_PRICE * middle:
                    rejected.append(message)
        return rejected, False

    def snapshot(self):
        return self._bid, self._ask


def count_words(flow, logic, key):
    lines = _lines(flow, "words")
    words = op.flat_map_batch(
        "split", lines, lambda batch: [(key(word), word) for line in batch for word in line.split(" ")]
    )
    counts = op.stateful_batch("count", words, logic)
    return op.flat_map_batch(
        "encode", counts, lambda batch: [f"{word} => {total}\n".encode() for _, (word, total) in batch]
    )


def convert(flow):
    lines = _lines(flow, "temperatures")
    celsius = op.flat_map_batch("decode", lines, lambda batch: [float(line) for line in batch])
    multiplied = op.flat_map_batch("multiply", celsius, lambda batch: [value * 1.8 for value in batch])
    fahrenheit = op.flat_map_batch("add", multiplied, lambda batch: [value + 32 for value in batch])
    return op.flat_map_batch("encode", fahrenheit, lambda batch: [f"{value:.2f}\n".encode() for value in batch])


def convert_step_by_step(flow):
    """Do the same with a function for each step, called for each message, as most programs are written."""
    celsius = op.map("decode", _lines(flow, "temperatures"), float)
    multiplied = op.map("multiply", celsius, _multiply)
    fahrenheit = op.map("add", multiplied, _add)
    return op.map("encode", fahrenheit, _encode)


def _multiply(value):
    return value * 1.8


def _add(value):
    return value + 32


def _encode(value):
    return f"{value:.2f}\n".encode()


def check_orders(flow):
    prices = op.flat_map_batch("decode prices", _lines(flow, "prices"), _decode_prices)
    orders = op.flat_map_batch("decode orders", _lines(flow, "orders"), _decode_orders)
    rejected = op.stateful_batch("check", op.merge("both", prices, orders), Symbol)
    return op.flat_map_batch(
        "encode",
        rejected,
        lambda batch: [f"{key} {number} rejected at {price:.2f}\n".encode() for key, (number, price) in batch],
    )


def _decode_prices(batch):
    decoded = []
    for line in batch:
        symbol, bid, ask = line.split(" ")
        decoded.append((symbol, ("prices", (float(bid), float(ask)))))
    return decoded


def _decode_orders(batch):
    decoded = []
    for line in batch:
        symbol, number, price = line.split(" ")
        decoded.append((symbol, ("order", (number, float(price)))))
    return decoded


WORKLOADS = {
    "words-27": lambda flow: count_words(flow, Letter, lambda word: word[0] if "a" <= word[0] <= "z" else "!"),
    "words-5k": lambda flow: count_words(flow, Word, lambda word: word),
    "words-200k": lambda flow: count_words(flow, Word, lambda word: word),
    "celsius": convert,
    "market": check_orders,
}


STEP_BY_STEP = {"celsius": convert_step_by_step}


def _lines(flow, stream):
    folder = Path(os.environ["BENCH_INPUT"])
    source = DirSource(folder, glob_pat=f"{stream}*.txt", batch_size=_LINES_AT_ONCE)
    return op.input(stream, flow, source)


class _FileOfWorker(StatelessSinkPartition):
    def __init__(self, path):
        self._file = path.open("wb")
        _note("started")

    def write_batch(self, items):
        self._file.write(b"".join(items))

    def close(self):
        self._file.close()
        _note("ended")


class _Files(DynamicSink):
    """A file for each worker; built when the workers have found each other and are about to begin."""

    def build(self, _step_id, worker_index, _worker_count):
        return _FileOfWorker(Path(os.environ["BENCH_OUTPUT"], f"output-{worker_index}"))


def _note(what):
    # In one call: the lines of several workers must not be mixed up.
    os.write(1, (json.dumps({what: time.monotonic()}) + "\n").encode())


def flow():
    """Build the dataflow that the environment asks for."""
    made = Dataflow("benchmark")
    workloads = STEP_BY_STEP if os.environ["BENCH_STEP_BY_STEP"] else WORKLOADS
    op.output("output", workloads[os.environ["BENCH_WORKLOAD"]](made), _Files())
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("input", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--step-by-step", action="store_true")
    given = parser.parse_args()
    several = given.workers * given.processes > 1
    settings = {
        "BENCH_WORKLOAD": given.workload,
        "BENCH_INPUT": str(given.input / "parts" if several else given.input),
        "BENCH_OUTPUT": str(given.output),
        "BENCH_STEP_BY_STEP": "1" if given.step_by_step else "",
    }
    command = [sys.executable, "-m", "bytewax.run", f"{Path(__file__).stem}:flow"]
    if given.workers > 1:
        command += ["-w", str(given.workers)]
    addresses = ";".join(f"127.0.0.1:{_free_port()}" for _ in range(given.processes))
    processes = [
        subprocess.Popen(
            [*command, *(["-i", str(number), "-a", addresses] if given.processes > 1 else [])],
            cwd=Path(__file__).parent,
            env={**os.environ, **settings},
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(given.processes)
    ]
    lines = [line for process in processes for line in process.communicate()[0].splitlines()]
    # Bytewax itself says something here while its processes look for each other.
    notes = [json.loads(line) for line in lines if line.startswith("{")]
    if any(process.returncode for process in processes):
        sys.exit("A process of Bytewax failed.")
    started = min(note["started"] for note in notes if "started" in note)
    ended = max(note["ended"] for note in notes if "ended" in note)
    print(json.dumps({"seconds": ended - started}))


def _free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


if __name__ == "__main__":
    main()
