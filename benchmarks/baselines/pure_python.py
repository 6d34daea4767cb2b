"""One pure Python loop on one core: the application's own functions called one after the other, and nothing else.

It is what one core can do at most; for the contract of a baseline see README.md one folder up.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from itertools import zip_longest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from apps import celsius, market_spread, word_count

_LINES_AT_ONCE = 10_000


def count_words_by_letter(streams):
    decode = word_count.decode.decode
    split = word_count.split.compute_multi
    partition = word_count.first_letter.partition
    compute = word_count.count_word.compute
    encode = word_count.encode.encode
    states = {key: word_count.WordTotals() for key in word_count.LETTERS}
    for payloads in streams["words"]:
        outputs = []
        for payload in payloads:
            for word in split(decode(payload)):
                output, _ = compute(word, states[partition(word)])
                outputs.append(encode(output))
        yield outputs


def count_words(streams):
    decode = word_count.decode.decode
    split = word_count.split.compute_multi
    partition = word_count.word_itself.partition
    compute = word_count.count_own_word.compute
    encode = word_count.encode.encode
    states = {}
    for payloads in streams["words"]:
        outputs = []
        for payload in payloads:
            for word in split(decode(payload)):
                key = partition(word)
                state = states.get(key)
                if state is None:
                    state = states[key] = word_count.WordTotal()
                output, _ = compute(word, state)
                outputs.append(encode(output))
        yield outputs


def convert(streams):
    decode = celsius.decode.decode
    multiply = celsius.multiply.compute
    add = celsius.add.compute
    encode = celsius.encode.encode
    for payloads in streams["temperatures"]:
        yield [encode(add(multiply(decode(payload)))) for payload in payloads]


def check_orders(streams):
    partition = market_spread.by_symbol.partition
    encode = market_spread.encode.encode
    states = {}

    def outputs_of(payloads, decode, compute):
        for payload in payloads:
            message = decode(payload)
            key = partition(message)
            state = states.get(key)
            if state is None:
                state = states[key] = market_spread.SymbolData()
            output, _ = compute(message, state)
            if output is not None:
                yield encode(output)

    for prices, orders in zip_longest(streams["prices"], streams["orders"], fillvalue=()):
        found = list(outputs_of(prices, market_spread.decode_prices.decode, market_spread.update_prices.compute))
        found += outputs_of(orders, market_spread.decode_order.decode, market_spread.check_order.compute)
        yield found


WORKLOADS = {
    "words-27": count_words_by_letter,
    "words-5k": count_words,
    "words-200k": count_words,
    "celsius": convert,
    "market": check_orders,
}


def payloads(path):
    """Yield the lines of a file, many at a time."""
    with path.open("rb") as file:
        while lines := file.readlines(_LINES_AT_ONCE * 40):
            yield [line[:-1] for line in lines]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("input", type=Path)
    parser.add_argument("output", type=Path)
    given = parser.parse_args()
    streams = {path.stem: payloads(path) for path in given.input.glob("*.txt")}
    started = time.monotonic()
    with (given.output / "output").open("wb") as output:
        for outputs in WORKLOADS[given.workload](streams):
            output.write(b"".join(outputs))
    print(json.dumps({"seconds": time.monotonic() - started}))


if __name__ == "__main__":
    main()
