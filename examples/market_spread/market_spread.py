"""Checks orders against the latest prices of the market, and outputs those that must be rejected."""

from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import wallaroo

WIDEST_SPREAD = Decimal("0.05")
FARTHEST_PRICE = Decimal("0.10")


def application_setup(args):
    orders_address, market_address = wallaroo.tcp_parse_input_addrs(args)
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]

    symbols = Path(__file__).with_name("symbols.txt").read_text().split()

    ab = wallaroo.ApplicationBuilder("Market Spread")
    # Prices only change the state, so this pipeline has no sink.
    ab.new_pipeline("market data", wallaroo.TCPSourceConfig(*market_address, prices_decoder))
    ab.to_state_partition(update_prices, SymbolData, "symbol data", by_symbol, symbols)
    ab.done()
    ab.new_pipeline("orders", wallaroo.TCPSourceConfig(*orders_address, order_decoder))
    ab.to_state_partition(check_order, SymbolData, "symbol data", by_symbol, symbols)
    ab.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, encoder))
    return ab.build()


class Prices(NamedTuple):
    symbol: str
    bid: Decimal
    ask: Decimal


class Order(NamedTuple):
    number: str
    client: str
    side: str
    symbol: str
    quantity: int
    price: Decimal


class Rejection(NamedTuple):
    order: Order
    reason: str
    bid: Decimal
    ask: Decimal


@wallaroo.decoder(header_length=4, length_fmt=">I")
def prices_decoder(bs):
    symbol, bid, ask = bs.decode("utf-8").split(" ")
    return Prices(symbol, Decimal(bid), Decimal(ask))


@wallaroo.decoder(header_length=4, length_fmt=">I")
def order_decoder(bs):
    number, client, side, symbol, quantity, price = bs.decode("utf-8").split(" ")
    return Order(number, client, side, symbol, int(quantity), Decimal(price))


@wallaroo.partition
def by_symbol(data):
    return data.symbol


class SymbolData:
    """The state of one symbol, which both pipelines share: its latest prices."""

    def __init__(self):
        self.bid = None
        self.ask = None


@wallaroo.state_computation(name="update prices")
def update_prices(prices, symbol_data):
    symbol_data.bid = prices.bid
    symbol_data.ask = prices.ask
    return (None, True)


@wallaroo.state_computation(name="check order")
def check_order(order, symbol_data):
    reason = reason_to_reject(order.price, symbol_data)
    # Nothing was changed, so there is nothing to keep: False.
    if reason is None:
        return (None, False)
    else:
        return (Rejection(order, reason, symbol_data.bid, symbol_data.ask), False)


def reason_to_reject(price, symbol_data):
    if symbol_data.bid is None:
        return "no prices yet"
    middle = (symbol_data.bid + symbol_data.ask) / 2
    if symbol_data.ask - symbol_data.bid > WIDEST_SPREAD * middle:
        return "the spread is too wide"
    if abs(price - middle) > FARTHEST_PRICE * middle:
        return "the price is too far from the market"
    return None


@wallaroo.encoder
def encoder(rejection):
    order, reason, bid, ask = rejection
    line = f"{order.number} {order.client} {order.side} {order.symbol} at {order.price}: {reason}"
    if bid is not None:
        line += f" (bid {bid}, ask {ask})"
    return f"{line}\n".encode("utf-8")
