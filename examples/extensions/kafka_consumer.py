"""Sends the messages of a topic of Kafka to the application, each once.

    python kafka_consumer.py --bootstrap-broker 127.0.0.1:9092 --topic text --consumer-group words \
        --text-stream 127.0.0.1:7100
"""

import sys

from confluent_kafka import Consumer

from text_documents import TextStream, parse_text_stream_addr
from wallaroo.contrib.kafka import parse_kafka_params


def main(args):
    broker, topic, group = parse_kafka_params(args)
    extension = TextStream(*parse_text_stream_addr(args)).extension()

    def start_where_the_application_is(consumer, partitions):
        for each in partitions:
            last = extension.resume_from(each.partition)
            if last is not None:
                each.offset = last + 1
        consumer.assign(partitions)
        print(f"reading {topic}", flush=True)

    consumer = Consumer(
        {
            "bootstrap.servers": broker,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic], on_assign=start_where_the_application_is)
    while True:
        for message in consumer.consume(100, 0.5):
            if message.error():
                print(message.error().str(), file=sys.stderr, flush=True)
            elif message.value() is not None:
                extension.write(message.value().decode("utf-8"), message.partition(), message.offset())


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        pass
