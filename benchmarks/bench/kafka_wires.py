"""A sender and a receiver for topics of Kafka, which take the place of those for sockets."""

from __future__ import annotations

import time
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from bench.kafka import PARTITIONS, Topics
from bench.wire_processes import Receiving, Schedule
from bench.wires import Helper, Receiver, Sender

_POLL_SECONDS = 0.05


class TopicReceiver(Receiver):
    """Reads the committed messages of a topic, and writes each as a line to a file."""

    def __init__(self, topics: Topics, output: Path) -> None:
        Helper.__init__(self, receive_messages, topics.broker.address, topics.sink, output)
        self._answer()


class TopicSender(Sender):
    """Sends to a topic."""

    def __init__(self, topics: Topics) -> None:
        Helper.__init__(self, send_messages, topics.broker.address, topics.source)

    def connect(self, address: tuple[str, int] | None, patience: float = 120.0) -> None:
        """Do nothing: it is connected."""


def receive_messages(commands: Connection, brokers: str, topic: str, output: Path) -> None:
    """Read a topic until told to stop."""
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "receiver", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    with suppress(EOFError, ConnectionError), output.open("wb", buffering=0) as file:
        receiving = Receiving(commands, file)
        commands.send(None)
        while True:
            while commands.poll():
                if not receiving.obey(*commands.recv()):
                    return
            first = consumer.poll(_POLL_SECONDS)
            if first is not None:
                batch = (first, *consumer.consume(1_000, 0))
                receiving.arrived(b"".join([_value(message) + b"\n" for message in batch]))


def _value(message: Message) -> bytes:
    error: KafkaError | None = message.error()
    if error is not None:
        raise KafkaException(error)
    value: bytes = message.value()
    return value


def send_messages(commands: Connection, brokers: str, topic: str) -> None:
    """Keep to schedules until told to stop; each message goes to the partition of its key."""
    producer = Producer({"bootstrap.servers": brokers, "linger.ms": 0})
    producer.list_topics(topic)
    with suppress(EOFError, ConnectionError):
        while (command := commands.recv())[0] != "stop":
            commands.send(_send_on_schedule(producer, topic, command[1]))


def _send_on_schedule(producer: Producer, topic: str, schedule: Schedule) -> tuple[int, int]:
    messages = [schedule.message(index) for index in range(schedule.number)]
    for index, message in enumerate(messages):
        while (early := schedule.due(index) - time.monotonic_ns()) > 0:
            time.sleep(early / 1e9)
        producer.produce(topic, message, message[: message.index(b" ")])
        producer.poll(0)
    producer.flush()
    return schedule.start_ns, time.monotonic_ns()
