"""Decides whether the outputs are allowed: plain Python that knows the guarantees and nothing of the engine.

It is given what the senders recorded and what each of the receiver's connections was sent. A connection begins with a
block: with the next one, or, where the connection before it broke, once more with the block that had not been recorded,
from its beginning or from where it was noted to have got. So the connections can be laid over each other to one stream
without repeats, in which every line has its place.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Known:
    """What the application's directory said before a connection of the receiver's was made."""

    recorded: int = -1
    """The last block that was recorded as sent."""
    ends: Mapping[int, int] = field(default_factory=dict)
    """For the latest blocks, how many messages had been taken after each of them."""
    part: tuple[int, int] = (-1, 0)
    """The block of which only a part was noted as sent, and how many bytes that was."""

    def next_begin(self) -> int:
        """Return after how many messages the next block begins, which has not been planned yet."""
        return self.ends[max(self.ends)] if self.ends else 0

    def unrecorded(self) -> dict[int, tuple[int, int]]:
        """Return the blocks that were planned and not recorded: after how many messages each begins and ends."""
        begins = {block: self.ends.get(block - 1, 0 if block == 0 else None) for block in self.ends}
        return {
            block: (begin, self.ends[block])
            for block, begin in begins.items()
            if block > self.recorded and begin is not None
        }


@dataclass(frozen=True)
class Received:
    """What one connection of the receiver's was sent, whole lines or not."""

    data: bytes
    known: Known


@dataclass
class Sent:
    """What a sender recorded of one connection."""

    keys: list[str] = field(default_factory=list)
    """The keys of its messages, which are numbered from 1 on, in the order in which they were sent."""
    accepted: bool = False
    """Whether the sender knows that all of them were accepted; otherwise any number of the first may have been."""


@dataclass
class Verdict:
    """What the oracle found."""

    violations: list[str]
    messages: int
    """How many messages came out, repeats not counted."""
    repeats: int
    """How many lines came again."""
    repeated_blocks: int
    """In how many blocks these were."""

    def __str__(self) -> str:
        if self.violations:
            more = f" and {len(self.violations) - 5} more" if len(self.violations) > 5 else ""
            return "VIOLATED: " + "; ".join(self.violations[:5]) + more
        return "holds"


def judge(sent: Mapping[str, Sent], received: Sequence[Received]) -> Verdict:
    """Return whether `received` is what the guarantees allow for `sent`."""
    stream = _Stream()
    for number, connection in enumerate(received):
        stream.add(number, connection)
    violations = [*stream.violations, *_in_stream(stream.lines, sent)]
    return Verdict(violations, len(stream.lines), stream.repeats, stream.repeated_blocks)


def judge_topic(
    sent: Mapping[str, Sent], partitions: Mapping[int, Sequence[tuple[str, bytes]]], seen: Mapping[int, Sequence[bytes]]
) -> Verdict:
    """Return whether the keys and values that a topic has, by partition, are what the guarantees allow for `sent`.

    Nothing may be repeated here. `seen` are the values that a consumer read which was there all the time.
    """
    lines = [value for records in partitions.values() for _, value in records]
    violations = _in_stream(lines, sent)
    of_key: dict[str, int] = {}
    for partition, records in partitions.items():
        for key, value in records:
            if of_key.setdefault(key, partition) != partition or not value.startswith(f"{key} ".encode()):
                violations.append(f"{value!r} has the key {key} and is in partition {partition}, not {of_key[key]}")
        if [value for _, value in records] != list(seen.get(partition, ())):
            violations.append(f"who read partition {partition} all the time has read something else than is there now")
    return Verdict(violations, len(lines), 0, 0)


class _Stream:
    """Lays connections over each other, and takes note of what they repeat."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.violations: list[str] = []
        self.repeats = 0
        self.repeated_blocks = 0
        self._places: dict[bytes, int] = {}
        self._torn = b""

    def add(self, number: int, connection: Received) -> None:
        """Add what the next connection was sent."""
        *lines, torn = connection.data.split(b"\n")
        if not lines:
            # Not even one line: there is nothing to learn from it, and nothing that it could repeat.
            return
        name = f"the receiver's connection {number}"
        begin = self._places.get(lines[0], len(self.lines))
        again = self.lines[begin:]
        if begin not in self._allowed_begins(connection.known):
            self.violations.append(f"{name} begins after {begin} of {len(self.lines)} messages: {connection.known}")
        if again:
            self.repeats += min(len(again), len(lines))
            self.repeated_blocks += 1
        if any(before != now for before, now in zip(again, lines, strict=False)):
            self.violations.append(f"{name} repeats a block with other lines or in another order")
        if len(lines) < len(again):
            return  # It broke inside the repeat.
        if len(lines) > len(again) and not lines[len(again)].startswith(self._torn):
            self.violations.append(f"{name} does not go on with the line that was cut off: {self._torn!r}")
        self._torn = torn
        self._append(name, lines[len(again) :])

    def _append(self, name: str, lines: Iterable[bytes]) -> None:
        for line in lines:
            if line in self._places:
                self.violations.append(f"{name} repeats a line where no block begins: {line!r}")
            self._places[line] = len(self.lines)
            self.lines.append(line)

    def _allowed_begins(self, known: Known) -> Iterator[int]:
        """Yield where a connection may begin: only the block that was in progress, and not recorded, may come again."""
        if known.next_begin() >= len(self.lines):
            yield known.next_begin()
        for block, (begin, end) in known.unrecorded().items():
            if end >= len(self.lines):
                yield begin
                yield begin + self._lines_in(known.part[1] if known.part[0] == block else 0, begin)

    def _lines_in(self, size: int, begin: int) -> int:
        """Return how many lines from `begin` on make up `size` bytes."""
        number = 0
        while size > 0 and begin + number < len(self.lines):
            size -= len(self.lines[begin + number]) + 1
            number += 1
        return number


def _in_stream(lines: Sequence[bytes], sent: Mapping[str, Sent]) -> list[str]:
    """Return what is wrong with the lines, every one of which is here once."""
    violations = []
    totals: Counter[str] = Counter()
    last: Counter[tuple[str, str]] = Counter()
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for line in lines:
        key, connection, number, before, total = _parsed(line)
        totals[key] += 1
        if total != totals[key]:
            violations.append(f"the state of {key} counts {total} where {totals[key]} came out: {line!r}")
            totals[key] = total
        if before != last[key, connection] or number <= before:
            violations.append(f"lost or out of order before {line!r}, after {last[key, connection]}")
        last[key, connection] = number
        keys = sent[connection].keys if connection in sent else []
        if not 0 < number <= len(keys) or keys[number - 1] != key:
            violations.append(f"nobody sent {line!r}")
        numbers[connection].append(number)
    for connection, record in sent.items():
        violations += _in_connection(connection, record, sorted(numbers[connection]))
    return violations


def _parsed(line: bytes) -> tuple[str, str, int, int, int]:
    """Return the parts of a line; anything else counts as a message that was never sent."""
    try:
        key, connection, number, before, total = line.decode().split(" ")
        return key, connection, int(number), int(before), int(total)
    except ValueError:
        return repr(line), "", 0, 0, 1


def _in_connection(name: str, record: Sent, numbers: list[int]) -> list[str]:
    """A connection's outputs are those of its first messages, without a gap, and of all if they were accepted."""
    if numbers != list(range(1, len(numbers) + 1)):
        missing = sorted(set(range(1, numbers[-1] + 1)) - set(numbers))
        twice = [number for number, times in Counter(numbers).items() if times > 1]
        return [f"connection {name}: of {numbers[-1]} messages {missing[:5]} are missing, {twice[:5]} came twice"]
    if record.accepted and len(numbers) < len(record.keys):
        return [f"connection {name}: of {len(record.keys)} accepted messages only {len(numbers)} came out"]
    return []
