"""`wallaroo connect kafka-producer`: writes an application's outputs to a topic of Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import click

from wallaroo.cli.kafka_topic import Topic
from wallaroo.connect.kafka_client import client_settings, kafka_options, patiently
from wallaroo.connect.messages import as_bytes
from wallaroo.connect.script import batching_sink_script
from wallaroo.errors import WallarooError
from wallaroo.experimental import SinkExtension


@batching_sink_script
@kafka_options
@click.option("--key-separator", metavar="TEXT", help="What stands in an output between the key and the value.")
def command(
    application: SinkExtension,
    batch: Callable[[], Iterator[Any]],
    topic: Topic,
    key_separator: str | None,
    config: tuple[str, ...],
) -> None:
    """Write an application's outputs to a topic of Kafka.

    An output is confirmed to the application when the brokers have it: none is lost, and one may be there twice if
    this script is killed in between. The KafkaSinkConfig of an application writes each once, without a script.

    \b
    wallaroo connect kafka-producer 127.0.0.1:7200 --topic kafka://127.0.0.1:9092/counts --key-separator ' => '
    """  # noqa: D301 - click wants the real character.
    from confluent_kafka import Producer  # noqa: PLC0415 - the help does without.

    refused: list[str] = []

    def on_delivery(error: Any, _message: Any) -> None:
        if error is not None:
            refused.append(error.str())

    own = {"enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 0}
    producer = Producer(client_settings(topic, config, own))
    while True:
        for message in batch():
            data = as_bytes(message)
            key, _, value = data.partition(key_separator.encode()) if key_separator else (None, None, data)
            while True:
                try:
                    patiently(producer.produce, topic.name, value, key, on_delivery=on_delivery)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.flush()
        if refused:
            raise WallarooError(f"The brokers refuse a message: {refused[0]}")
        application.confirm()


if __name__ == "__main__":
    command()
