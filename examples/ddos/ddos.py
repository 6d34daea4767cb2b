"""Watches the requests to a web server, and tells which addresses send far too many of them."""

import math
from typing import NamedTuple

import wallaroo

HALF_LIFE = 5.0
"""After so many seconds, a request counts only half."""

LIMIT = 10.0
"""So many requests a second are an attack; below half of it, an address has calmed down."""


def application_setup(args):
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]

    ab = wallaroo.ApplicationBuilder("DDoS detection")
    ab.new_pipeline("requests", wallaroo.TCPSourceConfig(in_host, in_port, decoder))
    # No keys are listed: the addresses are not known in advance.
    ab.to_state_partition(watch, Address, "addresses", by_address)
    ab.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, encoder))
    return ab.build()


class Request(NamedTuple):
    time: float
    address: str


class Alarm(NamedTuple):
    time: float
    address: str
    rate: float


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decoder(bs):
    time, address, method, path = bs.decode("utf-8").split(" ")
    return Request(float(time), address)


@wallaroo.partition
def by_address(request):
    return request.address


class Address:
    """The state of one address: its requests a second, of which older ones count less and less."""

    def __init__(self):
        self.rate = 0.0
        self.last_time = 0.0
        self.attacks = False

    def update(self, time):
        self.rate *= 0.5 ** ((time - self.last_time) / HALF_LIFE)
        self.rate += math.log(2) / HALF_LIFE
        self.last_time = time


@wallaroo.state_computation(name="watch address")
def watch(request, address):
    address.update(request.time)
    if address.attacks:
        address.attacks = address.rate > LIMIT / 2
        return (None, True)
    if address.rate > LIMIT:
        address.attacks = True
        return (Alarm(request.time, request.address, address.rate), True)
    return (None, True)


@wallaroo.encoder
def encoder(alarm):
    return f"{alarm.time:.3f} {alarm.address} attacks: {alarm.rate:.1f} requests a second\n".encode("utf-8")
