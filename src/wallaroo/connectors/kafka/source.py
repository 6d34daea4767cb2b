"""The half of a Kafka source that runs in the ingress: looks for new offsets, and announces them.

The messages stay in Kafka. A consumer in a thread of its own serves as a doorbell: it has all partitions assigned, with
tiny fetches, and waits at their ends. When something arrives, the thread finds out how far the partition reaches, and
announces that. So an idle topic costs nothing, and a busy one a request for thousands of messages.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from wallaroo.connectors.base import Intake
from wallaroo.connectors.kafka.offsets import FirstOffsets, TopicOffsets
from wallaroo.connectors.kafka.settings import client_settings, servers
from wallaroo.errors import ApplicationError
from wallaroo.notices import REPORT_AGAIN_SECONDS, Condition, Notice

if TYPE_CHECKING:
    from wallaroo.connectors.base import IntakeContext, SourceRanges
    from wallaroo.connectors.kafka.config import KafkaSourceConfig

_RANGE_BYTES = 512 << 10
_RANGE_MESSAGES = 20_000
_GONE_AT_ONCE = 1_000_000
_BACKLOG_BYTES = 64 << 20
"""How far announcements run ahead of the engine: all others are found later just as well."""
_POLL_SECONDS = 0.5
_PAUSE_SECONDS = 0.002
"""Between two announcements: each costs a request, and blocks are cut a few milliseconds apart anyway."""
_LOOK_SECONDS = 5.0
"""How often new partitions are looked for, and messages that were removed."""
_COMMIT_SECONDS = 1.0
_WEIGHT = 0.05
"""Of a new sample in the average size of messages."""

_SETTINGS = {
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    # Tiny, but enough for a message or two of each partition: with less, an answer has those of one partition only, and
    # the others wait as long as that one is busy.
    "max.partition.fetch.bytes": 4096,
    "queued.min.messages": 1,
    "fetch.queue.backoff.ms": 1,
    "fetch.wait.max.ms": 500,
}


class KafkaIntake(Intake):
    """Announces what arrives in a topic, each partition as a lane."""

    def __init__(
        self, config: KafkaSourceConfig, place: Mapping[str, Any], ranges: SourceRanges, context: IntakeContext
    ) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watch = _TopicWatch(config, place, ranges, context, self._in_loop)
        self._thread = threading.Thread(target=self._watch.run, name=f"kafka-{config.topic}", daemon=True)

    @property
    def connections(self) -> int:
        """Return 0: there are no senders."""
        return 0

    async def start(self) -> None:
        """Start looking for messages; brokers that are not there yet are waited for.

        Raises:
            ApplicationError: The positions that are kept for this pipeline are those of another source.
        """
        self._watch.check_positions()
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def hold(self) -> None:
        """Do nothing: the thread checks the source."""

    def release(self) -> None:
        """Do nothing: the thread checks the source."""

    async def drain(self) -> None:
        """Announce no more; what is not announced stays in Kafka."""
        self.close()
        if self._thread.ident is not None:
            await asyncio.to_thread(self._thread.join)
        # What the thread has handed over last.
        await asyncio.sleep(0)

    def close(self) -> None:
        """Stop, without waiting for it."""
        self._watch.stop()

    def _in_loop(self, call: Any, *arguments: Any) -> None:
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # The loop has ended.
            self._loop.call_soon_threadsafe(call, *arguments)


class _TopicWatch:
    """Watches a topic; everything but `stop` runs in one thread."""

    def __init__(
        self,
        config: KafkaSourceConfig,
        place: Mapping[str, Any],
        ranges: SourceRanges,
        context: IntakeContext,
        in_loop: Any,
    ) -> None:
        self._topic: str = place["topic"]
        self._start = config.start
        self._group = config.group or ranges.name
        self._common = client_settings(config, place["brokers"])
        self._ranges = ranges
        self._in_loop = in_loop
        self._stopping = threading.Event()
        self._where = f"the topic {self._topic!r} at {servers(place['brokers'])}"
        self._notice: Notice = partial(in_loop, context.notice)
        self._away = Condition(self._notice, interval=REPORT_AGAIN_SECONDS)
        self._uncommitted = Condition(self._notice, interval=REPORT_AGAIN_SECONDS)
        self._offsets = TopicOffsets(self._common, self._topic)
        self._next: dict[int, int] = {}
        """The offset of the next message to announce, by partition."""
        self._watched: set[int] = set()
        """The partitions that the consumer waits at."""
        self._sizes: dict[int, float] = {}
        """The average size of messages, by partition."""
        self._shown: dict[int, int] = {}
        """What was last committed to the group."""
        self._look_at = self._commit_at = 0.0

    def check_positions(self) -> None:
        """Raise an error if the positions that are kept are those of another topic, or of no topic at all."""
        first = FirstOffsets(self._ranges.directory, self._topic)
        if first.is_first and not self._ranges.lanes:
            return
        if first.is_first or first.recorded_topic != self._topic:
            before = "another source" if first.is_first else f"the topic {first.recorded_topic!r}"
            raise ApplicationError(
                f"Pipeline {self._ranges.name!r} has read {before}, and now {self._topic!r}: the positions that are "
                "kept for it mean nothing there. Give the pipeline another name; or start fresh with --reset, which "
                "keeps what is there in a folder of its own."
            )

    def stop(self) -> None:
        """End the thread soon."""
        self._stopping.set()

    def run(self) -> None:
        """Watch until stopped."""
        settings = {**self._common, **_SETTINGS, "group.id": self._group, "error_cb": self._client_error}
        bell = Consumer({**settings, "on_commit": self._on_commit})
        try:
            while not self._stopping.is_set():
                try:
                    self._turn(bell)
                except KafkaException as error:
                    self._report(error.args[0])
                    self._stopping.wait(_POLL_SECONDS)
        finally:
            self._show_committed(bell)
            bell.close()

    def _turn(self, bell: Consumer) -> None:
        now = time.monotonic()
        if now >= self._look_at:
            self._look(bell)
            self._look_at = now + _LOOK_SECONDS
        if now >= self._commit_at:
            self._show_committed(bell)
            self._commit_at = now + _COMMIT_SECONDS
        if self._ranges.held_back or self._ranges.backlog_bytes > _BACKLOG_BYTES:
            self._stopping.wait(_PAUSE_SECONDS * 5)
            return
        reached = self._rung(bell)
        if reached:
            self._announce(bell, reached)
            self._stopping.wait(_PAUSE_SECONDS)

    def _look(self, bell: Consumer) -> None:
        """Look for new partitions, and for messages that were removed before they were announced."""
        partitions = self._offsets.partitions(bell)
        if new := [lane for lane in partitions if lane not in self._next]:
            self._next.update(self._positions(new))
        for lane, earliest in self._offsets.earliest(self._next).items():
            if earliest > self._next[lane]:
                self._announce_gone(lane, earliest)
                if lane in self._watched:
                    # The client may refuse to seek: it has stopped where it found nothing, or has not started yet.
                    bell.incremental_unassign([TopicPartition(self._topic, lane)])
                    self._watched.discard(lane)
        if unwatched := [lane for lane in self._next if lane not in self._watched]:
            bell.incremental_assign([TopicPartition(self._topic, lane, self._next[lane]) for lane in unwatched])
            self._watched.update(unwatched)
        self._away.end(f"Reading {self._where} again.")

    def _positions(self, lanes: list[int]) -> dict[int, int]:
        """Return where to start in partitions: after what is known of them, or where the user wants to start."""
        known = {lane: end for lane in lanes if (end := self._ranges.end_of(lane)) is not None}
        first = FirstOffsets(self._ranges.directory, self._topic)
        if missing := [lane for lane in lanes if lane not in known and lane not in first.offsets]:
            # A partition that is added later is read from its beginning: its messages are all new.
            start = self._start if first.is_first and not known else "earliest"
            first.add(self._offsets.starting(missing, start))
        return {lane: max(known.get(lane, 0), first.offsets.get(lane, 0)) for lane in lanes}

    def _rung(self, bell: Consumer) -> dict[int, int]:
        """Wait for messages for a while; return for each partition that has some up to where they are known."""
        first = bell.poll(_POLL_SECONDS)
        if first is None:
            return {}
        reached: dict[int, int] = {}
        for message in (first, *bell.consume(10_000, 0)):
            error = message.error()
            if error is not None:
                if error.code() != KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001 - its public name
                    self._report(error)
                self._look_at = 0.0
                continue
            lane, offset = message.partition(), message.offset()
            assert lane is not None
            assert offset is not None
            reached[lane] = offset + 1
            self._sample(lane, message)
        return reached

    def _sample(self, lane: int, message: Message) -> None:
        size = len(message.value() or b"") + len(message.key() or b"")
        average = self._sizes.setdefault(lane, size)
        # Large messages count at once: a range of too many of them would take much memory.
        self._sizes[lane] = max(size / 4, average + _WEIGHT * (size - average))

    def _announce(self, bell: Consumer, reached: dict[int, int]) -> None:
        """Announce the messages of partitions, as far as they can be read."""
        unsure = [lane for lane, end in reached.items() if self._cached_end(bell, lane) > end]
        try:
            latest = self._offsets.latest(unsure)
        except KafkaException as error:
            # The bell does not ring again for what it has returned, so that is announced at least.
            self._report(error.args[0])
            self._look_at, unsure, latest = 0.0, [], {}
        for lane, end in reached.items():
            self._announce_lane(lane, max(end, latest.get(lane, 0)))
        for lane in unsure:
            bell.seek(TopicPartition(self._topic, lane, self._next[lane]))

    def _cached_end(self, bell: Consumer, lane: int) -> int:
        _, end = bell.get_watermark_offsets(TopicPartition(self._topic, lane), cached=True)
        return int(end)

    def _announce_lane(self, lane: int, end: int) -> None:
        size = max(self._sizes[lane], 1.0)
        at_once = max(1, min(_RANGE_MESSAGES, int(_RANGE_BYTES / size)))
        while self._next[lane] < end:
            first = self._next[lane]
            last = self._next[lane] = min(end, first + at_once)
            self._in_loop(self._ranges.announced, first, last, int((last - first) * size), lane)
            if self._stopping.is_set():
                return

    def _announce_gone(self, lane: int, earliest: int) -> None:
        """Announce messages that are gone: whether to continue without them is decided where they are read."""
        self._notice(
            f"The messages {self._next[lane]} to {earliest - 1} of partition {lane} of {self._where} were removed "
            "(retention) before they were read."
        )
        while self._next[lane] < earliest:
            first = self._next[lane]
            self._next[lane] = min(earliest, first + _GONE_AT_ONCE)
            self._in_loop(self._ranges.announced, first, self._next[lane], 0, lane)

    def _show_committed(self, bell: Consumer) -> None:
        """Commit to the group what is committed here, for tools that show how far a group is."""
        now = {lane: end for lane in self._next if (end := self._ranges.committed_of(lane)) is not None}
        news = [TopicPartition(self._topic, lane, end) for lane, end in now.items() if self._shown.get(lane) != end]
        if news:
            with contextlib.suppress(KafkaException):
                if self._stopping.is_set():
                    bell.commit(offsets=news, asynchronous=False)
                else:
                    bell.commit(offsets=news)
            self._shown.update(now)

    def _on_commit(self, error: KafkaError | None, _partitions: list[TopicPartition]) -> None:
        if error is None:
            self._uncommitted.end(f"The offsets of the group {self._group!r} are up to date again.")
        else:
            self._uncommitted.begin(
                f"The offsets of the consumer group {self._group!r} could not be brought up to date "
                f"({error.str()}): others may be members of it. Only tools that show them are affected."
            )

    def _client_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN or error.code() == KafkaError._AUTHENTICATION:  # noqa: SLF001
            self._report(error)
            self._look_at = 0.0

    def _report(self, error: KafkaError) -> None:
        """Report why the topic cannot be read for now."""
        self._away.begin(f"Waiting for {self._where}: {_reason(error)}; retrying until it can be read.")


def _reason(error: KafkaError) -> str:
    reasons = {
        KafkaError.UNKNOWN_TOPIC_OR_PART: "it does not exist",
        KafkaError._UNKNOWN_TOPIC: "it does not exist",  # noqa: SLF001
        KafkaError.TOPIC_AUTHORIZATION_FAILED: "the brokers do not allow this user to read it",
        KafkaError.GROUP_AUTHORIZATION_FAILED: "the brokers do not allow this user to use the group",
        KafkaError._ALL_BROKERS_DOWN: "no broker answers",  # noqa: SLF001
        KafkaError._TRANSPORT: "no broker answers",  # noqa: SLF001
        KafkaError._TIMED_OUT: "no broker answers",  # noqa: SLF001
        KafkaError.LEADER_NOT_AVAILABLE: "a partition has no leader",
    }
    return reasons.get(error.code()) or error.str()
