"""Readings that branch: each is parsed once, sent to a sink of its kind, and summed up for its room."""

import os

import wallaroo


def application_setup(args):
    readings = wallaroo.tcp_parse_input_addrs(args)[0]
    normal, alarms, sums = wallaroo.tcp_parse_output_addrs(args)
    parsed = wallaroo.source("Readings", wallaroo.TCPSourceConfig(*readings, decode)).to(parse)
    sorted_out = parsed.to_sinks(
        [
            wallaroo.TCPSinkConfig(*normal, encode_reading, name="normal"),
            wallaroo.TCPSinkConfig(*alarms, encode_reading, name="alarms"),
        ],
        choose=how_warm,
    )
    summed_up = (
        parsed.merge(parsed.to(correction)).key_by(room).to(add_up).to_sink(wallaroo.TCPSinkConfig(*sums, encode_sum))
    )
    return wallaroo.build_application("Routing", sorted_out, summed_up)


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(bs):
    return bs.decode("utf-8")


@wallaroo.computation("parse")
def parse(text):
    if text == "print":
        print("parsed once")
        return None
    name, number, degrees = text.split(" ")
    return name, int(number), int(degrees)


@wallaroo.computation("correction")
def correction(reading):
    name, number, degrees = reading
    return (name, number, -1) if degrees % 10 == 0 else None


def how_warm(reading):
    _, _, degrees = reading
    if degrees == 0:
        return None
    if degrees == 99 and "BROKEN" in os.environ:
        return "nobody"
    return "normal" if degrees < 50 else ["alarms"] if degrees < 90 else {"normal", "alarms"}


@wallaroo.key_extractor
def room(reading):
    return reading[0]


class Sum:
    def __init__(self):
        self.degrees = 0


@wallaroo.state_computation("add up", Sum)
def add_up(reading, total):
    name, number, degrees = reading
    total.degrees += degrees
    return name, number, total.degrees


@wallaroo.encoder
def encode_reading(reading):
    return "{} {} {}\n".format(*reading)


@wallaroo.encoder
def encode_sum(added):
    return "{} {} {}\n".format(*added)
