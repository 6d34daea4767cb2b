"""Several pipelines in one application: prices and orders share a state, visits go through two states, notes need none."""

import json
import struct

import wallaroo


def application_setup(args):
    prices, orders, visits, notes = wallaroo.tcp_parse_input_addrs(args)
    texts, records, countries, copies = wallaroo.tcp_parse_output_addrs(args)
    ab = wallaroo.ApplicationBuilder("Market")

    # No sink: prices only change the state.
    ab.new_pipeline("Prices", wallaroo.TCPSourceConfig(*prices, decoder))
    ab.to(parse_price)
    ab.to_state_partition(update_price, Symbol, "symbols", by_symbol)

    ab.new_pipeline("Orders", wallaroo.TCPSourceConfig(*orders, decoder))
    ab.to(parse_order)
    ab.to_state_partition(check_order, Symbol, "symbols", by_symbol)
    ab.to_sinks([wallaroo.TCPSinkConfig(*texts, text_encoder), wallaroo.TCPSinkConfig(*records, record_encoder)])

    # Each page counts once for each visitor, and then for the visitor's country.
    ab.new_pipeline("Visits", wallaroo.TCPSourceConfig(*visits, decoder))
    ab.to_state_partition(new_pages, Visitor, "visitors", by_visitor)
    ab.to(to_upper)
    ab.to_state_partition(count_country, Country, "countries", by_country)
    ab.to_sink(wallaroo.TCPSinkConfig(*countries, line_encoder))

    ab.new_pipeline("Notes", wallaroo.TCPSourceConfig(*notes, decoder))
    ab.to(number_the_words)
    ab.to_sink(wallaroo.TCPSinkConfig(*copies, line_encoder))
    return ab.build()


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decoder(bs):
    return bs.decode("utf-8")


class Symbol:
    def __init__(self):
        self.price = None
        self.orders = 0


@wallaroo.computation(name="parse price")
def parse_price(text):
    symbol, price = text.split(" ")
    return {"symbol": symbol, "price": int(price)}


@wallaroo.computation(name="parse order")
def parse_order(text):
    number, symbol, limit = text.split(" ")
    return {"symbol": symbol, "number": int(number), "limit": int(limit)}


@wallaroo.partition
def by_symbol(data):
    return data["symbol"]


@wallaroo.state_computation(name="update price")
def update_price(data, symbol):
    symbol.price = data["price"]
    return (None, True)


@wallaroo.state_computation(name="check order")
def check_order(data, symbol):
    symbol.orders += 1
    accepted = symbol.price is not None and data["limit"] >= symbol.price
    return ({**data, "price": symbol.price, "nth": symbol.orders, "accepted": accepted}, True)


@wallaroo.encoder
def text_encoder(data):
    return "{symbol} {number}: {price} {nth} {accepted}\n".format(**data)


@wallaroo.encoder
def record_encoder(data):
    record = json.dumps(data).encode("utf-8")
    return struct.pack(">I", len(record)) + record


class Visitor:
    def __init__(self):
        self.pages = set()


@wallaroo.partition
def by_visitor(text):
    return text.split(" ")[0]


@wallaroo.state_computation_multi(name="new pages")
def new_pages(text, visitor):
    _, country, *pages = text.split(" ")
    new = [page for page in dict.fromkeys(pages) if page not in visitor.pages]
    visitor.pages.update(new)
    return ([(country, page) for page in new], bool(new))


@wallaroo.computation(name="to upper case")
def to_upper(data):
    country, page = data
    return None if page == "hidden" else (country.upper(), page)


class Country:
    def __init__(self):
        self.count = 0


@wallaroo.partition
def by_country(data):
    return data[0]


@wallaroo.state_computation(name="count country")
def count_country(data, country):
    country.count += 1
    return (f"{data[0]} => {country.count}", True)


@wallaroo.computation(name="number the words")
def number_the_words(text):
    if text.startswith("print"):
        print("a note says:", text)
    return f"{text} ({len(text.split())} words)"


@wallaroo.encoder
def line_encoder(text):
    return (text + "\n").encode("utf-8")
