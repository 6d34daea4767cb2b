"""An application whose parts nobody could send to another process: each process makes them by itself."""

import logging
import os
import sys
import threading

import wallaroo

PRICES = {}
LOCK = None
FACTOR = None

log = logging.getLogger("own_parts")


class Sale:
    """A message of a class of the module's own."""

    def __init__(self, shop, item, price):
        self.shop = shop
        self.item = item
        self.price = price


def application_setup(args):
    """Set what the parts use, and make the parts."""
    global LOCK, FACTOR
    print("setting up")
    os.write(2, b"setting up without Python\n")
    LOCK = threading.Lock()
    FACTOR = int(args[args.index("--factor") + 1])
    file = open(args[args.index("--prices") + 1], encoding="utf-8")
    PRICES.update((item, int(price)) for item, price in map(str.split, file))
    trouble = args[args.index("--trouble") + 1] if "--trouble" in args else ""
    if trouble and trouble == process():
        raise RuntimeError(f"no model for {trouble}")

    class Decoder:
        def __init__(self):
            self.lock = threading.Lock()

        def header_length(self):
            return 4

        def payload_length(self, bs):
            with self.lock:
                return int.from_bytes(bs, "big")

        def decode(self, bs):
            with self.lock:
                return bs.decode()

    class Price:
        def name(self):
            return "price"

        def compute(self, line):
            shop, item = line.split()
            with LOCK:
                file.seek(0)
                line_of_item = next(each for each in file if each.startswith(f"{item} "))
            assert int(line_of_item.split()[1]) == PRICES[item]
            return Sale(shop, item, PRICES[item] * FACTOR)

    class Shop:
        def partition(self, sale):
            with LOCK:
                return sale.shop

    class Builder:
        def __init__(self):
            self.lock = LOCK

        def build(self):
            with self.lock:
                return {}

    def make_sum(log, file):
        @wallaroo.state_computation("sum")
        def add_up(sale, sums):
            sums[sale.item] = sums.get(sale.item, 0) + sale.price
            if sale.item == "gold":
                log.warning("gold in %s", sale.shop)
            assert not file.closed
            return (sale.shop, sale.item, sums[sale.item], sys.argv[-1]), True

        return add_up

    @wallaroo.encoder
    def encode(output):
        with LOCK:
            return "{} {} {} {}\n".format(*output)

    logging.basicConfig(format="%(message)s")
    ab = wallaroo.ApplicationBuilder("Own parts")
    ab.new_pipeline("sales", wallaroo.TCPSourceConfig(*wallaroo.tcp_parse_input_addrs(args)[0], Decoder()))
    ab.to(Price())
    if trouble != f"fewer in {process()}":
        ab.to_state_partition(make_sum(log, file), Builder(), "sums", Shop())
    return ab.to_sink(wallaroo.TCPSinkConfig(*wallaroo.tcp_parse_output_addrs(args)[0], encode)).build()


def process():
    """Return which process this is."""
    if "pyspark.worker" in sys.modules:
        return "a worker"
    return "ingress" if "wallaroo.ingress.server" in sys.modules else "machida"
