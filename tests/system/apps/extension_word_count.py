"""Counts words that a script brings, and gives the counts to another script: the application, and both scripts.

`python extension_word_count.py source ADDRESS FIRST END`, or `... sink ADDRESS FILE`.
"""

import argparse
import os
import sys
from pathlib import Path

import wallaroo
import wallaroo.experimental

PARTITIONS = 1000


@wallaroo.experimental.streaming_message_decoder
def text_decoder(message):
    return message.decode("utf-8")


@wallaroo.experimental.streaming_message_encoder
def text_encoder(message):
    return message.encode("utf-8")


@wallaroo.experimental.stream_message_encoder
def count_encoder(counted):
    return "{} => {}".format(*counted)


class Stream:
    """A stream description: the parts of the application and of the scripts."""

    def __init__(self, host, port):
        self.host = host
        self.port = int(port)

    def source(self):
        return wallaroo.experimental.SourceExtensionConfig(host=self.host, port=self.port, decoder=text_decoder)

    def sink(self):
        return wallaroo.experimental.SinkExtensionConfig(host=self.host, port=self.port, encoder=count_encoder)


class Total:
    def __init__(self):
        self.total = 0


@wallaroo.partition
def by_word(word):
    return word


@wallaroo.state_computation("count")
def count(word, state):
    state.total += 1
    return (word, state.total), True


def application_setup(args):
    parser = argparse.ArgumentParser()
    parser.add_argument("--text-stream")
    parser.add_argument("--count-stream")
    given = parser.parse_known_args(args)[0]
    ab = wallaroo.ApplicationBuilder("Extension word count")
    ab.new_pipeline("words", Stream(*given.text_stream.split(":")).source())
    ab.to_state_partition(count, Total, "totals", by_word)
    ab.to_sink(Stream(*given.count_stream.split(":")).sink())
    return ab.build()


def word(number):
    """Return the word with a number, the same in every process."""
    return f"w{number * number % 97}"


def send(host, port, first, end):
    """Send words; a script that is started again repeats all of them."""
    extension = wallaroo.experimental.SourceExtension(text_encoder)
    extension.connect(host, port)
    print("connected", extension.resume_from(0), flush=True)
    for number in range(int(first), int(end)):
        extension.write(word(number), number % PARTITIONS, number)
    extension.close()
    print("all of it", flush=True)


def receive(host, port, file):
    """Append messages to a file; one that was written, and not confirmed, is the last one there."""
    written = Path(file).read_text().splitlines() if Path(file).exists() else []
    extension = wallaroo.experimental.SinkExtension(text_decoder, confirm="manual")
    extension.listen(host, port)
    print("listening", flush=True)
    output = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    last = written[-1] if written else None
    while True:
        message = extension.read()
        if message != last:
            os.write(output, message.encode() + b"\n")
        last = None
        extension.confirm()


if __name__ == "__main__":
    role, address, *rest = sys.argv[1:]
    {"source": send, "sink": receive}[role](*address.split(":"), *rest)
