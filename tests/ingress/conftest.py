"""What the tests of the ingress share: real processes, real sockets, real files."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import socket
import struct
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import wallaroo
from wallaroo.ingress.client import IngressClient
from wallaroo.ingress.config import IngressConfig, endpoint_of
from wallaroo.ingress.lanes import Lane
from wallaroo.ingress.limits import Limits
from wallaroo.ingress.log import SEGMENT_BYTES, LogReader
from wallaroo.ingress.process import IngressProcess

from ..programs import instructions_for  # noqa: TID252 - tests are not installed

TOKEN = "a secret"


def make_decoder():
    # A nested function is sent by value: the child need not be able to import this file.
    @wallaroo.decoder(header_length=4, length_fmt=">I")
    def decode(bs):
        return bs

    return decode


def frame(payload):
    return struct.pack(">I", len(payload)) + payload


def is_closed(connection):
    """Wait until the other side closes a connection, cleanly or not."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def listening(directory, name="numbers", **options):
    """Return an endpoint on any port, for a server in this process; its log is in the folder `log`."""
    source = wallaroo.TCPSourceConfig("127.0.0.1", 0, make_decoder())
    return endpoint_of(name, source, str(directory / "log"), **options)


async def until(condition):
    """Wait until `condition()` is true, which what else runs in the event loop makes it."""
    while not condition():  # noqa: ASYNC110 - nobody tells.
        await asyncio.sleep(0.001)


def wait_for_end(client, name, end):
    """Wait until the log of a source reaches as far as `end`; return how far it reaches."""
    while (reached := client.status()[name]["end"]) < end:
        time.sleep(0.005)
    return reached


def stays_at(client, name, end, seconds):
    """Return whether the log of a source reaches no further than `end` for some time."""
    deadline = time.monotonic() + seconds
    while (is_there := client.status()[name]["end"] == end) and time.monotonic() < deadline:
        time.sleep(0.005)
    return is_there


class Ingress:
    """An ingress process with a source called "numbers" (and more if asked for), and a client for it."""

    def __init__(
        self,
        directory,
        *,
        names=("numbers",),
        port=0,
        decoder=None,
        source=None,
        segment_bytes=SEGMENT_BYTES,
        on_cluster=False,
        **limits,
    ):
        self.directory = Path(directory)
        source = source or wallaroo.TCPSourceConfig("127.0.0.1", port, decoder or make_decoder())
        self.config = IngressConfig(
            sources=[endpoint_of(name, source, str(self.log(name))) for name in names],
            program=instructions_for(dict.fromkeys(names, source), directory),
            control_path=str(self.directory / "control"),
            token=TOKEN,
            segment_bytes=segment_bytes,
            limits=Limits(**limits),
            sequence=str(self.directory / "sequence"),
            workers_host="127.0.0.1" if on_cluster else "",
        )
        self.notices = queue.Queue()
        self.process = IngressProcess(self.config, self.notices.put)
        self.client = IngressClient(self.config.control_path, TOKEN)
        self.addresses = {}

    def log(self, name="numbers"):
        return self.directory / name

    def start(self):
        self.addresses = self.process.start()
        return self

    def stop(self):
        self.client.close()
        self.process.stop()

    def connect(self, name="numbers"):
        return socket.create_connection(self.addresses[name])

    def send(self, payloads, name="numbers"):
        with self.connect(name) as connection:
            connection.sendall(b"".join(map(frame, payloads)))

    def wait_for_end(self, end, name="numbers"):
        return wait_for_end(self.client, name, end)

    def commit(self, end, name="numbers"):
        self.client.committed(0, {Lane(name): end})

    def log_bytes(self, name="numbers"):
        """Return what the files of a log take on the disk; some may go while they are looked at."""
        total = 0
        for path in self.log(name).iterdir():
            with contextlib.suppress(FileNotFoundError):
                total += path.stat().st_size * (path.suffix in {".data", ".ends", ".blocks"})
        return total

    def messages(self, name="numbers", start=0, end=None):
        reader = LogReader(self.log(name))
        return [payload for _, payloads in reader.read(start, end or reader.end()) for payload in payloads]

    def notice(self, words):
        """Return the next notice that holds `words`; earlier ones are skipped."""
        while True:
            text = self.notices.get(timeout=60)
            if words in text:
                return text


@pytest.fixture
def make_ingress():
    """Return a function that starts an ingress process; it is stopped when the test is over."""
    started = []
    # The path of a Unix socket must be short, shorter than pytest's own directories may be.
    with TemporaryDirectory(prefix="wal") as directory:

        def make(**options):
            ingress = Ingress(directory, **options)
            started.append(ingress)
            return ingress.start()

        yield make
        for ingress in started:
            ingress.stop()
