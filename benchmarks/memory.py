"""Shows memory and disk over time while a receiver takes nothing and a sender sends as fast as it can.

    python benchmarks/memory.py --seconds 90 --max-log 64MiB

Afterwards the receiver reads, and every message that was sent has to come out.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import threading
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

import click
import psutil

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from bench.machida import Machida  # noqa: E402
from bench.places import RESULTS, scratch  # noqa: E402

MESSAGE = b"%s 0" % (b"key" * 60)
FRAME = struct.pack(">I", len(MESSAGE)) + MESSAGE
AT_ONCE = 500
PATIENCE = 60
MIB = 1 << 20
BARS = " ▁▂▃▄▅▆▇█"


class Receiver:
    """Accepts a connection and takes nothing from it until it is asked to."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        self.address = "{}:{}".format(*self._server.getsockname())
        self.lines = 0

    def read_all(self, sender: Sender) -> None:
        """Read until there is an answer to everything that was sent."""
        connection, _ = self._server.accept()
        with connection:
            connection.settimeout(1)
            quiet = 0
            while quiet < PATIENCE and (sender.is_alive() or self.lines < sender.sent):
                try:
                    data = connection.recv(MIB)
                except TimeoutError:
                    quiet += 1
                    continue
                quiet = 0 if data else PATIENCE
                self.lines += data.count(b"\n")


class Sender(threading.Thread):
    """Sends as fast as the source takes it."""

    def __init__(self, address: tuple[str, int]) -> None:
        super().__init__(daemon=True)
        self._connection = socket.create_connection(address)
        self.enough = threading.Event()
        self.sent = 0

    def run(self) -> None:
        some = FRAME * AT_ONCE
        with self._connection:
            while not self.enough.is_set():
                self._connection.sendall(some)
                self.sent += AT_ONCE
            self._connection.shutdown(socket.SHUT_WR)
            self._connection.recv(1)


def kind_of(process: psutil.Process) -> str:
    command = " ".join(process.cmdline())
    if "wallaroo.ingress" in command:
        return "ingress"
    if "pyspark" in command and "daemon" in command:
        return "workers"
    return "JVM" if process.name() == "java" else "driver"


def memory_by_kind(application: Machida) -> dict[str, float]:
    """Return the resident memory of the application's processes, in MiB."""
    found: defaultdict[str, float] = defaultdict(float)
    for process in application.processes():
        with suppress(psutil.Error):
            found[kind_of(process)] += process.memory_info().rss / MIB
    return dict(found)


def disk(folder: Path) -> float:
    total = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            total += path.stat().st_size if path.is_file() else 0
    return total / MIB


def show(samples: list[dict[str, float]]) -> None:
    """Print the series: a table of some points, and a line of bars for each column."""
    columns = [name for name in samples[0] if name != "second"]
    click.echo(f"{'second':>8}" + "".join(f"{name:>12}" for name in columns))
    every = max(len(samples) // 15, 1)
    for sample in samples[::every]:
        click.echo(f"{sample['second']:8.0f}" + "".join(f"{sample.get(name, 0.0):12.1f}" for name in columns))
    click.echo("\nMiB over time, each line from 0 to its highest point:")
    for name in columns:
        values = [sample.get(name, 0.0) for sample in samples]
        highest = max(values) or 1.0
        bars = "".join(BARS[round(value / highest * (len(BARS) - 1))] for value in values)
        click.echo(f"{name:>12} {bars} {highest:.0f}")


@click.command()
@click.option("--seconds", default=90, show_default=True, help="How long the receiver takes nothing.")
@click.option("--max-log", default="64MiB", show_default=True, help="As for machida.")
@click.option("--idle", default=0, show_default=True, help="Seconds of silence before the first message.")
def main(seconds: int, max_log: str, idle: int) -> None:
    """Show memory and disk while a receiver takes nothing."""
    receiver = Receiver()
    with (
        scratch() as folder,
        Machida("latency", folder / "state", receiver.address, ("--max-log", max_log)) as application,
    ):
        sender = Sender(application.address("messages"))
        time.sleep(idle)
        sender.start()
        started = time.monotonic()
        samples: list[dict[str, float]] = []
        while time.monotonic() - started < seconds:
            sample = {"second": time.monotonic() - started, **memory_by_kind(application)}
            sample["log on disk"] = disk(folder / "state" / "log")
            sample["sent"] = sender.sent * len(FRAME) / MIB
            samples.append(sample)
            time.sleep(1)
        show(samples)
        sender.enough.set()
        receiver.read_all(sender)
        said = [line for line in application.said.splitlines() if "log of" in line]
    click.echo("\n" + "\n".join(said))
    click.echo(f"Sent {sender.sent:,} messages; {receiver.lines:,} answers came when the receiver read again.")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "memory.json").write_text(json.dumps(samples, indent=1) + "\n")
    if receiver.lines != sender.sent:
        raise click.ClickException("Messages were lost or repeated.")


if __name__ == "__main__":
    main()
