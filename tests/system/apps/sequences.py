"""Follows numbered messages: each is compared with the one before it that had the same key."""

import os
import time

import wallaroo


def application_setup(args):
    in_addresses = wallaroo.tcp_parse_input_addrs(args)
    out_addresses = wallaroo.tcp_parse_output_addrs(args)
    ab = wallaroo.ApplicationBuilder("Sequences")
    ab.new_pipeline("words", wallaroo.TCPSourceConfig(*in_addresses[0], decoder))
    ab.to_parallel(split)
    ab.to_state_partition(count_word, WordTotals, "word totals", first_letter, list("abcdefghij"))
    ab.to_sink(wallaroo.TCPSinkConfig(*out_addresses[0], encode_count))
    ab.new_pipeline("steps", wallaroo.TCPSourceConfig(*in_addresses[1], decoder))
    ab.to(parse)
    ab.to_state_partition(follow, Followed, "followed", by_key)
    ab.to_sinks(
        [
            wallaroo.TCPSinkConfig(*out_addresses[1], encode_number),
            wallaroo.TCPSinkConfig(*out_addresses[2], encode_step),
        ]
    )
    return ab.build()


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decoder(bs):
    return bs.decode("utf-8")


@wallaroo.computation_multi(name="split into words")
def split(line):
    return line.split(" ")


class WordTotals:
    def __init__(self):
        self.totals = {}


@wallaroo.state_computation(name="count word")
def count_word(word, state):
    state.totals[word] = state.totals.get(word, 0) + 1
    return ((word, state.totals[word]), True)


@wallaroo.partition
def first_letter(word):
    return word[0]


@wallaroo.encoder
def encode_count(data):
    return f"{data[0]} => {data[1]}\n".encode("utf-8")


@wallaroo.computation(name="parse")
def parse(text):
    key, number, more = text.split(" ", 2)
    if key == "wait":
        # Holds the whole block until somebody makes the file.
        open(more + ".waiting", "w").close()
        while not os.path.exists(more):
            time.sleep(0.01)
    return key, int(number), more


class Followed:
    def __init__(self):
        self.last = 0
        self.seen = 0


@wallaroo.partition
def by_key(message):
    return message[0]


@wallaroo.state_computation(name="follow")
def follow(message, state):
    key, number, more = message
    jump = number - state.last
    state.last = number
    state.seen += 1
    return ((key, number, jump, state.seen, more), True)


@wallaroo.encoder
def encode_number(result):
    key, number, jump, seen, more = result
    return f"{key} => {seen}\n".encode("utf-8")


@wallaroo.encoder
def encode_step(result):
    key, number, jump, seen, more = result
    return f"{key}: {number} by {jump}, {seen} in all {more}\n".encode("utf-8")
