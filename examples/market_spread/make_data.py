"""Writes market_data.txt (the prices of a morning) and orders.txt (what comes in at noon). The companies are made up."""

import random

random.seed(303)

with open("symbols.txt") as f:
    symbols = f.read().split()

# ZEPH is not traded this morning, and nobody is keen on MOSS and PYRE: their bids and asks are far apart.
traded = [symbol for symbol in symbols if symbol != "ZEPH"]
unloved = ["MOSS", "PYRE"]

prices = {symbol: random.uniform(5, 200) for symbol in traded}

with open("market_data.txt", "w") as f:
    for symbol in random.choices(traded, k=3000) + traded:
        prices[symbol] *= random.uniform(0.99, 1.01)
        half_spread = random.uniform(0.02, 0.05) if symbol in unloved else random.uniform(0.001, 0.01)
        bid, ask = prices[symbol] * (1 - half_spread), prices[symbol] * (1 + half_spread)
        f.write(f"{symbol} {bid:.2f} {ask:.2f}\n")

clients = ["Abel", "Bea", "Cyd", "Dov"]


def order(number, symbol, price):
    side, quantity = random.choice(["buy", "sell"]), random.randrange(10, 500, 10)
    return f"{number} {random.choice(clients)} {side} {symbol} {quantity} {price:.2f}\n"


with open("orders.txt", "w") as f:
    for number in range(1001, 2000):
        symbol = random.choice(symbols)
        price = prices.get(symbol, 50) * random.uniform(0.95, 1.05)
        if random.random() < 0.04:
            price *= random.choice([0.1, 0.85, 1.15, 10])
        f.write(order(number, symbol, price))
    f.write(order(2000, "VANT", prices["VANT"] * 100))
