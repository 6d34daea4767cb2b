"""Connections that stop inside a message: reported once, with what is missing, and left open."""

import asyncio
import struct
from contextlib import asynccontextmanager

import pytest

import wallaroo
from wallaroo.connectors.tcp import source
from wallaroo.ingress.config import IngressConfig, endpoint_of
from wallaroo.ingress.limits import Limits
from wallaroo.ingress.server import IngressServer

HEADER = wallaroo.decoder(lambda bs: bs)
LINES = wallaroo.decoder(framing="lines")(lambda bs: bs)


class Classic:
    def header_length(self):
        return 2

    def payload_length(self, bs):
        return int(bs)

    def decode(self, bs):
        return bs


class Server:
    """A server in this process, with one source called "numbers"."""

    def __init__(self, folder, decoder):
        config = wallaroo.TCPSourceConfig("127.0.0.1", 0, decoder)
        endpoint = endpoint_of("numbers", config, str(folder / "log"))
        self.told = []
        self._opened = []
        self._server = IngressServer(
            IngressConfig([endpoint], str(folder / "control"), "token", str(folder / "sequence"), Limits()),
            self.told.append,
        )

    @asynccontextmanager
    async def running(self):
        self.address = (await self._server.start())["numbers"]
        try:
            yield self
        finally:
            for writer in self._opened:
                writer.close()
            await self._server.drain()
            self._server.close()

    async def connect(self, data):
        """Send something; return how to send more, and what the notices call the connection."""
        _, writer = await asyncio.open_connection(*self.address)
        self._opened.append(writer)
        writer.write(data)
        await writer.drain()
        host, port = writer.get_extra_info("sockname")
        return (
            writer,
            f"The connection from {host}:{port} to 'numbers' is inside a message, and nothing has been received for ",
        )

    async def until(self, condition):
        while not condition():  # noqa: ASYNC110 - nobody tells.
            await asyncio.sleep(0.001)

    @property
    def end(self):
        return self._server.ends()["numbers"]

    def stuck(self):
        return [text for text in self.told if "inside a message" in text]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return a function that runs something with a server that reports stuck connections almost at once."""
    monkeypatch.setattr(source, "STUCK_SECONDS", 0.02)

    def run_with(decoder, script):
        async def whole():
            async with Server(tmp_path, decoder).running() as server:
                await script(server)

        asyncio.run(asyncio.wait_for(whole(), 60))

    return run_with


@pytest.mark.parametrize(
    ("decoder", "first", "rest", "lacking"),
    [
        (
            HEADER,
            struct.pack(">I", 1000) + b"abc",
            bytes(997),
            "its header announces 1,000 bytes, and 3 of them have been received: is length_fmt the sender's?",
        ),
        (HEADER, b"\0\0", b"\0\0", "2 of the 4 bytes of a header have been received."),
        (
            Classic(),
            b"09a",
            b"bcdefghi",
            "its header announces 9 bytes, and 1 of them have been received: does the sender use this framing?",
        ),
        (
            LINES,
            b"no end",
            b"\n",
            "6 bytes of a line have been received, and no newline after them: does the sender send one?",
        ),
    ],
)
def test_it_is_reported_once_and_the_connection_stays_open(run, decoder, first, rest, lacking):
    async def script(server):
        writer, beginning = await server.connect(first)
        await server.until(server.stuck)
        assert server.told == [f"{beginning}0 s: {lacking}"]
        writer.write(rest)
        await server.until(lambda: server.end == 1)
        # Another one that gets stuck later shows that the first, which is stuck again, is not reported again.
        writer.write(first)
        await server.connect(first)
        await server.until(lambda: len(server.stuck()) == 2)
        await server.connect(first)
        await server.until(lambda: len(server.stuck()) == 3)
        assert len([text for text in server.told if text.startswith(beginning)]) == 1

    run(decoder, script)


def test_no_connection_is_stuck_between_messages(run):
    async def script(server):
        await server.connect(struct.pack(">I", 1) + b"x")
        _, beginning = await server.connect(b"\0")
        await server.until(lambda: server.end == 1 and server.stuck())
        assert all(text.startswith(beginning) for text in server.told)

    run(HEADER, script)


def test_many_at_once_are_reported_in_few_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "STUCK_SECONDS", 1e9)

    async def script():
        async with Server(tmp_path, HEADER).running() as server:
            for _ in range(10):
                await server.connect(b"\0")
            intake = server._server.sources["numbers"].intake
            await server.until(lambda: intake.connections == 10 and all(each.pending for each in intake._open))
            monkeypatch.setattr(source, "STUCK_SECONDS", 0.0)
            intake._report_stuck()
            assert len(server.stuck()) == 4
            assert server.told[3] == "And 7 more connections are also stuck inside a message to 'numbers'."

    asyncio.run(asyncio.wait_for(script(), 60))
