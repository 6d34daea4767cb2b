"""Checks orders against the latest prices: two pipelines, and a state that both of them use.

A symbol starts with prices, and prices never move far. So whether an order is rejected does not depend on how the two
pipelines are interleaved, which is not defined, and the outputs of all programs can be compared.
"""

from typing import NamedTuple

import wallaroo

FARTHEST_PRICE = 0.5


def application_setup(args):
    prices_address, orders_address = wallaroo.tcp_parse_input_addrs(args)
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    ab = wallaroo.ApplicationBuilder("Market spread benchmark")
    ab.new_pipeline("prices", wallaroo.TCPSourceConfig(*prices_address, decode_prices))
    ab.to_state_partition(update_prices, SymbolData, "symbol data", by_symbol)
    ab.done()
    ab.new_pipeline("orders", wallaroo.TCPSourceConfig(*orders_address, decode_order))
    ab.to_state_partition(check_order, SymbolData, "symbol data", by_symbol)
    ab.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, encode))
    return ab.build()


class Prices(NamedTuple):
    symbol: str
    bid: float
    ask: float


class Order(NamedTuple):
    symbol: str
    number: str
    price: float


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode_prices(bs):
    symbol, bid, ask = bs.decode().split(" ")
    return Prices(symbol, float(bid), float(ask))


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode_order(bs):
    symbol, number, price = bs.decode().split(" ")
    return Order(symbol, number, float(price))


@wallaroo.partition
def by_symbol(data):
    return data.symbol


class SymbolData:
    def __init__(self):
        self.bid = 99.0
        self.ask = 101.0


@wallaroo.state_computation(name="update prices")
def update_prices(prices, symbol_data):
    symbol_data.bid = prices.bid
    symbol_data.ask = prices.ask
    return (None, True)


@wallaroo.state_computation(name="check order")
def check_order(order, symbol_data):
    middle = (symbol_data.bid + symbol_data.ask) / 2
    if abs(order.price - middle) > FARTHEST_PRICE * middle:
        return (order, False)
    return (None, False)


@wallaroo.encoder
def encode(order):
    return f"{order.symbol} {order.number} rejected at {order.price:.2f}\n".encode()
