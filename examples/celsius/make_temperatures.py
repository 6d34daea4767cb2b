"""Writes temperatures.txt: a week of a thermometer on a mountain, a temperature every five minutes."""

import math
import random

random.seed(1742)

with open("temperatures.txt", "w") as f:
    drift = 0.0
    for minute in range(0, 7 * 24 * 60, 5):
        drift = 0.98 * drift + random.uniform(-0.4, 0.4)
        warmest_in_the_afternoon = 6 * math.sin((minute / 60 - 9) * math.pi / 12)
        f.write(f"{-2 + warmest_in_the_afternoon + drift:.2f}\n")
