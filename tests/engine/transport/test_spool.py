"""Large outputs go to the driver in files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from wallaroo.engine.transport import spool
from wallaroo.engine.transport.chunks import Chunk
from wallaroo.engine.transport.spool import OutputsGoneError, SpoolReader, SpoolWriter

SMALL = Chunk(0, 0, 0, 0, 1, b"small")


def large(number: int) -> Chunk:
    return Chunk(0, 0, 0, number, 1, bytes([number]) * (1_000_000 + number))


def test_large_bodies_come_back_and_small_ones_are_left_alone(tmp_path: Path) -> None:
    writers = [SpoolWriter(str(tmp_path)) for _ in range(2)]
    given = [(writer, chunk) for writer in writers for chunk in (large(1), SMALL, large(2))]
    put = [writer.put(chunk) for writer, chunk in given]
    assert [len(chunk.body) for chunk in put] == [16, 5, 16] * 2
    assert len(list(tmp_path.iterdir())) == 2
    reader = SpoolReader(str(tmp_path))
    assert [reader.get(chunk) for chunk in put] == [chunk for _, chunk in given]
    reader.clear()
    assert list(tmp_path.iterdir()) == []


def test_every_task_has_a_file_of_its_own(tmp_path: Path) -> None:
    writer, reader = SpoolWriter(str(tmp_path)), SpoolReader(str(tmp_path))
    for number in range(3):
        chunk = writer.put(large(number))
        writer.close()
        assert reader.get(chunk) == large(number)
        reader.clear()


def test_what_was_mapped_stays_when_its_file_is_gone(tmp_path: Path) -> None:
    reader = SpoolReader(str(tmp_path))
    found = reader.get(SpoolWriter(str(tmp_path)).put(large(7)))
    reader.clear()
    assert bytes(found.body) == large(7).body


def test_where_no_file_can_be_made_a_chunk_is_left_as_it_is(tmp_path: Path) -> None:
    writer = SpoolWriter(str(tmp_path / "missing"))
    assert writer.put(large(1)) == large(1)
    (tmp_path / "missing").mkdir()
    assert writer.put(large(1)) == large(1)  # Nothing is tried twice in a task.
    writer.close()
    assert writer.put(large(1)).file is not None


def test_room_is_left_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = os.statvfs(tmp_path)
    free = disk.f_bavail * disk.f_frsize
    monkeypatch.setattr(spool, "_ROOM_FOR_OTHERS", free + (1 << 40))
    writer = SpoolWriter(str(tmp_path))
    assert writer.put(large(1)) == large(1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "damage", [Path.unlink, lambda path: path.write_bytes(b""), lambda path: path.write_bytes(b"short")]
)
def test_outputs_that_are_gone_are_told_as_such(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    chunk = SpoolWriter(str(tmp_path)).put(large(1))
    for file in tmp_path.iterdir():
        damage(file)
    with pytest.raises(OutputsGoneError, match="outputs of a batch cannot be read"):
        SpoolReader(str(tmp_path)).get(chunk)


def test_a_disk_that_fills_up_half_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, reader = SpoolWriter(str(tmp_path)), SpoolReader(str(tmp_path))
    first = writer.put(large(1))
    write = os.write
    room = [300_000]

    def write_some(file: int, data: memoryview) -> int:
        if not room:
            raise OSError(28, "No space left on device")
        return write(file, data[: room.pop()])

    monkeypatch.setattr(os, "write", write_some)
    assert writer.put(large(2)) == large(2)
    monkeypatch.undo()
    # What was begun is not in anybody's way.
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) == len(large(1).body)
    writer.close()
    third = writer.put(large(3))
    assert [reader.get(chunk) for chunk in (first, third)] == [large(1), large(3)]
