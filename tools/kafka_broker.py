"""A Kafka broker of one node, real and on loopback, for tests, the demo and the benchmarks; only Python is needed.

broker = Broker(folder).start()
topic = broker.create_topic("words", partitions=3)
broker.produce(topic, [b"plain", {"value": b"with a key", "key": b"k", "partition": 1}])
[message.value() for message in broker.consume(topic, 2)]
broker.kill()       # as kill -9 does; stop() is SIGTERM
broker.start()      # the same address, the same data
broker.clean_up()
"""

import base64
import itertools
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import psutil
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from tools.free_port import free_port
from tools.ivy import java
from tools.kafka_jars import jars

from wallaroo import process_guard

PATIENCE = 240
"""How long anything may take on a machine that is busy with other things."""

_FLAGS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # A test that forgets to create a topic is to fail; one about a missing topic needs it missing.
    "auto.create.topics.enable": "false",
    "num.network.threads": "2",
    "num.io.threads": "2",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    # After a crash, a broker can register again when the controller has given up the one before.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}


class Broker:
    """A broker with its data in a folder; `settings` are added to those of its properties file."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self._folder = folder
        self._folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self._controller = free_port()
        self._numbers = itertools.count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self.pid: int | None = None
        at = f"PLAINTEXT://{self.address}"
        self._settings: dict[str, object] = {
            **_SETTINGS,
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller}",
            "listeners": f"{at},CONTROLLER://127.0.0.1:{self._controller}",
            "advertised.listeners": at,
            "log.dirs": self._folder / "data",
            **(settings or {}),
        }
        _write_properties(self._properties, self._settings)
        self._run("kafka.tools.StorageTool", "format", f"--cluster-id={_new_id()}", "-c", self._properties)

    @property
    def address(self) -> str:
        """Return `host:port`, as a command line or librdkafka has it."""
        return f"127.0.0.1:{self.port}"

    @property
    def brokers(self) -> list[tuple[str, str]]:
        """Return the list that the configs of Wallaroo have."""
        return [("127.0.0.1", str(self.port))]

    @property
    def log(self) -> str:
        """Return what the broker has written so far."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def start(self) -> Self:
        """Start it, also again after `stop` or `kill`; returns when it answers a request for metadata."""
        assert self._process is None, "the broker is running"
        with self._log.open("ab") as log:
            self._process = process_guard.start(
                self._command("kafka.Kafka", self._properties), None, env=dict(os.environ), stdout=log, stderr=log
            )
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            assert self._process.poll() is None, f"the broker has ended:\n{self.log}"
            assert time.monotonic() < deadline, f"the broker does not answer:\n{self.log}"
        (child,) = psutil.Process(self._process.pid).children()
        self.pid = child.pid
        return self

    def stop(self) -> None:
        """End it in good order (SIGTERM)."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a crash would (SIGKILL)."""
        self._end(signal.SIGKILL)

    def clean_up(self) -> None:
        """End it, if it runs; its data stay in the folder."""
        if self._process is not None:
            process_guard.end(self._process)
            self._process = self.pid = None

    def client(self, **settings: Any) -> dict[str, Any]:
        """Return the settings for a client of librdkafka; `a_b` stands for `a.b`."""
        given = {name.replace("_", "."): value for name, value in settings.items()}
        # It would tell each attempt to reach a broker that a test has stopped.
        return {"bootstrap.servers": self.address, "log_level": 0, "reconnect.backoff.max.ms": 200, **given}

    @cached_property
    def admin(self) -> AdminClient:
        """The client for everything that is not about messages; what it has been asked for ends with it."""
        return AdminClient(self.client())

    def replace_admin(self) -> None:
        """Use a new client from now on: after a broker stood still, one may wait forever."""
        self.__dict__.pop("admin", None)

    def create_topic(self, name: str | None = None, partitions: int = 1, **config: Any) -> str:
        """Create a topic, with a name of its own if none is given, and return its name; `a_b` stands for `a.b`."""
        name = name or f"topic-{os.getpid()}-{next(self._numbers)}"
        config = {key.replace("_", "."): str(value) for key, value in config.items()}
        self._wait_for(self.admin.create_topics([NewTopic(name, partitions, 1, config=config)]))
        self._wait_until_leaders(name, partitions)
        return name

    def delete_topic(self, name: str) -> None:
        """Delete a topic with all its messages."""
        self._wait_for(self.admin.delete_topics([name]))

    def add_partitions(self, topic: str, total: int) -> None:
        """Have a topic have `total` partitions."""
        self._wait_for(self.admin.create_partitions([NewPartitions(topic, total)]))
        self._wait_until_leaders(topic, total)

    def delete_before(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Remove the oldest messages, as retention does: `offsets` are the first to stay, by partition."""
        self._wait_for(
            self.admin.delete_records([TopicPartition(topic, number, offset) for number, offset in offsets.items()])
        )

    def produce(self, topic: str, messages: Iterable[bytes | dict[str, Any]], **settings: Any) -> None:
        """Send messages in order, and wait until the broker has them all.

        Each is a value, or a dictionary of what `Producer.produce` takes: value, key, partition, timestamp, headers.
        """
        failed: list[KafkaError] = []
        producer = Producer(self.client(**{"linger.ms": 5, "enable.idempotence": True, **settings}))
        for message in messages:
            given = dict(message) if isinstance(message, dict) else {"value": message}
            report = given.pop("on_delivery", lambda error, _message: failed.append(error) if error else None)
            while True:
                try:
                    producer.produce(topic, **given, on_delivery=report)
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(PATIENCE) == 0, "the broker does not take the messages"
        assert not failed, failed[0]

    def consume(
        self, topic: str, count: int | None = None, *, committed: bool = True, start: int = OFFSET_BEGINNING
    ) -> list[Message]:
        """Return the first `count` messages of a topic, waiting for them; without a number, those that are there.

        They are in order for each partition. `committed` leaves out what is in a transaction that is aborted, or still
        open.
        """
        level = "read_committed" if committed else "read_uncommitted"
        consumer = Consumer(
            self.client(
                group_id=f"consume-{uuid.uuid4()}",
                isolation_level=level,
                enable_auto_commit=False,
                enable_partition_eof=True,
                fetch_wait_max_ms=50,
            )
        )
        try:
            partitions = set(consumer.list_topics(topic, PATIENCE).topics[topic].partitions)
            consumer.assign([TopicPartition(topic, number, start) for number in partitions])
            return list(_consumed(consumer, count, partitions))
        finally:
            consumer.close()

    def ends(self, topic: str) -> dict[int, int]:
        """Return the offset after the last message, by partition."""
        consumer = Consumer(self.client(group_id="ends"))
        try:
            numbers = consumer.list_topics(topic, PATIENCE).topics[topic].partitions
            return {n: consumer.get_watermark_offsets(TopicPartition(topic, n), PATIENCE)[1] for n in numbers}
        finally:
            consumer.close()

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """Return the offsets that a group has committed, by topic and partition, as tools that show the lag do.

        Waits for transactions that are about to change them: the brokers complete these after their commit is answered.
        """
        deadline = time.monotonic() + PATIENCE
        while True:
            asked = self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)], require_stable=True)
            try:
                found = asked[group].result(PATIENCE).topic_partitions
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNSTABLE_OFFSET_COMMIT or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            else:
                break
        return {(each.topic, each.partition): each.offset for each in found}

    @property
    def _properties(self) -> Path:
        return self._folder / "server.properties"

    @property
    def _log(self) -> Path:
        return self._folder / "broker.log"

    def _command(self, *arguments: object) -> list[str]:
        return [str(part) for part in (java(), *_FLAGS, "-cp", f"{jars()}/*", *arguments)]

    def _run(self, *arguments: object) -> None:
        command = self._command(*arguments)
        ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE)  # noqa: S603 - the broker's own tool.
        assert ran.returncode == 0, ran.stdout + ran.stderr

    def _end(self, number: signal.Signals) -> None:
        assert self._process is not None
        assert self.pid is not None
        os.kill(self.pid, number)
        self._process.wait(PATIENCE)
        self.clean_up()

    def _answers(self) -> bool:
        try:
            return bool(self.admin.list_topics(timeout=1).brokers)
        except KafkaException:
            return False

    def _wait_for(self, futures: Mapping[Any, Any]) -> None:
        for future in futures.values():
            future.result(PATIENCE)

    def _wait_until_leaders(self, topic: str, partitions: int) -> None:
        """Wait until all partitions can be used: a topic is created before each has a leader."""
        deadline = time.monotonic() + PATIENCE
        while True:
            found = self.admin.list_topics(topic, PATIENCE).topics[topic].partitions.values()
            if len(found) == partitions and all(each.leader >= 0 and each.error is None for each in found):
                return
            assert time.monotonic() < deadline, f"{topic} has no leaders:\n{self.log}"
            time.sleep(0.01)


def _consumed(consumer: Consumer, count: int | None, partitions: set[int]) -> Iterator[Message]:
    """Yield messages until there are `count`; without one, until each of the partitions has come to its end."""
    deadline = time.monotonic() + PATIENCE
    found = 0
    while partitions if count is None else found < count:
        assert time.monotonic() < deadline, f"{found} messages of {count}"
        for message in consumer.consume(1000, 0.1):
            if message.error() is None:
                found += 1
                yield message
                if found == count:
                    return
            elif message.error().code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name.
                partitions.discard(message.partition())
            else:
                raise KafkaException(message.error())


def _write_properties(path: Path, settings: Mapping[str, object]) -> None:
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))


def _new_id() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
