"""Counts what is in the baskets of a shop. Run it with `python basket.py --in ... --out ...`, or with machida."""

import json

import goods
import wallaroo


def application_setup(args):
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    ab = wallaroo.ApplicationBuilder("Baskets")
    ab.new_pipeline("Purchases", wallaroo.TCPSourceConfig(in_host, in_port, decoder))
    ab.to(price)
    ab.to_state_partition(put, Basket, "baskets", by_customer)
    ab.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, encoder))
    return ab.build()


def serialize(obj):
    return json.dumps({"class": type(obj).__name__, **obj.__dict__}).encode("utf-8")


def deserialize(bs):
    fields = json.loads(bs)
    cls = {"Purchase": goods.Purchase, "Basket": Basket}[fields.pop("class")]
    obj = cls.__new__(cls)
    obj.__dict__.update(fields)
    return obj


class Basket(goods.NotForPickle):
    def __init__(self):
        self.total = 0


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decoder(bs):
    return goods.Purchase(*bs.decode("utf-8").split(" "))


@wallaroo.computation(name="price")
def price(purchase):
    purchase.price = goods.PRICES[purchase.item]
    return purchase


@wallaroo.partition
def by_customer(purchase):
    return purchase.customer


@wallaroo.state_computation(name="put")
def put(purchase, basket):
    basket.total += purchase.price
    return ((purchase.customer, basket.total), True)


@wallaroo.encoder
def encoder(data):
    return f"{data[0]} => {data[1]}\n"


if __name__ == "__main__":
    wallaroo.run(application_setup)
