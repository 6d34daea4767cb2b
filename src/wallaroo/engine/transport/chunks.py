"""How messages travel between stages: a Spark row is a chunk of many messages, packed once.

Columns of a row:

- `route`: what the chunk is for: a state step or a sink of the plan, or one of the special routes below;
- `grp`: the group (a bucket of a state, or a carrier that only passes chunks on) which decides the partition;
- `seq`, `part`: the chunk's place in the order of the input; chunks of one route are put in order by them;
- `number`: how many messages;
- `body`: the messages: packed with their keys for a state, bytes back to back for a sink;
- `file`: the name of the file that the body is in, where it is large and on its way to the driver (see `spool`).
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, chain
from typing import Any, NamedTuple

import pyarrow as pa

from wallaroo.connectors.batch import Body
from wallaroo.engine.transport.packing import pack, pack_plain, unpack

DEAD_LETTERS = -1
"""The route of messages that failed: a JSON list of records for the dead-letter file."""
PRINTED = -2
"""The route of what user code printed: text for the user's screen."""
NUDGE = -3
"""The route of chunks without content, which only make every stage run once."""

COLUMNS = "route int, grp int, seq long, part int, number int, body binary, file string"
ARROW_SCHEMA = pa.schema(
    [
        ("route", pa.int32()),
        ("grp", pa.int32()),
        ("seq", pa.int64()),
        ("part", pa.int32()),
        ("number", pa.int32()),
        ("body", pa.binary()),
        ("file", pa.string()),
    ]
)


_RECORD_BATCH_BYTES = 1 << 20


class Chunk(NamedTuple):
    """One row; its fields are described at the top of this module."""

    route: int
    grp: int
    seq: int
    part: int
    number: int
    body: Body
    file: str | None = None

    @property
    def order(self) -> tuple[int, int, int]:
        """Return the key that puts the chunks of a group, or of a sink, into the order of the input."""
        return (self.route, self.seq, self.part)


def record_batches(chunks: Iterable[Chunk]) -> Iterator[pa.RecordBatch]:
    """Yield `chunks` as the Arrow batches that the source hands to Spark: not many, and none too large."""
    waiting: list[Chunk] = []
    size = 0
    for chunk in chunks:
        waiting.append(chunk)
        size += len(chunk.body)
        if size >= _RECORD_BATCH_BYTES:
            yield _record_batch(waiting)
            waiting, size = [], 0
    if waiting:
        yield _record_batch(waiting)


def _record_batch(chunks: list[Chunk]) -> pa.RecordBatch:
    columns = zip(*chunks, strict=True)
    arrays = [pa.array(column, type=field.type) for column, field in zip(columns, ARROW_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)


def from_table(table: pa.Table) -> Iterator[Chunk]:
    """Yield the chunks of an Arrow table, in input order for each route."""
    columns = [table.column(name).to_pylist() for name in ARROW_SCHEMA.names]
    chunks = [Chunk(*values) for values in zip(*columns, strict=True)]
    yield from sorted(chunks, key=lambda chunk: chunk.order)


class Serializer:
    """Packs messages and states for their way between workers and into the state store.

    With pickle as it is, or with the application's own `serialize` and `deserialize` for each message and state.

    >>> Serializer().load_messages(Serializer().dump_messages({"a": [1, 2]}))
    {'a': [1, 2]}
    >>> text = Serializer(lambda o: repr(o).encode(), lambda b: int(b))
    >>> text.load_messages(text.dump_messages({"a": [1, 2]}))
    {'a': [1, 2]}
    """

    def __init__(
        self,
        serialize: Callable[[Any], bytes] | None = None,
        deserialize: Callable[[bytes], Any] | None = None,
    ) -> None:
        self._serialize = serialize
        self._deserialize = deserialize

    @property
    def own(self) -> bool:
        """Return whether it is the application's own code that packs."""
        return self._serialize is not None

    def dump(self, obj: Any) -> bytes:
        """Return one message or state as bytes."""
        if self._serialize is not None:
            return self._serialize(obj)
        return pickle.dumps(obj, pickle.HIGHEST_PROTOCOL)

    def load(self, data: bytes) -> Any:
        """Return the message or state in `data`."""
        return pickle.loads(data) if self._deserialize is None else self._deserialize(data)

    def dump_messages(self, messages: dict[Any, list[Any]]) -> bytes:
        """Return the messages of many keys as bytes."""
        flat = list(chain.from_iterable(messages.values()))
        if self._serialize is not None:
            flat = list(map(self._serialize, flat))
        return pack(list(messages), list(map(len, messages.values())), flat)

    def dump_plain_messages(self, messages: dict[Any, list[Any]]) -> bytes | None:
        """Return the same where all messages and keys are of a kind that is sure to be loaded again, else None."""
        if self._serialize is not None:
            return None
        flat = list(chain.from_iterable(messages.values()))
        return pack_plain(list(messages), list(map(len, messages.values())), flat)

    def load_messages(self, data: Body) -> dict[Any, list[Any]]:
        """Return what `dump_messages` packed."""
        keys, counts, flat = self.load_flat(data)
        ends = accumulate(counts)
        return {key: flat[end - count : end] for key, count, end in zip(keys, counts, ends, strict=True)}

    def load_flat(self, data: Body) -> tuple[list[Any], list[int], list[Any]]:
        """Return what `dump_messages` packed, in three lists: keys, how many messages each has, and all messages."""
        keys, counts, flat = unpack(data)
        if self._deserialize is not None:
            flat = list(map(self._deserialize, flat))
        return keys, counts, flat

    def dump_states(self, states: dict[Any, Any]) -> bytes:
        """Return the states of many keys as bytes."""
        objects = list(states.values())
        if self._serialize is not None:
            objects = list(map(self._serialize, objects))
        return pack(list(states), objects)

    def load_states(self, data: bytes) -> dict[Any, Any]:
        """Return what `dump_states` packed."""
        keys, objects = unpack(data)
        if self._deserialize is not None:
            objects = list(map(self._deserialize, objects))
        return dict(zip(keys, objects, strict=True))


def dump_records(records: list[dict[str, Any]]) -> bytes:
    """Return dead-letter records as the body of a chunk."""
    return json.dumps(records).encode()


def load_records(body: Body) -> list[dict[str, Any]]:
    """Return the dead-letter records in the body of a chunk."""
    records: list[dict[str, Any]] = json.loads(bytes(body))
    return records
