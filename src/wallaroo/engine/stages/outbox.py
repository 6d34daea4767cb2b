"""What a task has put out so far: messages for later states, bytes for sinks, dead letters, printed text.

Steps push into an outbox message by message; the task takes its content as chunks, many messages each.
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
from wallaroo.engine.stages.captured_output import CapturedStream
from wallaroo.engine.stages.crash_guard import CallGuard, Function
from wallaroo.engine.stages.current_message import CurrentMessage, Origin
from wallaroo.engine.transport.buckets import stable_hash
from wallaroo.engine.transport.chunks import DEAD_LETTERS, PRINTED, UNLISTED_KEYS, Chunk
from wallaroo.engine.transport.dead_letter_record import Letter, Place, dump_records, make_letter, safe_repr, shorten

_PRINTED_AT_MOST = 64 * 1024
_KNOWN_BUCKETS_AT_MOST = 1_000_000
_FANOUT_AT_MOST = 100_000

OriginOfPacked = Callable[[int, int, Any, int], dict[str, Any]]
"""Says where a message for a state came from, by its route, part, key and place among the messages of the key."""
OriginOfKeyed = Callable[[Any, int], dict[str, Any]]
"""The same for messages of one route and part."""


AT_HAND: Any = object()
"""Stands for the key of the message at hand, where such messages have one."""

USER_ERRORS = (Exception, SystemExit)
"""What user code may raise without ending the worker: a program that was a script once may still call `sys.exit`."""


class NotPicklableError(Exception):
    """A message cannot travel to another worker, or a state cannot be saved."""


class UnknownKeyError(Exception):
    """A partition function returned a key that its state cannot have."""


class Outbox:
    """Collects the output of one task at a time; made once in a worker process and used for task after task."""

    def __init__(self, plan: Plan, watch: CallGuard | None = None) -> None:
        self._plan = plan
        self.current = CurrentMessage()
        self._watch = watch
        """Stands in front of all user code, where a process has died at it."""
        self._serializer = plan.serializer
        self._sinks: dict[int, list[bytes]] = {}
        self._joined: dict[int, _Joined] = {}
        self._keyed: dict[int, defaultdict[Any, list[Any]]] = {}
        self._buckets: dict[int, dict[Any, int]] = {}
        self._dead: list[Letter] = []
        self._unlisted: dict[str, tuple[int, str]] = {}
        """By state, how many objects were made for keys that were not listed, and the first of these keys."""
        self._travelled: set[type] = set()
        """Classes of messages that have been seen to survive the way to another worker."""
        self.fanout_budget = _FANOUT_AT_MOST
        """How many messages may still come out of steps that make many of one, whose generated loops count it down."""
        self.printed = io.StringIO()

    def sink(self, route: SinkRoute) -> list[bytes]:
        """Return the list that takes the encoded messages for a sink."""
        self._joined.setdefault(route.number, _Joined())
        return self._sinks.setdefault(route.number, [])

    def keyed(self, route: StepRoute) -> defaultdict[Any, list[Any]]:
        """Return the lists, one for each key, that take the messages for a state step."""
        self._buckets.setdefault(route.number, {})
        return self._keyed.setdefault(route.number, defaultdict(list))

    def watched(self, function: Function, label: str) -> Function:
        """Return a function of the user's as it is to be called."""
        return function if self._watch is None else self._watch.over(function, label, self.current)

    @contextlib.contextmanager
    def watched_by(self, watch: CallGuard) -> Iterator[None]:
        """Have `watch` in front of the user's functions that are bound meanwhile."""
        outer, self._watch = self._watch, watch
        try:
            yield
        finally:
            self._watch = outer

    def clear(self) -> None:
        """Forget everything; a task that failed half-way may have left something."""
        for number, sink in self._sinks.items():
            sink.clear()
            self._joined[number].clear()
        for keyed in self._keyed.values():
            keyed.clear()
        self._dead.clear()
        self._unlisted.clear()
        self.fanout_budget = _FANOUT_AT_MOST
        self.current.key = None
        self.printed.seek(0)
        self.printed.truncate()

    def capturing(self) -> contextlib.AbstractContextManager[object]:
        """Collect what user code prints, to be shown on the user's screen instead of a worker's log."""
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
        """Tell whether what there is should be taken before more comes."""
        return self.fanout_budget <= 0

    def join_encoded(self) -> None:
        """Put what is encoded together while it is fresh: what has left the processor's cache takes longer to find."""
        for number, encoded in self._sinks.items():
            if encoded:
                self._joined[number].take(encoded)

    def fail(  # noqa: PLR0913 - all there is to know
        self,
        place: Place,
        message: Any,
        error: BaseException,
        key: Any = AT_HAND,
        *,
        origin: Origin | None = None,
        encoding: str | None = None,
    ) -> None:
        """Record a message that user code could not handle; it becomes a dead letter, and work goes on.

        Args:
            place: The step that failed.
            message: What the step was given.
            error: What it raised.
            key: The key of the message; where it is left out, that of the message at hand.
            origin: Says where the message came from; where it is left out, it is the one at hand.
            encoding: What `message` is, where it is not just a message.
        """
        if key is AT_HAND:
            key = self.current.key if place.keyed else None
        found = (origin or self.current.origin)()
        self.keep(
            make_letter(place, message, error, key=key, origin=found, serializer=self._serializer, encoding=encoding)
        )

    def keep(self, letter: Letter) -> None:
        """Take a dead letter as it is."""
        self._dead.append(letter)

    def made_unlisted(self, state: str, key: Any) -> None:
        """Take note that a state was made for a key that the application had not listed."""
        number, first = self._unlisted.get(state) or (0, shorten(safe_repr(key)))
        self._unlisted[state] = number + 1, first

    def take_letters(self) -> list[Letter]:
        """Return the dead letters so far, and forget them."""
        letters, self._dead = self._dead, []
        return letters

    def share_out(
        self, part: int, shares: list[list[Chunk]], carrier: int, origin_of: OriginOfPacked | None = None
    ) -> None:
        """Put everything collected into the shares of a stage's partitions, and start again.

        Args:
            part: Where in the block it comes from.
            shares: One list for each partition.
            carrier: The share for what has no bucket to go to.
            origin_of: Says where a message came from that fails when it is packed.
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
        """Return what user code has printed, if not too much, and forget it."""
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
        """Put the messages for a state into the shares of its buckets' partitions, those of a bucket side by side."""
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
        """Yield the messages of each key with the number of its bucket; those of impossible keys have failed."""
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
        """Return the bucket of a key, or raise what is wrong with the key."""
        state = route.step.state
        if route.step.partition is not None:
            if self._plan.strict_keys and state.keys is not None and key not in state.keys:
                raise UnknownKeyError(
                    f"the partition function returned the key {shorten(safe_repr(key))}, which is not among the "
                    f"{len(state.keys)} partition keys of state {state.name!r}"
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
        """Return messages as bytes with their number, and which they are; those that cannot travel have failed."""
        try:
            body = self._serializer.dump_plain_messages(messages)
            if body is None and set(map(type, chain.from_iterable(messages.values()))) <= self._travelled:
                body = self._serializer.dump_messages(messages)
            if body is not None:
                return body, sum(map(len, messages.values())), messages
        except Exception:  # noqa: BLE001, S110 - the culprits are found one by one, below
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
        """Raise what keeps a message from reaching another worker.

        A class may well be pickled and fail to come back, which the other side could not undo.
        """
        self._serializer.load_messages(self._serializer.dump_messages({key: [message]}))

    def _fail_packed(self, route: StepRoute, key: Any, message: Any, error: BaseException, origin: Origin) -> None:
        self.fail(Place.of_step(route.pipeline, route.index), message, error, key, origin=origin)


class _Joined:
    """Encoded messages for a sink, many in a piece."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.lengths = array("I")

    def take(self, encoded: list[bytes]) -> None:
        """Take what is in a list, and clear it."""
        self.pieces.append(b"".join(encoded))
        self.lengths.extend(map(len, encoded))
        encoded.clear()

    def clear(self) -> None:
        self.pieces.clear()
        del self.lengths[:]


def letters_by_number(groups: dict[Any, list[Any]], allowed: frozenset[Any]) -> None:
    """Put messages whose key is the number of a listed letter to that letter, as some releases of the original did."""
    for key in [key for key in groups if type(key) is int and key not in allowed and 0 <= key <= sys.maxunicode]:
        if chr(key) in allowed:
            groups.setdefault(chr(key), []).extend(groups.pop(key))


def _unknown(_route: int, _part: int, _key: Any, _index: int) -> dict[str, Any]:
    return {}
