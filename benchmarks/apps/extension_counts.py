"""Counts the messages of each key, over TCP, or, with `--text-stream` and `--count-stream`, between two scripts."""

import argparse

import wallaroo
from wallaroo.experimental import (
    SinkExtensionConfig,
    SourceExtensionConfig,
    streaming_message_decoder,
    streaming_message_encoder,
)


def application_setup(args):
    parser = argparse.ArgumentParser()
    parser.add_argument("--text-stream")
    parser.add_argument("--count-stream")
    given, _ = parser.parse_known_args(args)
    if given.text_stream:
        source = SourceExtensionConfig(*given.text_stream.split(":"), decode_message)
        sink = SinkExtensionConfig(*given.count_stream.split(":"), encode_message)
    else:
        source = wallaroo.TCPSourceConfig(*wallaroo.tcp_parse_input_addrs(args)[0], decode)
        sink = wallaroo.TCPSinkConfig(*wallaroo.tcp_parse_output_addrs(args)[0], encode)
    ab = wallaroo.ApplicationBuilder("Counts of keys")
    ab.new_pipeline("messages", source)
    ab.to_state_partition(count, Total, "totals", by_key)
    ab.to_sink(sink)
    return ab.build()


def from_bytes(bs):
    """Return the key and the rest of a message."""
    return bs.decode("utf-8").split(" ", 1)


def to_bytes(counted):
    """Return an output as a line."""
    return "{} => {}\n".format(*counted).encode()


decode, decode_message = wallaroo.decoder(from_bytes), streaming_message_decoder(from_bytes)
encode, encode_message = wallaroo.encoder(to_bytes), streaming_message_encoder(to_bytes)


@wallaroo.partition
def by_key(message):
    return message[0]


class Total:
    """The number of messages of a key."""

    def __init__(self):
        self.total = 0


@wallaroo.state_computation(name="count")
def count(message, state):
    state.total += 1
    return ((message[0], state.total), True)
