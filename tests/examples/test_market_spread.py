"""The README of `examples/market_spread`, followed."""

from .readme import EXAMPLES, expect_shown


def cents(price):
    whole, fraction = price.split(".")
    return 100 * int(whole) + int(fraction)


def rejection(order, latest):
    """Return the line that an order leads to, None if it is fine, in whole cents."""
    number, client, side, symbol, _, price = order.split(" ")
    line = f"{number} {client} {side} {symbol} at {price}: "
    if symbol not in latest:
        return line + "no prices yet"
    bid, ask = latest[symbol]
    known = f" (bid {bid}, ask {ask})"
    # Twice the price in the middle, so that it is a whole number.
    middle_twice = cents(bid) + cents(ask)
    if 2 * 20 * (cents(ask) - cents(bid)) > middle_twice:
        return line + "the spread is too wide" + known
    if 10 * abs(2 * cents(price) - middle_twice) > middle_twice:
        return line + "the price is too far from the market" + known
    return None


def by_symbol(lines):
    found = {}
    for line in lines:
        found.setdefault(line.split(" ")[3], []).append(line)
    return found


def test_orders_are_checked_against_the_latest_prices(walkthrough):
    folder = EXAMPLES / "market_spread"
    prices = [line.split(" ") for line in (folder / "market_data.txt").read_text().splitlines()]
    orders = (folder / "orders.txt").read_text().splitlines()
    latest = {symbol: (bid, ask) for symbol, bid, ask in prices}
    expected = [line for order in orders if (line := rejection(order, latest))]
    reasons = ("no prices yet", "the spread is too wide", "the price is too far from the market")
    assert all(sum(reason in line for line in expected) > 5 for reason in reasons)
    # The last order is rejected too, so when all these lines have come, all orders have been checked.
    assert expected[-1] == rejection(orders[-1], latest)
    walk = walkthrough("market_spread")

    receiver = walk.start("wallaroo receive")
    walk.start("machida")
    walk.run("wallaroo send")
    # Prices are taken in as they come: when the last of them is known, which had not been there before, all are.
    assert prices.count(prices[-1]) == 1
    tries = [walk.run("echo")]
    walk.wait_for_lines(receiver, 1)
    trial = rejection(f"1 me buy {prices[-1][0]} 10 0.01", latest)
    while receiver.stdout.decode().splitlines()[-1] != trial:
        tries.append(walk.run_again("echo"))
        walk.wait_for_lines(receiver, len(tries))
    walk.run("wallaroo send")
    walk.wait_for_lines(receiver, len(tries) + len(expected))
    walk.make_data_again("python make_data.py", "[mo]*.txt")
    walk.finish()

    lines = receiver.stdout.decode().splitlines()
    assert by_symbol(lines[len(tries) :]) == by_symbol(expected)
    expect_shown(walk.shown, lines)
