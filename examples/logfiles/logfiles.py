"""Counts the return codes in the log of a web server, day by day."""

import json
import re
import struct

import wallaroo


def application_setup(args):
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]

    ab = wallaroo.ApplicationBuilder("Log file analysis")
    ab.new_pipeline("count by day", wallaroo.TCPSourceConfig(in_host, in_port, Decoder()))
    ab.to_stateful(Count(), CounterBuilder(), "status counter")
    ab.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, Encoder()))
    return ab.build()


class LogLine:
    def __init__(self, text):
        self.text = text


class BoundaryMessage:
    """Ends a day."""


class Decoder:
    def header_length(self):
        return 4

    def payload_length(self, bs):
        return struct.unpack(">I", bs)[0]

    def decode(self, bs):
        text = bs.decode("utf-8")
        if text == "END_OF_DAY":
            return BoundaryMessage()
        else:
            return LogLine(text)


class CounterBuilder:
    def build(self):
        return Counter()


class Counter:
    """The state: the current day, and how often each return code has occurred on it."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.current_day = None
        self.current_batch = {}

    def update(self, day, return_code):
        if self.current_day is None:
            self.current_day = day
        if self.current_day != day:
            raise ValueError(f"a line of {day} among those of {self.current_day}")
        self.current_batch[return_code] = self.current_batch.get(return_code, 0) + 1

    def get_counts(self):
        return {"day": self.current_day, "counts": self.current_batch}


class Count:
    line_re = re.compile(r'\[(?P<day>[^:]+):[^]]+\] "[^"]*" (?P<return_code>\d{3}) ')

    def name(self):
        return "count return codes"

    def compute(self, data, counter):
        if isinstance(data, BoundaryMessage):
            counts = counter.get_counts()
            counter.reset()
            return (counts, True)
        else:
            found = self.line_re.search(data.text)
            counter.update(found["day"], found["return_code"])
            return (None, True)


class Encoder:
    """A summary goes out as JSON, with its length in front."""

    def encode(self, data):
        s = json.dumps(data).encode("utf-8")
        return struct.pack(f">I{len(s)}s", len(s), s)
