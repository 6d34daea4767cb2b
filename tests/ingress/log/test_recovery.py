"""Opening a log that its writer left in any state."""

from __future__ import annotations

import asyncio
import shutil

import pytest

from wallaroo.ingress.config import IngressConfig
from wallaroo.ingress.log import LogCorruptError, LogReader, LogWriter
from wallaroo.ingress.log.format import RECORD_SIZE, segment_paths, segment_starts
from wallaroo.ingress.log.repair import skip_damaged
from wallaroo.ingress.server import IngressServer

from ..conftest import frame, listening, until  # noqa: TID252 - tests are not installed

KEPT = [b"first", b"", b"second"]
LAST = [b"third", b"fourth"]


def read_all(directory):
    reader = LogReader(directory)
    return [payload for _, payloads in reader.read(0, reader.end()) for payload in payloads]


@pytest.fixture(params=["same segment", "next segment"])
def log(request, tmp_path):
    """Return a log with the blocks KEPT and LAST, in one segment or two."""
    with LogWriter(tmp_path / "log", segment_bytes=1 if request.param == "next segment" else 1000) as writer:
        writer.append(KEPT)
        writer.append(LAST)
    return tmp_path / "log"


@pytest.mark.parametrize("kind", ["data", "ends", "blocks"])
def test_a_block_torn_at_any_byte_is_dropped(log, tmp_path, kind):
    start = segment_starts(log)[-1]
    whole = getattr(segment_paths(log, start), kind).stat().st_size
    last = {"data": 11, "ends": 8, "blocks": RECORD_SIZE}[kind]
    for size in range(whole - last, whole):
        torn = tmp_path / "torn"
        shutil.copytree(log, torn)
        with getattr(segment_paths(torn, start), kind).open("r+b") as file:
            file.truncate(size)
        with LogWriter(torn) as writer:
            assert writer.end == len(KEPT)
            assert writer.data_bytes == 11
            assert read_all(torn) == KEPT
            assert writer.append([b"new"]) == len(KEPT) + 1
        assert read_all(torn) == [*KEPT, b"new"]
        # The next opening finds a whole log: nothing more is dropped.
        with LogWriter(torn) as writer:
            assert (writer.end, writer.dropped) == (len(KEPT) + 1, [])
        shutil.rmtree(torn)


@pytest.mark.parametrize("kind", ["data", "ends", "blocks"])
def test_bytes_beyond_the_last_block_are_dropped(log, kind):
    start = segment_starts(log)[-1]
    with getattr(segment_paths(log, start), kind).open("ab") as file:
        file.write(b"torn")
    with LogWriter(log) as writer:
        assert writer.append([b"new"]) == 6
    assert read_all(log) == [*KEPT, *LAST, b"new"]


@pytest.mark.parametrize("kind", ["data", "ends", "blocks"])
def test_a_damaged_last_block_is_dropped_and_reported(log, kind):
    path = getattr(segment_paths(log, segment_starts(log)[-1]), kind)
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with LogWriter(log) as writer:
        assert writer.end == len(KEPT)
        assert ["11 bytes" in text and "continues with message 3" in text for text in writer.dropped] == [True]
    assert read_all(log) == KEPT


@pytest.mark.parametrize("made", [1, 2, 3])
def test_a_partly_created_segment_is_ignored(log, made):
    for path in segment_paths(log, 5)[:made]:
        path.touch()
    with LogWriter(log) as writer:
        assert (writer.start, writer.end, writer.dropped) == (0, 5, [])
        assert writer.append([b"new"]) == 6
    assert read_all(log) == [*KEPT, *LAST, b"new"]


@pytest.mark.parametrize("deleted", [1, 2])
def test_a_partly_deleted_segment_is_ignored(tmp_path, deleted):
    with LogWriter(tmp_path, segment_bytes=1) as writer:
        writer.append(KEPT)
        writer.append(LAST)
    for path in segment_paths(tmp_path, 0)[::-1][:deleted]:
        path.unlink()
    with LogWriter(tmp_path) as writer:
        assert (writer.start, writer.end) == (3, 5)
    assert not segment_paths(tmp_path, 0).data.exists()


def test_a_log_whose_files_are_all_empty_begins_again(tmp_path):
    LogWriter(tmp_path).close()
    with LogWriter(tmp_path) as writer:
        assert writer.append([b"x"]) == 1


def test_damage_in_the_middle_is_not_skipped_silently(tmp_path):
    with LogWriter(tmp_path, segment_bytes=1) as writer:
        for _ in range(3):
            writer.append([b"x"])
    segment_paths(tmp_path, 1).unlink()
    with pytest.raises(LogCorruptError, match=r"ends before message 1, but the next one begins with 2"):
        LogWriter(tmp_path)


def test_positions_that_were_processed_are_never_reused(tmp_path):
    with LogWriter(tmp_path / "log") as writer:
        writer.append([b"x"] * 9)
    endpoint = listening(tmp_path, known={0: 10})
    notices = []

    async def serve():
        config = IngressConfig([endpoint], str(tmp_path / "control"), "token", str(tmp_path / "sequence"))
        server = IngressServer(config, notices.append)
        try:
            address = (await server.start())["numbers"]
            _, connection = await asyncio.open_connection(*address)
            connection.write(b"".join(frame(b"%d" % number) for number in range(10, 15)))
            await until(lambda: server.ends() == {"numbers": 15})
            connection.close()
        finally:
            server.close()

    asyncio.run(asyncio.wait_for(serve(), 60))
    reader = LogReader(tmp_path / "log")
    assert reader.present(0, 15) == [(0, 9), (10, 15)]
    taken = [payload for _, payloads in reader.read(10, 15) for payload in payloads]
    assert taken == [b"10", b"11", b"12", b"13", b"14"]
    (notice,) = notices
    assert "ended at message 9, but messages up to 10 were known" in notice


@pytest.mark.parametrize("notes", ["5 8\n", "5 6\n6 8\n", "6 8\n5 6\n", "3 8\n"])
def test_positions_recorded_as_lost_are_not_reused_after_a_crash(log, notes):
    """The segment behind the lost messages was not made any more, or a power failure took it."""
    (log / "lost").write_text(notes)
    for end in (9, 10):
        with LogWriter(log) as writer:
            assert (writer.end, writer.dropped) == (max(8, end - 1), [])
            assert writer.append([b"new"]) == end
    reader = LogReader(log)
    assert reader.present(8, 10) == [(8, 10)]
    assert [payload for _, payloads in reader.read(8, 10) for payload in payloads] == [b"new"] * 2


def test_a_torn_end_after_skipped_damage_reuses_no_positions(tmp_path):
    with LogWriter(tmp_path) as writer:
        for _ in range(3):
            writer.append([b"x"] * 4)
    paths = segment_paths(tmp_path, 0)
    content = bytearray(paths.data.read_bytes())
    content[5] ^= 1
    paths.data.write_bytes(content)
    assert len(skip_damaged(tmp_path)) == 1
    paths.data.write_bytes(content[:-1])
    with LogWriter(tmp_path) as writer:
        assert writer.append([b"new"]) == 9
    assert LogReader(tmp_path).present(0, 9) == [(0, 4), (8, 9)]
    with LogWriter(tmp_path) as writer:
        assert (writer.end, writer.dropped) == (9, [])


def test_a_commit_after_what_was_lost_leaves_nothing_of_the_log_before_it(tmp_path):
    with LogWriter(tmp_path) as writer:
        writer.append([b"x"] * 10)
    (tmp_path / "committed").write_bytes(b"%020d\n" % 20)
    (tmp_path / "lost").write_text("15 30\n")
    for _ in range(2):
        with LogWriter(tmp_path) as writer:
            assert (writer.start, writer.end) == (30, 30)


def test_a_commit_beyond_a_lost_tail_is_not_overtaken(tmp_path):
    with LogWriter(tmp_path) as writer:
        writer.append([b"x"] * 10)
        writer.append([b"y"] * 10)
        writer.delete_before(20)
    with segment_paths(tmp_path, 0).blocks.open("r+b") as file:
        file.truncate(RECORD_SIZE)
    with LogWriter(tmp_path) as writer:
        assert (writer.start, writer.end, writer.committed) == (20, 20, 20)
        assert segment_starts(tmp_path) == [20]
