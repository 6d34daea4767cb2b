"""The offsets of a topic: what the brokers say about its partitions, and where they were first read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition, admin
from confluent_kafka.admin import AdminClient

from wallaroo.files import write_atomically

_ANSWER_SECONDS = 5.0
_FIRST_OFFSETS = "starts.json"
_OFFSETS: Any = admin.OffsetSpec  # type: ignore[attr-defined]
_EARLIEST, _LATEST = _OFFSETS.earliest(), _OFFSETS.latest()


class TopicOffsets:
    """The offsets of a topic. Every method raises KafkaException if the brokers do not answer, or refuse."""

    def __init__(self, settings: Mapping[str, Any], topic: str) -> None:
        given: dict[str, Any] = {**settings, "error_cb": _ignore}
        self._client = AdminClient(given)
        self._topic = topic
        self._number = 0
        """How many partitions the client knows; 0 if what it knows may be out of date."""

    def partitions(self, consumer: Consumer) -> list[int]:
        """Return the numbers of the partitions."""
        found = consumer.list_topics(self._topic, timeout=_ANSWER_SECONDS).topics[self._topic]
        if found.error is not None:
            raise KafkaException(found.error)
        if not found.partitions:
            raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
        if len(found.partitions) != self._number:
            self._refresh()
            self._number = len(found.partitions)
        return sorted(found.partitions)

    def _refresh(self) -> None:
        """Have the client ask for the leaders of partitions: its requests for offsets find them in what it knows."""
        self._client.list_topics(self._topic, timeout=_ANSWER_SECONDS)

    def earliest(self, lanes: Iterable[int]) -> dict[int, int]:
        """Return the first offset of each partition that has not been removed."""
        return self._ask(lanes, _EARLIEST)

    def latest(self, lanes: Iterable[int]) -> dict[int, int]:
        """Return the offset after the last one of each partition that can be read: open transactions are left out."""
        return self._ask(lanes, _LATEST)

    def starting(self, lanes: Iterable[int], start: str | datetime) -> dict[int, int]:
        """Return where to start: at "earliest", at "latest", or with the first message from a time on."""
        lanes = list(lanes)
        if start == "earliest":
            return self.earliest(lanes)
        latest = self.latest(lanes)
        if not isinstance(start, datetime):
            return latest
        found = self._ask(lanes, _OFFSETS.for_timestamp(int(start.timestamp() * 1000)))
        # A negative one means that there is none so far.
        return {lane: offset if offset >= 0 else latest[lane] for lane, offset in found.items()}

    def _ask(self, lanes: Iterable[int], spec: Any) -> dict[int, int]:
        wanted = {TopicPartition(self._topic, lane): spec for lane in lanes}
        if not wanted:
            return {}
        try:
            return self._answers(wanted)
        except KafkaException:
            # It does not find out by itself that a partition has another leader, or the same one elected again.
            self._number = 0
            self._refresh()
            return self._answers(wanted)

    def _answers(self, wanted: dict[TopicPartition, Any]) -> dict[int, int]:
        answers = self._client.list_offsets(
            wanted, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=_ANSWER_SECONDS
        )
        return {each.partition: int(answer.result().offset) for each, answer in answers.items()}


def _ignore(_error: KafkaError) -> None:
    """Ignore errors of the connection: each request reports its own."""


class FirstOffsets:
    """Where the partitions of a topic were first read, so that a restart before the first commit starts there again.

    The offsets are in a file in the folder of a source.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> first = FirstOffsets(folder, "words")
    >>> first.is_first
    True
    >>> first.add({0: 17})
    >>> FirstOffsets(folder, "words").offsets, FirstOffsets(folder, "lines").recorded_topic
    ({0: 17}, 'words')
    """

    def __init__(self, directory: Path, topic: str) -> None:
        self._path = directory / _FIRST_OFFSETS
        self._topic = topic
        self.is_first = not self._path.exists()
        """Whether nothing was ever read here."""
        stored: Mapping[str, Any] = {} if self.is_first else json.loads(self._path.read_text())
        self.recorded_topic: str = stored.get("topic", topic)
        """The topic whose offsets these are."""
        self.offsets = {int(lane): int(offset) for lane, offset in stored.get("offsets", {}).items()}

    def add(self, offsets: Mapping[int, int]) -> None:
        """Record further ones; they are on the disk when this returns."""
        self.offsets.update(offsets)
        write_atomically(self._path, json.dumps({"topic": self._topic, "offsets": self.offsets}))
        self.is_first = False
