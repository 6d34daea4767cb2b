"""What a log leaves of its disk, and what it syncs to it."""

import asyncio
import errno
import os
import stat
from contextlib import closing
from pathlib import Path

import pytest

from wallaroo.ingress import block_sequence
from wallaroo.ingress import logged_source as logged_module
from wallaroo.ingress.block_sequence import SEGMENT_BYTES, Range, SequenceWriter
from wallaroo.ingress.config import IngressConfig
from wallaroo.ingress.log import LogReader, LogWriter
from wallaroo.ingress.log.format import segment_paths, segment_starts
from wallaroo.ingress.server import IngressServer

from .conftest import listening

NAME = "numbers"


@pytest.fixture
def config(tmp_path):
    return IngressConfig([listening(tmp_path, NAME)], str(tmp_path / "control"), "token", str(tmp_path / "sequence"))


def in_log(config):
    reader = LogReader(config.sources[0].log_directory)
    return [payload for _, payloads in reader.read(0, reader.end()) for payload in payloads]


def run(config, scenario, notices=None):
    """Run a scenario with a source without senders, and return the notices."""
    notices = [] if notices is None else notices

    async def serve():
        server = IngressServer(config, notices.append)
        await server.start()
        try:
            await asyncio.wait_for(scenario(server.sources[NAME]), 60)
        finally:
            server.close()

    asyncio.run(serve())
    return notices


async def until(condition):
    while not condition():  # noqa: ASYNC110 - what is waited for happens in files
        await asyncio.sleep(0.005)


def test_a_log_leaves_room_to_the_rest_of_the_application(config, monkeypatch):
    monkeypatch.setattr(logged_module, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(logged_module, "ROOM_LEFT", 1 << 60)

    async def scenario(source):
        source.received([b"one"])
        assert source.held_back
        assert in_log(config) == []
        monkeypatch.setattr(logged_module, "ROOM_LEFT", 0)
        await until(lambda: not source.held_back)
        source.received([b"two"])

    notices = run(config, scenario)
    assert "cannot be written: No space left on device" in notices[0]
    assert notices[1:] == [f"The log of {NAME!r} can be written again."]
    assert in_log(config) == [b"one", b"two"]


def test_at_the_end_what_was_received_is_written_nevertheless(config, monkeypatch):
    monkeypatch.setattr(logged_module, "ROOM_LEFT", 1 << 60)

    async def scenario(source):
        source.received([b"one"])
        source.sync()

    run(config, scenario)
    assert in_log(config) == [b"one"]


def test_a_segment_of_processed_messages_gives_its_room_back(tmp_path):
    with LogWriter(tmp_path) as writer:
        writer.append([b"x" * 1000] * 10)
        writer.delete_before(9)
        writer.delete_processed()
        assert segment_starts(tmp_path) == [0]
        writer.delete_before(10)
        assert segment_starts(tmp_path) == [0]
        writer.delete_processed()
        assert (writer.start, writer.end, writer.data_bytes) == (10, 10, 0)
        assert segment_starts(tmp_path) == [10]
        writer.delete_processed()
        assert writer.append([b"new"]) == 11


def test_appended_messages_are_synced_within_a_moment(config, monkeypatch):
    monkeypatch.setattr(logged_module, "SYNC_SECONDS", 0.01)
    forced = []
    fsync = os.fsync

    def noting(file):
        fsync(file)
        forced.append(os.fstat(file).st_ino)

    async def scenario(source):
        monkeypatch.setattr(os, "fsync", noting)
        await asyncio.sleep(0.1)
        assert forced == []
        source.received([b"one"])
        paths = segment_paths(source._log.directory, 0)
        inodes = [path.stat().st_ino for path in (*paths, source._log.directory)]
        await until(lambda: len(forced) == len(inodes))
        # The records of the blocks go last of the files: they make the rest count.
        assert forced == inodes

    run(config, scenario)


def test_files_are_synced_even_if_the_log_has_continued(tmp_path):
    with LogWriter(tmp_path, segment_bytes=1) as writer:
        assert writer.unsynced() is None
        writer.append([b"one"])
        files = writer.unsynced()
        writer.append([b"two"])
    files.sync()


@pytest.mark.parametrize("segment_bytes", [1, SEGMENT_BYTES])
def test_synced_messages_survive_a_power_failure(config, tmp_path, monkeypatch, segment_bytes):
    monkeypatch.setattr(block_sequence, "SEGMENT_BYTES", segment_bytes)
    on_disk = {}
    fsync = os.fsync

    def noting(file):
        fsync(file)
        if stat.S_ISREG(os.fstat(file).st_mode):
            on_disk[os.fstat(file).st_ino] = Path(f"/proc/self/fd/{file}").read_bytes()

    async def scenario():
        monkeypatch.setattr(os, "fsync", noting)
        killed = IngressServer(config, print)
        for text in (b"one", b"two"):
            killed.sources[NAME].received([text])
            killed.sequencer.tick()
        # It is not closed, and the next one has to sync what it has left.
        (tmp_path / "log" / "lock").unlink()
        server = IngressServer(config, print)
        assert await server.force() == 2
        server.sources[NAME].received([b"three"])
        server.sequencer.tick()
        for path in [path for folder in ("log", "sequence") for path in (tmp_path / folder).iterdir()]:
            copy = left / path.relative_to(tmp_path)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(on_disk.get(path.stat().st_ino, b""))
        for each in (killed, server):
            each.close()

    left = tmp_path / "left"
    asyncio.run(scenario())
    with closing(SequenceWriter(left / "sequence", [NAME])) as blocks, LogWriter(left / "log"):
        assert [block.ranges for block in blocks.read_from(0)] == [(Range(0, 0, 1),), (Range(0, 1, 2),)]
    assert [payload for _, payloads in LogReader(left / "log").read(0, 2) for payload in payloads] == [b"one", b"two"]


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


def failing(*_):
    raise OSError(errno.EIO, "Input/output error")


def test_a_failed_sync_is_retried(tmp_path, monkeypatch):
    with LogWriter(tmp_path) as writer:
        writer.append([b"one"])
        before = open_files()
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", failing)
            with pytest.raises(OSError, match="Input/output"):
                writer.unsynced().sync()
            with pytest.raises(OSError, match="Input/output"):
                writer.sync()
        assert open_files() == before
        files = writer.unsynced()
        writer.append([b"two"])
        files.sync()
        # What arrived meanwhile is not synced by that.
        writer.unsynced().sync()
        assert writer.unsynced() is None
        assert open_files() == before


def test_a_sync_without_free_files_leaves_none_open(tmp_path, monkeypatch):
    with LogWriter(tmp_path) as writer:
        writer.append([b"one"])
        before = open_files()
        dup = os.dup
        left = [1, 1]
        with monkeypatch.context() as patched:
            patched.setattr(os, "dup", lambda file: dup(file) if left and left.pop() else failing())
            with pytest.raises(OSError, match="Input/output"):
                writer.unsynced()
        assert open_files() == before
        writer.unsynced().sync()
        assert writer.unsynced() is None


def test_a_log_that_cannot_be_synced_is_reported_each_time_it_begins(config, monkeypatch):
    monkeypatch.setattr(logged_module, "SYNC_SECONDS", 0.01)
    monkeypatch.setattr(logged_module, "QUIET_SECONDS", 0.01)
    fsync = os.fsync
    tried = []

    def noting(file):
        tried.append(file)
        failing()

    async def scenario(source):
        for each in range(2):
            tried.clear()
            monkeypatch.setattr(os, "fsync", noting)
            source.received([b"one"])
            await until(lambda: len(tried) >= 3)
            monkeypatch.setattr(os, "fsync", fsync)
            await until(lambda each=each: len(notices) == 2 * (each + 1))

    notices = []
    run(config, scenario, notices)
    assert ["could not be synced" in text for text in notices] == [True, False] * 2
