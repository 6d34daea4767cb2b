"""What a task has put out so far: messages for later states, bytes for sinks, dead letters, printed text.

Steps push into an outbox message by message; the task takes its content as chunks, many messages each.
"""

from __future__ import annotations

import base64
import contextlib
import io
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from wallaroo.engine.buckets import stable_hash
from wallaroo.engine.chunks import DEAD_LETTERS, PRINTED, Chunk, dump_records
from wallaroo.engine.plan import Plan, SinkRoute, StepRoute
from wallaroo.engine.printing import CaughtStream
from wallaroo.errors import users_traceback

_PRINTED_AT_MOST = 64 * 1024
_KNOWN_BUCKETS_AT_MOST = 1_000_000

Origin = Callable[[], dict[str, Any]]


USER_ERRORS = (Exception, SystemExit)
"""What user code may raise without ending the worker: a program that was a script once may still call `sys.exit`."""


class NotPicklableError(Exception):
    """A message cannot travel to another worker, or a state cannot be saved."""


class UnknownKeyError(Exception):
    """A partition function returned a key that the application had not listed."""


class Outbox:
    """Collects the output of one task at a time; made once in a worker process and used for task after task."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._serializer = plan.serializer
        self._sinks: dict[int, list[bytes]] = {}
        self._keyed: dict[int, defaultdict[Any, list[Any]]] = {}
        self._buckets: dict[int, dict[Any, int]] = {}
        self._dead: list[dict[str, Any]] = []
        self._travelled: set[type] = set()
        """Classes of messages that have been seen to survive the way to another worker."""
        self._part = 0
        self.printed = io.StringIO()
        self.key: Any = None
        """The key of the message at hand, for states that take the key that a message already has."""
        self.origin: Origin = dict
        """Says where the message at hand came from; set by whoever feeds the steps."""

    def sink(self, route: SinkRoute) -> list[bytes]:
        """Return the list that takes the encoded messages for a sink."""
        return self._sinks.setdefault(route.number, [])

    def keyed(self, route: StepRoute) -> defaultdict[Any, list[Any]]:
        """Return the lists, one for each key, that take the messages for a state step."""
        self._buckets.setdefault(route.number, {})
        return self._keyed.setdefault(route.number, defaultdict(list))

    def clear(self) -> None:
        """Forget everything; a task that failed half-way may have left something."""
        for sink in self._sinks.values():
            sink.clear()
        for keyed in self._keyed.values():
            keyed.clear()
        self._dead.clear()
        self._part = 0
        self.key = None
        self.printed.seek(0)
        self.printed.truncate()

    def capturing(self) -> contextlib.AbstractContextManager[object]:
        """Collect what user code prints, to be shown on the user's screen instead of a worker's log."""
        return self._capturing()

    @contextlib.contextmanager
    def _capturing(self) -> Iterator[None]:
        CaughtStream.buffer_of_task = self.printed
        try:
            yield
        finally:
            CaughtStream.buffer_of_task = None

    @property
    def messages(self) -> int:
        """Return how many messages are waiting, for a task that wants to put out large results in parts."""
        keyed = sum(len(some) for groups in self._keyed.values() for some in groups.values())
        return keyed + sum(map(len, self._sinks.values()))

    def fail(self, pipeline: str, step: str, message: Any, error: BaseException, key: Any = None) -> None:
        """Record a message that user code could not handle; it becomes a dead letter, and work goes on."""
        payload, encoding = self._bytes_of(message)
        self._dead.append(
            {
                "time": time.time(),
                "pipeline": pipeline,
                "step": step,
                "key": None if key is None else _shorten(_safe_repr(key)),
                **self.origin(),
                "message": _shorten(_safe_repr(message)),
                "payload": base64.b64encode(payload).decode(),
                "encoding": encoding,
                "error": "".join(traceback.format_exception_only(error)).strip(),
                "traceback": users_traceback(error),
            }
        )

    def _bytes_of(self, message: Any) -> tuple[bytes, str]:
        if isinstance(message, bytes):
            return message, "bytes"
        try:
            return self._serializer.dump(message), "pickle" if self._plan.serialize is None else "serialize"
        except Exception:  # noqa: BLE001 - user code; the message is then kept in words
            return _safe_repr(message).encode(), "repr"

    def take(self, seq: int, carrier: int) -> Iterator[Chunk]:
        """Yield everything collected as chunks, and start again. `carrier` takes what has no bucket to go to."""
        part = self._part
        self._part += 1
        for number, groups in self._keyed.items():
            if groups:
                route = self._plan.routes[number]
                assert isinstance(route, StepRoute)
                yield from self._keyed_chunks(route, groups, seq, part)
                groups.clear()
        for number, encoded in self._sinks.items():
            if encoded:
                yield Chunk(number, carrier, seq, part, len(encoded), b"".join(encoded))
                encoded.clear()
        if self._dead:
            yield Chunk(DEAD_LETTERS, carrier, seq, part, len(self._dead), dump_records(self._dead))
            self._dead.clear()
        if text := self.printed.getvalue():
            self.printed.seek(0)
            self.printed.truncate()
            if len(text) > _PRINTED_AT_MOST:
                text = f"{text[:_PRINTED_AT_MOST]}\n… and {len(text) - _PRINTED_AT_MOST:,} more characters"
            yield Chunk(PRINTED, carrier, seq, part, 0, text.encode("utf-8", "replace"))

    def _keyed_chunks(self, route: StepRoute, groups: dict[Any, list[Any]], seq: int, part: int) -> Iterator[Chunk]:
        """Yield one chunk for each bucket that got messages."""
        allowed = route.step.state.keys if route.step.partition is not None else None
        known = self._buckets[route.number]
        if len(known) > _KNOWN_BUCKETS_AT_MOST:
            known.clear()
        by_bucket: defaultdict[int, dict[Any, list[Any]]] = defaultdict(dict)
        if allowed is not None:
            _letters_by_number(groups, allowed)
        for key, messages in groups.items():
            bucket = known.get(key)
            if bucket is None:
                try:
                    bucket = known[key] = self._bucket_of(route, key)
                except Exception as error:  # noqa: BLE001 - a key of the user's, or its hash
                    for message in messages:
                        self.fail(route.pipeline.name, route.step.name, message, error, key)
                    continue
            by_bucket[bucket][key] = messages
        for bucket, of_bucket in by_bucket.items():
            body, count = self._pack(route, of_bucket)
            if count:
                yield Chunk(route.number, bucket, seq, part, count, body)

    def _bucket_of(self, route: StepRoute, key: Any) -> int:
        """Return the bucket of a key, or raise what is wrong with the key."""
        state = route.step.state
        if route.step.partition is not None:
            if state.keys is not None and key not in state.keys:
                raise UnknownKeyError(
                    f"the partition function returned the key {_shorten(_safe_repr(key))}, which is not among the "
                    f"{len(state.keys)} partition keys of state {state.name!r}"
                )
            if state.u64 and not (isinstance(key, int) and 0 <= key < 1 << 64):
                raise UnknownKeyError(
                    f"the partition function returned the key {_shorten(_safe_repr(key))}; "
                    "to_state_partition_u64 takes whole numbers from 0 to 2**64 - 1"
                )
        buckets = route.layout.groups
        return buckets[stable_hash(key) % len(buckets)] if len(buckets) > 1 else buckets[0]

    def _pack(self, route: StepRoute, messages: dict[Any, list[Any]]) -> tuple[bytes, int]:
        """Return messages as bytes with their number; those that cannot travel become dead letters."""
        try:
            if set(map(type, chain.from_iterable(messages.values()))) <= self._travelled:
                return self._serializer.dump_messages(messages), sum(map(len, messages.values()))
        except Exception:  # noqa: BLE001, S110 - the culprits are found one by one, below
            pass
        good: dict[Any, list[Any]] = {}
        for key, some in messages.items():
            for message in some:
                try:
                    # A class may well be pickled and fail to come back, which the other side could not undo.
                    self._serializer.load_messages(self._serializer.dump_messages({key: [message]}))
                except USER_ERRORS as cause:
                    self._travelled.discard(type(message))
                    error = NotPicklableError(f"the message cannot be sent to the worker of its key: {cause}")
                    self.fail(route.pipeline.name, route.step.name, message, error, key)
                else:
                    self._travelled.add(type(message))
                    good.setdefault(key, []).append(message)
        return self._serializer.dump_messages(good), sum(map(len, good.values()))


def _letters_by_number(groups: dict[Any, list[Any]], allowed: frozenset[Any]) -> None:
    """Put messages whose key is the number of a listed letter to that letter, as some releases of the original did."""
    for key in [key for key in groups if type(key) is int and key not in allowed and 0 <= key <= sys.maxunicode]:
        if chr(key) in allowed:
            groups.setdefault(chr(key), []).extend(groups.pop(key))


def _safe_repr(message: Any) -> str:
    try:
        return repr(message)
    except Exception:  # noqa: BLE001 - user code
        return object.__repr__(message)


def _shorten(text: str, most: int = 500) -> str:
    return text if len(text) <= most else text[:most] + "…"
