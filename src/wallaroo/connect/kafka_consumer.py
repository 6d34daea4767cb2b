"""`wallaroo connect kafka-consumer`: sends the messages of a topic of Kafka to an application."""

from __future__ import annotations

from typing import Any, NoReturn

import click

from wallaroo.cli.kafka_topic import Topic
from wallaroo.connect.kafka_client import ANSWER_SECONDS, client_settings, kafka_options, patiently, raise_if_lasting
from wallaroo.connect.script import Sending, source_script
from wallaroo.errors import WallarooError

_AT_ONCE = 1000
_WAIT_SECONDS = 0.5


@source_script
@kafka_options
@click.option("--group", default="wallaroo", show_default=True, help="The group, whose members share the partitions.")
def command(send: Sending, topic: Topic, group: str, config: tuple[str, ...]) -> None:
    """Send the messages of a topic of Kafka to an application, from the oldest one on.

    The application remembers the last offset of each partition: so it gets each message once, whatever is killed. The
    offsets that the group commits only show others how far it is.

    \b
    wallaroo connect kafka-consumer 127.0.0.1:7100 --topic kafka://127.0.0.1:9092/text
    """  # noqa: D301 - click wants the real character.
    from confluent_kafka import Consumer  # noqa: PLC0415 - the help does without.

    def resume(consumer: Any, partitions: list[Any]) -> None:
        for each in partitions:
            if (last := send.application.resume_from(f"{cluster}/{topic.name}/{each.partition}")) is not None:
                _, end = patiently(consumer.get_watermark_offsets, each, ANSWER_SECONDS)
                if last >= end:
                    raise WallarooError(
                        f"The application has messages of {topic.name}/{each.partition} up to offset {last}, and the "
                        f"topic ends before it, at {end}: it is another one of the same name. Use a new name for it."
                    )
                each.offset = last + 1
        consumer.assign(partitions)

    own = {
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        # The partitions of one that was killed are not idle for long.
        "session.timeout.ms": 10_000,
    }
    consumer = Consumer(client_settings(topic, config, own))
    # Topics of several clusters may have the same name.
    cluster = patiently(consumer.list_topics, topic.name, ANSWER_SECONDS).cluster_id
    try:
        consumer.subscribe([topic.name], on_assign=resume)
        _copy(consumer, send, cluster)
    finally:
        consumer.close()


def _copy(consumer: Any, send: Sending, cluster: str) -> NoReturn:
    """Send what comes to the application, and commit the offsets of what it has on its disk."""
    from confluent_kafka import KafkaException, TopicPartition  # noqa: PLC0415

    written: dict[tuple[str, int], tuple[int, int]] = {}
    while True:
        for came in patiently(consumer.consume, _AT_ONCE, _WAIT_SECONDS):
            place = came.topic(), came.partition()
            if came.error() is not None:
                raise_if_lasting(came.error())
            else:
                # One that was left out, 0, counts as sent when those before it are.
                number = send(came.value() or b"", "{}/{}/{}".format(cluster, *place), came.offset())
                written[place] = number or written.get(place, (0, 0))[0], came.offset()
        safe = {place: offset for place, (number, offset) in written.items() if number <= send.application.acknowledged}
        if safe:
            try:
                consumer.commit(offsets=[TopicPartition(*place, offset + 1) for place, offset in safe.items()])
            except KafkaException as error:
                raise_if_lasting(error.args[0])
            written = {place: each for place, each in written.items() if place not in safe}


if __name__ == "__main__":
    command()
