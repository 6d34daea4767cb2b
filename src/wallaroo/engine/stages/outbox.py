"""The output of a task so far: messages for later states, bytes for sinks, dead letters, printed text.

Steps append to an outbox message by message; the task takes its content in chunks of many messages each.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, groupby
from typing import Any

from wallaroo.engine.plan import Plan, SinkRoute, StepRoute
from wallaroo.engine.stages.crash_guard import CallGuard, Function
from wallaroo.engine.stages.current_message import CurrentMessage, Origin
from wallaroo.engine.stages.stdout_capture import CapturedStream
from wallaroo.engine.transport.buckets import stable_hash
from wallaroo.engine.transport.dead_letter_record import Letter, Place, dump_records, make_letter, safe_repr, shorten
from wallaroo.engine.transport.shuffle_format import DEAD_LETTERS, PRINTED, UNLISTED_KEYS, Chunk
from wallaroo.sizes import plural

_PRINTED_AT_MOST = 64 * 1024
_KNOWN_BUCKETS_AT_MOST = 1_000_000
_FANOUT_AT_MOST = 100_000

OriginOfPacked = Callable[[int, int, Any, int], dict[str, Any]]
"""Returns where a message for a state came from, by its route, part, key and index among the messages of the key."""
OriginOfKeyed = Callable[[Any, int], dict[str, Any]]
"""The same for messages of one route and part."""


AT_HAND: Any = object()
"""Stands for the key of the current message, if it has one."""

USER_ERRORS = (Exception, SystemExit)
"""What user code may raise without ending the worker: a program that was once a script may still call `sys.exit`."""


class NotPicklableError(Exception):
    """A message cannot be sent to another worker, or a state cannot be saved."""


class UnknownKeyError(Exception):
    """A partition function returned a key that is not valid for its state."""


class Outbox:
    """Collects the output of one task at a time; created once per worker process and reused for every task."""

    inlines: bool = True
    """Whether simple functions of the user are written into the generated loops instead of being called."""

    def __init__(self, plan: Plan, watch: CallGuard | None = None) -> None:
        self._plan = plan
        self.current = CurrentMessage()
        self._watch = watch
        """Wraps all user code while a block on which a process has died is run."""
        self._serializer = plan.serializer
        self._sinks: dict[int, list[bytes]] = {}
        self._joined: dict[int, _Joined] = {}
        self._keyed: dict[int, defaultdict[Any, list[Any]]] = {}
        self._buckets: dict[int, dict[Any, int]] = {}
        self._dead: list[Letter] = []
        self._unlisted: dict[str, tuple[int, str]] = {}
        """By state: how many objects were created for unlisted keys, and the first of these keys."""
        self._travelled: set[type] = set()
        """Message classes known to survive pickling and unpickling."""
        self.fanout_budget = _FANOUT_AT_MOST
        """How many more messages multi-output steps may produce; their generated loops count it down."""
        self.printed = io.StringIO()

    def sink(self, route: SinkRoute) -> list[bytes]:
        """Return the list that collects the encoded messages for a sink."""
        self._joined.setdefault(route.number, _Joined())
        return self._sinks.setdefault(route.number, [])

    def keyed(self, route: StepRoute) -> defaultdict[Any, list[Any]]:
        """Return the lists, one per key, that collect the messages for a state step."""
        self._buckets.setdefault(route.number, {})
        return self._keyed.setdefault(route.number, defaultdict(list))

    def watched(self, function: Function, label: str) -> Function:
        """Return a user's function wrapped by the guard, if there is one."""
        return function if self._watch is None else self._watch.over(function, label, self.current)

    @contextlib.contextmanager
    def watched_by(self, watch: CallGuard) -> Iterator[None]:
        """Wrap the user's functions that are bound inside this context with `watch`."""
        outer, self._watch = self._watch, watch
        try:
            yield
        finally:
            self._watch = outer

    def clear(self) -> None:
        """Discard everything; a task that failed part-way may have left output."""
        for number, sink in self._sinks.items():
            sink.clear()
            self._joined[number].clear()
        for keyed in self._keyed.values():
            keyed.clear()
        self._dead.clear()
        self._unlisted.clear()
        self.fanout_budget = _FANOUT_AT_MOST
        self.printed.seek(0)
        self.printed.truncate()

    def capturing(self) -> contextlib.AbstractContextManager[object]:
        """Collect what user code prints, to show it on the user's screen instead of in a worker's log."""
        return self._capturing()

    @contextlib.contextmanager
    def _capturing(self) -> Iterator[None]:
        outer = CapturedStream.buffer_of_task
        CapturedStream.buffer_of_task = self.printed
        try:
            yield
        finally:
            CapturedStream.buffer_of_task = outer

    @property
    def is_full(self) -> bool:
        """Return whether the output should be taken before more is added."""
        return self.fanout_budget <= 0

    def join_encoded(self) -> None:
        """Join encoded messages while they are still in the processor's cache, where joining is fastest."""
        for number, encoded in self._sinks.items():
            if encoded:
                self._joined[number].take(encoded)

    def fail(  # noqa: PLR0913 - the full record of a failure
        self,
        place: Place,
        message: Any,
        error: BaseException,
        key: Any = AT_HAND,
        *,
        origin: Origin | None = None,
        encoding: str | None = None,
    ) -> None:
        """Record a message that user code could not handle as a dead letter; processing continues.

        Args:
            place: The step that failed.
            message: What the step was given.
            error: What it raised.
            key: The key of the message; defaults to that of the current message.
            origin: Returns where the message came from; defaults to the origin of the current message.
            encoding: How `message` is encoded, if it is not a plain message.
        """
        if key is AT_HAND:
            key = self.current.key if place.keyed else None
        found = (origin or self.current.origin)()
        self.keep(
            make_letter(place, message, error, key=key, origin=found, serializer=self._serializer, encoding=encoding)
        )

    def keep(self, letter: Letter) -> None:
        """Add a dead letter unchanged."""
        self._dead.append(letter)

    def made_unlisted(self, state: str, key: Any) -> None:
        """Count a state object that was created for a key the application did not list."""
        number, first = self._unlisted.get(state) or (0, shorten(safe_repr(key)))
        self._unlisted[state] = number + 1, first

    def take_letters(self) -> list[Letter]:
        """Return the dead letters so far, and clear them."""
        letters, self._dead = self._dead, []
        return letters

    def share_out(
        self, part: int, shares: list[list[Chunk]], carrier: int, origin_of: OriginOfPacked | None = None
    ) -> None:
        """Distribute everything collected to the shares of a stage's partitions, and start again.

        Args:
            part: The part of the block that the output comes from.
            shares: One list for each partition.
            carrier: The index of the share for output that belongs to no bucket.
            origin_of: Returns where a message came from if it fails to be packed.
        """
        self.fanout_budget = _FANOUT_AT_MOST
        for number, groups in self._keyed.items():
            if groups:
                route = self._plan.routes[number]
                assert isinstance(route, StepRoute)
                self._share_out_keyed(route, groups, part, shares, partial(origin_of or _unknown, number, part))
                groups.clear()
        self.join_encoded()
        loose = shares[carrier]
        for number, joined in self._joined.items():
            if joined.lengths:
                loose.append(Chunk(number, part, len(joined.lengths), b"".join(joined.pieces), joined.lengths[:]))
                joined.clear()
        if self._dead:
            loose.append(Chunk(DEAD_LETTERS, part, len(self._dead), dump_records(self._dead)))
            self._dead.clear()
        if self._unlisted:
            loose.append(Chunk(UNLISTED_KEYS, part, 0, json.dumps(self._unlisted).encode()))
            self._unlisted.clear()
        if text := self._printed_text():
            loose.append(Chunk(PRINTED, part, 0, text.encode("utf-8", "replace")))

    def _printed_text(self) -> str:
        """Return what user code has printed, truncated if too long, and clear it."""
        if text := self.printed.getvalue():
            self.printed.seek(0)
            self.printed.truncate()
            if len(text) > _PRINTED_AT_MOST:
                text = f"{text[:_PRINTED_AT_MOST]}\n… and {len(text) - _PRINTED_AT_MOST:,} more characters"
        return text

    def _share_out_keyed(
        self,
        route: StepRoute,
        groups: dict[Any, list[Any]],
        part: int,
        shares: list[list[Chunk]],
        origin_of: OriginOfKeyed,
    ) -> None:
        """Add the messages for a state to the shares of its buckets' partitions, those of a bucket side by side."""
        by_bucket: defaultdict[int, dict[Any, list[Any]]] = defaultdict(dict)
        for bucket, key, messages in self._with_buckets(route, groups, origin_of):
            by_bucket[bucket][key] = messages
        place = self._plan.placement(route.step.state.name, len(shares))
        by_share: defaultdict[int, dict[Any, list[Any]]] = defaultdict(dict)
        marks: defaultdict[int, array[int]] = defaultdict(lambda: array("I"))
        for bucket in sorted(by_bucket):
            by_share[place(bucket)].update(by_bucket[bucket])
            marks[place(bucket)].extend((bucket, len(by_bucket[bucket])))
        for share, of_share in by_share.items():
            body, count, kept = self._packed(route, of_share, origin_of)
            if kept is not of_share:
                marks[share] = self._marks_of(route, kept)
            if count:
                shares[share].append(Chunk(route.number, part, count, body, marks[share]))

    def _marks_of(self, route: StepRoute, messages: dict[Any, list[Any]]) -> array[int]:
        """Return which buckets the keys of messages are in: pairs of a bucket and a number of keys."""
        known = self._buckets[route.number]
        marks = array("I")
        for bucket, keys in groupby(messages, known.__getitem__):
            marks.extend((bucket, len(list(keys))))
        return marks

    def _with_buckets(
        self, route: StepRoute, groups: dict[Any, list[Any]], origin_of: OriginOfKeyed
    ) -> Iterator[tuple[int, Any, list[Any]]]:
        """Yield the messages of each key with its bucket number; messages with invalid keys are recorded as failed."""
        allowed = route.step.state.keys if route.step.partition is not None else None
        known = self._buckets[route.number]
        if len(known) > _KNOWN_BUCKETS_AT_MOST:
            known.clear()
        if allowed is not None:
            letters_by_number(groups, allowed)
        for key, messages in groups.items():
            bucket = known.get(key)
            if bucket is None:
                try:
                    bucket = known[key] = self._bucket_of(route, key)
                except Exception as error:  # noqa: BLE001 - a key of the user's, or its hash
                    for index, message in enumerate(messages):
                        self._fail_packed(route, key, message, error, partial(origin_of, key, index))
                    continue
            yield bucket, key, messages

    def _bucket_of(self, route: StepRoute, key: Any) -> int:
        """Return the bucket of a key, or raise an error that describes what is wrong with the key."""
        state = route.step.state
        if route.step.partition is not None:
            if self._plan.strict_keys and state.keys is not None and key not in state.keys:
                raise UnknownKeyError(
                    f"the partition function returned the key {shorten(safe_repr(key))}, which is not among the "
                    f"{plural(len(state.keys), 'partition key')} of state {state.name!r}"
                )
            if state.u64 and not (isinstance(key, int) and 0 <= key < 1 << 64):
                raise UnknownKeyError(
                    f"the partition function returned the key {shorten(safe_repr(key))}; "
                    "to_state_partition_u64 takes whole numbers from 0 to 2**64 - 1"
                )
        number = route.layout.buckets
        return stable_hash(key) % number if number > 1 else 0

    def _packed(
        self, route: StepRoute, messages: dict[Any, list[Any]], origin_of: OriginOfKeyed
    ) -> tuple[bytes, int, dict[Any, list[Any]]]:
        """Return pickled messages, their number and the messages themselves; those that cannot be pickled fail."""
        try:
            body = self._serializer.dump_plain_messages(messages)
            if body is None and set(map(type, chain.from_iterable(messages.values()))) <= self._travelled:
                body = self._serializer.dump_messages(messages)
            if body is not None:
                return body, sum(map(len, messages.values())), messages
        except Exception:  # noqa: BLE001, S110 - the messages at fault are found one by one below
            pass
        good: dict[Any, list[Any]] = {}
        for key, some in messages.items():
            for index, message in enumerate(some):
                try:
                    self.try_travel(key, message)
                except USER_ERRORS as cause:
                    self._travelled.discard(type(message))
                    error = NotPicklableError(f"the message cannot be sent to the worker of its key: {cause}")
                    self._fail_packed(route, key, message, error, partial(origin_of, key, index))
                else:
                    self._travelled.add(type(message))
                    good.setdefault(key, []).append(message)
        return self._serializer.dump_messages(good), sum(map(len, good.values())), good

    def try_travel(self, key: Any, message: Any) -> None:
        """Raise the error that keeps a message from reaching another worker.

        An object may be pickled and then fail to be unpickled, which the receiver could not handle.
        """
        self._serializer.load_messages(self._serializer.dump_messages({key: [message]}))

    def _fail_packed(self, route: StepRoute, key: Any, message: Any, error: BaseException, origin: Origin) -> None:
        self.fail(Place.of_step(route.pipeline, route.index), message, error, key, origin=origin)


class _Joined:
    """Encoded messages for a sink, joined into larger pieces."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.lengths = array("I")

    def take(self, encoded: list[bytes]) -> None:
        """Join the messages of a list into a piece, and clear the list."""
        self.pieces.append(b"".join(encoded))
        self.lengths.extend(map(len, encoded))
        encoded.clear()

    def clear(self) -> None:
        self.pieces.clear()
        del self.lengths[:]


def letters_by_number(groups: dict[Any, list[Any]], allowed: frozenset[Any]) -> None:
    """Regroup messages keyed by a listed letter's number under that letter, as some of the original's releases did."""
    for key in [key for key in groups if type(key) is int and key not in allowed and 0 <= key <= sys.maxunicode]:
        if chr(key) in allowed:
            groups.setdefault(chr(key), []).extend(groups.pop(key))


def _unknown(_route: int, _part: int, _key: Any, _index: int) -> dict[str, Any]:
    return {}
