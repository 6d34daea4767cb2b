"""A broker that disappears and returns, with a topic that the application reads, and one that it writes."""

from __future__ import annotations

import contextlib
import itertools
import random
import threading
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
    admin,
)
from tests.system.harness import PATIENCE, Machida

from .oracle import Sent, Verdict, judge_topic
from .outside import Connection, Frozen, Later, Outside
from .schedule import PIPELINE, Fault, Strike

if TYPE_CHECKING:
    from tools.kafka_broker import Broker

_IN, _OUT = "in", "out"
_LANES = 4
_OUT_PARTITIONS = 3
_SENDER_TRANSACTION_MS = 4000
"""A sender that dies leaves its transaction open; until that has ended, later messages are not delivered."""
_ANSWER_SECONDS = 2.0
_LATEST: Any = admin.OffsetSpec.latest()  # type: ignore[attr-defined]


class KafkaOutside(Outside):
    """Topics of a broker that was made for one schedule."""

    lanes = _LANES

    def __init__(self, broker: Broker, seed: int) -> None:
        self._broker = broker
        self._choose = random.Random(f"kafka senders {seed}")
        self._numbers = itertools.count()
        # The broker goes with the thread that has started it, so it is always the same one.
        self._keeper = ThreadPoolExecutor(1)
        self._keeper.submit(broker.start).result()
        broker.create_topic(_IN, _LANES)
        broker.create_topic(_OUT, _OUT_PARTITIONS)
        self._seen = _Seen(broker)

    @property
    def sink(self) -> str:
        """Return the address of the topic."""
        return f"kafka://{self._broker.address}/{_OUT}"

    @property
    def arguments(self) -> list[str]:
        """Return the topics, and where the broker is."""
        at = self._broker.address
        source = ["--kafka_source_topic", _IN, "--kafka_source_brokers", at]
        return [*source, "--kafka_sink_topic", _OUT, "--kafka_sink_brokers", at]

    def connect(self, run: Machida, lane: int) -> Connection | None:
        """Return a producer for one partition, with a transaction or without."""
        name = f"sender-{next(self._numbers)}" if self._choose.random() < 0.3 else None
        return _KafkaConnection(self._broker, lane, name)

    def take_note(self, home: Path) -> None:
        """Do nothing: whatever happened before, nothing may be repeated."""

    @property
    def size(self) -> int:
        """Return how many bytes of committed outputs have been read."""
        return self._seen.size

    def latest(self, size: int) -> bytes:
        """Return the committed outputs of each partition that were read last."""
        return self._seen.latest(size)

    def catch_sending(self) -> None:
        """Do nothing: a transaction that is open can be seen."""

    @property
    def is_behind(self) -> bool:
        """Return whether a transaction is open, and has outputs already."""
        try:
            return self._ends(IsolationLevel.READ_UNCOMMITTED) != self._ends(IsolationLevel.READ_COMMITTED)
        except KafkaException:
            self._broker.replace_admin()
            return False  # The broker is away just now.

    def let_go(self) -> None:
        """Do nothing."""

    def _ends(self, level: IsolationLevel) -> list[int]:
        wanted = {TopicPartition(_OUT, number): _LATEST for number in range(_OUT_PARTITIONS)}
        answers = self._broker.admin.list_offsets(wanted, isolation_level=level, request_timeout=_ANSWER_SECONDS)
        return [answer.result().offset for answer in answers.values()]

    def strike(self, strike: Strike, later: Later, frozen: Frozen) -> bool:
        """Stop the broker for a while, or let a member join the group that shows the source's lag."""
        if strike.fault is Fault.JOIN_GROUP:
            member = _Member(self._broker)
            later(strike.seconds, member.leave)
            return True
        if self._broker.pid is None:
            return False
        if strike.fault is Fault.FREEZE_BROKER:
            process = psutil.Process(self._broker.pid)
            process.suspend()
            later(strike.seconds, lambda: _resume(process))
        else:
            # One that is frozen ends only after it is resumed.
            self._keeper.submit(self._broker.stop if strike.fault is Fault.STOP_BROKER else self._broker.kill).result()
            later(strike.seconds, lambda: self._keeper.submit(self._broker.start).result())
        return True

    def wait_for_the_end(self) -> None:
        """Do nothing: an application that has ended well has committed everything."""

    def judge(self, sent: Mapping[str, Sent]) -> Verdict:
        """Judge what a consumer of committed messages finds in the topic, and what one has found all the time."""
        found = defaultdict(list)
        for message in self._broker.consume(_OUT):
            found[message.partition()].append(((message.key() or b"").decode(), message.value()))
        self._seen.read_all(sum(map(len, found.values())))
        return judge_topic(sent, found, self._seen.values)

    def clean_up(self) -> None:
        """End everything."""
        self._seen.close()
        self._keeper.submit(self._broker.clean_up).result()
        self._keeper.shutdown()


class _KafkaConnection:
    """A producer for one partition; if it gives up, any number of its first messages may have been written."""

    def __init__(self, broker: Broker, lane: int, transaction: str | None) -> None:
        self._lane = lane
        self._transaction = transaction
        self._failed: list[KafkaError] = []
        settings = {"linger.ms": 2, "enable.idempotence": True, "on_delivery": self._note}
        if transaction is not None:
            settings |= {"transactional.id": transaction, "transaction.timeout.ms": _SENDER_TRANSACTION_MS}
        else:
            settings["message.timeout.ms"] = 0
        self._producer = Producer({**broker.client(), **settings})

    def _note(self, error: KafkaError | None, _message: object) -> None:
        if error is not None:
            self._failed.append(error)

    def send(self, messages: list[bytes], choose: random.Random) -> bool:
        """Write all messages; they are accepted when the broker has acknowledged them, or the transaction."""
        try:
            self._produce(messages)
            if self._producer.flush(PATIENCE):
                raise TimeoutError("the broker does not take messages")
            if self._transaction is not None:
                self._producer.commit_transaction(PATIENCE)
        except KafkaException:
            # The broker went away, and has ended the transaction or not.
            self._end()
            return False
        return not self._failed

    def die(self, messages: list[bytes], choose: random.Random) -> None:
        """Write some messages, and go without waiting for an answer."""
        with contextlib.suppress(KafkaException):
            self._produce(messages[: choose.randrange(len(messages) + 1)])
            self._producer.poll(choose.uniform(0, 0.05))
        self._producer.purge()

    def _produce(self, messages: list[bytes]) -> None:
        if self._transaction is not None:
            self._producer.init_transactions(PATIENCE)
            self._producer.begin_transaction()
        for message in messages:
            self._producer.produce(_IN, message, partition=self._lane)

    def _end(self) -> None:
        with contextlib.suppress(KafkaException):
            self._producer.abort_transaction(_ANSWER_SECONDS)
        self._producer.purge()


class _Seen:
    """A consumer of committed messages that is there all the time, and keeps what it reads."""

    def __init__(self, broker: Broker) -> None:
        self.values: dict[int, list[bytes]] = {number: [] for number in range(_OUT_PARTITIONS)}
        self.size = 0
        self._lock = threading.Condition()
        self._ending = threading.Event()
        self._settings = broker.client(
            group_id="seen", enable_auto_commit=False, auto_offset_reset="error", fetch_wait_max_ms=20
        )
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        consumer = Consumer(self._settings)
        following = dict.fromkeys(self.values, OFFSET_BEGINNING)
        consumer.assign([TopicPartition(_OUT, *each) for each in following.items()])
        while not self._ending.is_set():
            for message in consumer.consume(1000, 0.05):
                if (error := message.error()) is None:
                    self._keep(message.partition(), message.value())
                    following[message.partition()] = message.offset() + 1
                elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                    # A broker that has just started may not know its newest messages yet.
                    consumer.assign([TopicPartition(_OUT, *each) for each in following.items()])
                    break
                # What else a consumer reports, such as a missing broker, passes by itself.
        consumer.close()

    def _keep(self, partition: int, value: bytes) -> None:
        with self._lock:
            self.values[partition].append(value)
            self.size += len(value)
            self._lock.notify_all()

    def latest(self, size: int) -> bytes:
        """Return the last lines of all partitions."""
        with self._lock:
            # A line has some twenty bytes.
            return b"\n".join(b"\n".join(values[-size // 60 :]) for values in self.values.values())

    def read_all(self, number: int) -> None:
        """Wait until so many messages have been read."""
        with self._lock:
            self._lock.wait_for(lambda: sum(map(len, self.values.values())) >= number, PATIENCE)

    def close(self) -> None:
        """End."""
        self._ending.set()
        self._thread.join(PATIENCE)


class _Member:
    """A consumer that joins the group with which tools find out how far the application is, and commits in it."""

    def __init__(self, broker: Broker) -> None:
        self._leaving = threading.Event()
        self._consumer = Consumer(
            broker.client(group_id=PIPELINE, auto_offset_reset="earliest", auto_commit_interval_ms=200)
        )
        self._consumer.subscribe([_IN])
        self._thread = threading.Thread(target=self._consume, daemon=True)
        self._thread.start()

    def _consume(self) -> None:
        while not self._leaving.is_set():
            self._consumer.consume(1000, 0.1)
        self._consumer.close()

    def leave(self) -> None:
        """Leave the group."""
        self._leaving.set()
        self._thread.join(PATIENCE)


def _resume(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.resume()
