"""Goes on without messages that the disk has damaged, because a person has said so.

The messages are noted as lost, so that readers pass them over, and what is left of their bytes is kept aside. Nothing
else is touched: block records that cannot be read are written anew, for they are the way to the blocks behind them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from wallaroo.ingress.log_check import CheckedSegment, Damage
from wallaroo.ingress.log_format import (
    DIRECTORY_MODE,
    FILE_MODE,
    OFFSET_SIZE,
    RECORD_SIZE,
    Block,
    is_noted,
    note_lost,
    pack_block,
    segment_starts,
)

if TYPE_CHECKING:
    from pathlib import Path

KEPT_IN = "damaged"
"""The folder, inside that of the log, for what is left of damaged messages."""


def skip_damaged(directory: Path) -> list[str]:
    """Have readers of the log in `directory` pass over what cannot be read, and return in words what that is."""
    told = []
    starts = segment_starts(directory)
    for start, following in zip(starts, [*starts[1:], None], strict=True):
        segment = CheckedSegment(directory, start)
        # The end of the last segment may be torn: that is no damage, and is cut off when the log is opened.
        count = segment.whole_count if following is None else segment.known_count
        found = [damage for damage in segment.damage(count) if not is_noted(directory, damage.first, damage.end)]
        told += [_skip(directory, segment, damage) for damage in found]
        end = segment.end(count)
        if following is not None and end < following and not is_noted(directory, end, following):
            note_lost(directory, end, following)
            told.append(_told(directory, end, following, "nothing is left of them"))
    return told


def set_damage_aside(directory: Path, segment: CheckedSegment, damage: Damage) -> None:
    """Keep what is left of damaged messages, note that they are lost, and write their records anew."""
    _keep_bytes(directory / KEPT_IN, segment, damage)
    note_lost(directory, damage.first, damage.end)
    _renew_records(segment, damage)


def _skip(directory: Path, segment: CheckedSegment, damage: Damage) -> str:
    set_damage_aside(directory, segment, damage)
    return _told(directory, damage.first, damage.end, f"what is left of them is kept in {directory / KEPT_IN}")


def _told(directory: Path, first: int, end: int, rest: str) -> str:
    number = end - first
    messages = f"message {first}" if number == 1 else f"{number} messages, {first} to {end - 1},"
    return f"The log {directory} goes on without {messages} which cannot be read; {rest}."


def _keep_bytes(folder: Path, segment: CheckedSegment, damage: Damage) -> None:
    low = segment.data_end(damage.number)
    high = segment.data_start(damage.end_number) if damage.end_number < len(segment.records) else None
    parts = [
        (segment.paths.data, low, high),
        (segment.paths.ends, OFFSET_SIZE * (damage.first - segment.start), OFFSET_SIZE * (damage.end - segment.start)),
        (segment.paths.blocks, RECORD_SIZE * damage.number, RECORD_SIZE * damage.end_number),
    ]
    folder.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
    for path, begin, end in parts:
        if path.exists():
            target = folder / f"{damage.first}-{damage.end}{path.suffix}"
            file = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
            with path.open("rb") as source, os.fdopen(file, "wb") as kept:
                source.seek(begin)
                kept.write(source.read(-1 if end is None else max(end - begin, 0)))
                kept.flush()
                os.fsync(kept.fileno())


def _renew_records(segment: CheckedSegment, damage: Damage) -> None:
    """Write records that lead past the damaged messages: where they begin is known, how they were cut up no longer."""
    records = segment.records
    with segment.paths.blocks.open("r+b") as file:
        for number in range(damage.number, damage.end_number):
            if records[number] is None:
                following = next(later for later in range(number + 1, len(records)) if records[later] is not None)
                first = segment.end(number)
                # The first one takes what is to be taken, the others the one message that each must have had.
                size = segment.block(following).first - first - (following - number - 1)
                data_end = max(segment.data_end(number), segment.data_start(following))
                records[number] = Block(first, size, data_end, 0, 0)
                file.seek(RECORD_SIZE * number)
                file.write(pack_block(segment.block(number)))
        file.flush()
        os.fsync(file.fileno())
