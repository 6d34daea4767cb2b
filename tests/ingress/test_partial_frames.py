"""The memory of unfinished messages: a server in this process, so that what it keeps can be watched at every step."""

from __future__ import annotations

import asyncio
import struct

import pytest

from wallaroo.ingress import partial_frames
from wallaroo.ingress.config import IngressConfig
from wallaroo.ingress.limits import Limits
from wallaroo.ingress.log import LogReader
from wallaroo.ingress.server import IngressServer

from .conftest import TOKEN, listening, until

LIMIT = 4 << 20
SIZE = 3 << 20


def frame(payload):
    return struct.pack(">I", len(payload)) + payload


class Watched:
    """A server, the most it ever kept of unfinished messages, and its notices."""

    def __init__(self, directory):
        limits = Limits(max_unfinished=LIMIT)
        config = IngressConfig([listening(directory)], str(directory / "c"), TOKEN, str(directory / "s"), limits)
        self.told = []
        self.server = IngressServer(config, self.told.append)
        self.most = 0
        self._reader = LogReader(directory / "log")
        self._opened = []

    async def __aenter__(self):
        self.address = (await self.server.start())["numbers"]
        self._watching = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *_):
        self._watching.cancel()
        for writer in self._opened:
            writer.close()
        await self.server.drain()
        self.server.close()

    async def _watch(self):
        while True:
            self.most = max(self.most, self.kept)
            await asyncio.sleep(0)

    @property
    def kept(self):
        return self.server._unfinished.total

    async def connect(self):
        reader, writer = await asyncio.open_connection(*self.address)
        self._opened.append(writer)
        return reader, writer

    async def begin(self, sender, size=SIZE):
        """Open a connection and send half of a message, as far as it is taken."""
        reader, writer = await self.connect()
        message = frame(bytes([sender]) * size)
        writer.write(message[: size // 2])
        return reader, writer, message[size // 2 :]

    async def accepted(self, number):
        await until(lambda: self.server.ends()["numbers"] >= number)

    def messages(self):
        return [payload for _, some in self._reader.read(0, self._reader.end()) for payload in some]


def test_large_messages_at_once_are_taken_one_after_the_other_and_none_is_lost(tmp_path):
    """Thirty times three megabytes come at once, where four are the limit."""

    async def run():
        async with Watched(tmp_path) as watched:
            halves = [await watched.begin(sender) for sender in range(30)]
            await until(lambda: watched.kept > LIMIT)
            for _, writer, rest in halves:
                writer.write(rest)
            await watched.accepted(30)
            assert watched.most <= LIMIT + SIZE + 30 * (partial_frames.SMALL_BYTES + partial_frames._MIN_READ_BYTES)
            assert sorted(watched.messages()) == [bytes([sender]) * SIZE for sender in range(30)]
            assert watched.kept == 0
            for sender, (_, writer, _) in enumerate(halves):
                writer.write(frame(b"%d goes on" % sender))
            await watched.accepted(60)
        assert "use more than 4 MiB of memory (--max-unfinished)" in watched.told[0]
        assert not [text for text in watched.told if "was closed" in text]

    asyncio.run(asyncio.wait_for(run(), 120))


def test_one_that_gets_stuck_gives_way_and_small_messages_never_wait(tmp_path, monkeypatch):
    async def run():
        async with Watched(tmp_path) as watched:
            for sender in range(4):
                await watched.begin(sender)
            await until(lambda: watched.kept > LIMIT)
            # The stuck ones have all there is. Messages of an ordinary size pass, however they are cut.
            _, small = await watched.connect()
            for number in range(100):
                message = frame(b"%d" % number * 1000)
                small.write(message[:500])
                await small.drain()
                small.write(message[500:])
            await watched.accepted(100)
            assert not [text for text in watched.told if "was closed" in text]

            # A large one has to wait for its turn, and gets it when one that does not move has been given up.
            monkeypatch.setattr(partial_frames, "_TIMEOUT_SECONDS", 0.3)
            monkeypatch.setattr(partial_frames, "_PROGRESS_BYTES", 1)
            watched.server._unfinished._look_at_progress()
            _, large, rest = await watched.begin(9)
            large.write(rest)
            await watched.accepted(101)
            assert watched.messages()[-1] == bytes([9]) * SIZE
            closed = [text for text in watched.told if "was closed" in text]
            assert "(--max-unfinished), and while others waited for its turn to end it sent" in closed[0]
            assert watched.most <= LIMIT + 2 * SIZE

    asyncio.run(asyncio.wait_for(run(), 120))


@pytest.mark.parametrize("how", ["close", "abort"])
def test_senders_that_leave_make_room(tmp_path, how):
    async def run():
        async with Watched(tmp_path) as watched:
            gone = [await watched.begin(sender) for sender in range(10)]
            await until(lambda: watched.kept > LIMIT)
            for _, writer, _ in gone:
                getattr(writer.transport, how)()
            await until(lambda: watched.kept == 0)
            _, writer, rest = await watched.begin(11)
            writer.write(rest)
            await watched.accepted(1)

    asyncio.run(asyncio.wait_for(run(), 120))


def test_the_turn_of_a_closed_connection_passes_on(tmp_path):
    async def run():
        async with Watched(tmp_path) as watched:
            begun = [await watched.begin(sender) for sender in range(4)]
            await until(lambda: watched.kept > LIMIT and watched.server._unfinished._waiting)
            # As if the others alone were too much.
            watched.server._unfinished._most = 1 << 20
            turn = watched.server._unfinished._turn
            leaving = [each for each in begun if turn.peer.endswith(f":{each[1].get_extra_info('sockname')[1]}")]
            for _, writer, _ in leaving:
                writer.close()
            for _, writer, rest in begun:
                if not writer.is_closing():
                    writer.write(rest)
            await watched.accepted(3)
            assert len(leaving) == 1

    asyncio.run(asyncio.wait_for(run(), 120))
