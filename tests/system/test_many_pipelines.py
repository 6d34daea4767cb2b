"""One application with several pipelines: states shared and chained, several sinks, none, and no state at all."""

import json
import random
from collections import defaultdict

import pytest

from .harness import send, unframed, values_by_key

SYMBOLS = [f"S{number}" for number in range(40)]


class Market:
    """What the application has to answer."""

    def __init__(self):
        self.prices = {}
        self.orders = defaultdict(list)

    def price(self, symbol, price):
        self.prices[symbol] = price
        return f"{symbol} {price}"

    def order(self, number, symbol, limit):
        price = self.prices.get(symbol)
        self.orders[symbol].append(
            {
                "symbol": symbol,
                "number": number,
                "limit": limit,
                "price": price,
                "nth": len(self.orders[symbol]) + 1,
                "accepted": price is not None and limit >= price,
            }
        )
        return f"{number} {symbol} {limit}"

    def texts(self):
        """Return the lines for each symbol."""
        line = "{symbol} {number}: {price} {nth} {accepted}".format
        return {symbol: [line(**order) for order in orders] for symbol, orders in self.orders.items()}


def visits_and_counts(number):
    """Return visits, and for each country how many pages its visitors have seen, each counted once a visitor."""
    choose = random.Random(5)
    countries = {f"v{visitor}": choose.choice(["at", "be", "ch", "dk"]) for visitor in range(300)}
    visits, seen = [], defaultdict(set)
    for _ in range(number):
        visitor = choose.choice(list(countries))
        pages = choose.choices(["home", "news", "shop", "help", "hidden", *map(str, range(30))], k=3)
        visits.append(" ".join([visitor, countries[visitor], *pages]))
        seen[countries[visitor].upper()].update((visitor, page) for page in pages if page != "hidden")
    return visits, {country: list(range(1, len(pages) + 1)) for country, pages in seen.items()}


@pytest.mark.timeout(600)
def test_pipelines_of_one_application(machida, receiver, tmp_path):
    texts, records, countries, copies = sinks = [receiver() for _ in range(4)]
    addresses = ",".join(sink.address for sink in sinks)
    arguments = ["--in", ",".join(["127.0.0.1:0"] * 4), "--out", addresses, "--resilience-dir", tmp_path / "home"]
    run = machida("--application-module", "market", *arguments).wait_until_ready()

    notes = [f"note {number} " + "x" * (number % 90) for number in range(20_000)]
    notes += ["print this, please", "the last one, é€"]
    visits, counts = visits_and_counts(8000)
    send(run.address("Notes"), notes)
    send(run.address("Visits"), visits)

    market = Market()
    choose = random.Random(9)
    expected_size = 0
    for round_number in range(3):
        # The first round of orders meets some symbols that have no price yet.
        priced = SYMBOLS[:30] if round_number == 0 else SYMBOLS
        send(run.address("Prices"), [market.price(choose.choice(priced), choose.randrange(100)) for _ in range(2000)])
        orders = [market.order(n, choose.choice(SYMBOLS), choose.randrange(100)) for n in range(1500)]
        send(run.address("Orders"), orders)
        # An update that is sent only after these answers cannot have had a part in them.
        expected_size = sum(len(line) + 1 for lines in market.texts().values() for line in lines)
        run.wait_until(lambda size=expected_size: texts.size >= size, "the answers to the orders")
    numbered = "".join(f"{note} ({len(note.split())} words)\n" for note in notes).encode()
    counted = sum(len(f"{country} => {count}\n") for country in counts for count in counts[country])
    run.wait_until(lambda: copies.size >= len(numbered), "all notes")
    run.wait_until(lambda: countries.size >= counted, "all counts")
    run.wait_until(lambda: "a note says: print this, please\n" in run.output, "what was printed")
    run.stop()

    answers = defaultdict(list)
    for line in texts.everything().decode().splitlines():
        answers[line.split(" ")[0]].append(line)
    assert answers == market.texts()
    found = defaultdict(list)
    for record in map(json.loads, unframed(records.everything())):
        found[record["symbol"]].append(record)
    assert found == market.orders
    assert values_by_key(countries.everything()) == counts
    assert copies.everything() == numbered
    assert not (tmp_path / "home" / "dead-letters.jsonl").exists()
