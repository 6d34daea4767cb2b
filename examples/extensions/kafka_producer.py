"""Writes the counts to a topic of Kafka.

python kafka_producer.py --bootstrap-broker 127.0.0.1:9092 --topic counts --count-stream 127.0.0.1:7200
"""

import argparse
import sys

from confluent_kafka import Producer

from word_counts import CountStream, parse_count_stream_addr


def main(args):
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap-broker", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="counts")
    options = parser.parse_known_args(args)[0]
    address = parse_count_stream_addr(args)
    extension = CountStream(*address).extension()
    print("listening on {}:{}".format(*address), flush=True)

    producer = Producer({"bootstrap.servers": options.bootstrap_broker})
    while True:
        word, count = extension.read()
        producer.produce(options.topic, f"{word} => {count}", word)
        # The next `read` tells the application that this one is done.
        producer.flush()


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        pass
