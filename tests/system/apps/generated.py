"""An application that is put together from a description: any topology that a test makes up.

A message is `[number, value, totals]`. A message whose value is None asks the states it meets for their totals.
"""

import argparse
import json
import struct

import wallaroo


class Decoder:
    def header_length(self):
        return 4

    def payload_length(self, bs):
        return struct.unpack(">I", bs)[0]

    def decode(self, bs):
        return json.loads(bs)


class Encoder:
    def __init__(self, number):
        self.number = number

    def encode(self, message):
        return json.dumps([self.number, message]) + "\n"


class Named:
    def __init__(self, name, amount, state=None, exact=False):
        self._name = name
        self.amount = amount
        self.state = state
        self.exact = exact

    def name(self):
        return self._name


class Add(Named):
    def compute(self, message):
        number, value, totals = message
        return message if value is None else [number, value + self.amount, totals]


class Drop(Named):
    def compute(self, message):
        number, value, _ = message
        return None if value is not None and number % self.amount == 0 else message


class Fan(Named):
    def compute_multi(self, message):
        number, value, totals = message
        if value is None:
            return [message]
        return [[number, value + i, totals] for i in range(self.amount)]


class Tally:
    def __init__(self):
        self.count = 0
        self.sum = 0


class Count(Named):
    """Where the order in which messages come is promised, the output shows it; elsewhere it does not depend on it."""

    def compute(self, message, tally):
        number, value, totals = message
        if value is None:
            return [number, None, [*totals, [self.state, tally.count, tally.sum]]], False
        tally.count += 1
        tally.sum += value
        return [number, value + tally.count if self.exact else value, totals], True


class Remainder:
    def __init__(self, amount):
        self.amount = amount

    def partition(self, message):
        return message[0] % self.amount


STATELESS = {"add": Add, "drop": Drop, "fan": Fan}


def application_setup(args):
    parser = argparse.ArgumentParser()
    parser.add_argument("--plan")
    with open(parser.parse_known_args(args)[0].plan) as file:
        pipelines = json.load(file)
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    ab = wallaroo.ApplicationBuilder("Generated")
    for pipeline in pipelines:
        ab.new_pipeline(pipeline["name"], wallaroo.TCPSourceConfig("127.0.0.1", "0", Decoder()))
        for number, step in enumerate(pipeline["steps"]):
            name = f"{number} {step['kind']}"
            if step["kind"] in STATELESS:
                ab.to(STATELESS[step["kind"]](name, step["amount"]))
                continue
            count = Count(name, 0, step["state"], step["exact"])
            if step["kind"] == "single":
                ab.to_stateful(count, Tally, step["state"])
            else:
                ab.to_state_partition(count, Tally, step["state"], Remainder(step["amount"]))
        if pipeline["sinks"]:
            ab.to_sinks([wallaroo.TCPSinkConfig(out_host, out_port, Encoder(n)) for n in pipeline["sinks"]])
        ab.done()
    return ab.build()
