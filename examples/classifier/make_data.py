"""Writes training.csv (pumps whose condition is known) and readings.csv (pumps to classify), all of them made up."""

import random

random.seed(58)

# Mean and deviation of temperature (degrees Celsius), vibration (mm/s) and current (ampere).
conditions = {
    "fine": [(52, 4), (1.8, 0.4), (11.0, 0.8)],
    "worn bearing": [(63, 6), (5.2, 1.1), (11.8, 0.9)],
    "blocked": [(71, 5), (2.4, 0.6), (15.5, 1.2)],
    "running dry": [(78, 7), (3.6, 0.8), (6.1, 0.9)],
}


def readings(condition):
    return ",".join(f"{random.gauss(mean, deviation):.2f}" for mean, deviation in conditions[condition])


with open("training.csv", "w") as f:
    f.write("temperature,vibration,current,condition\n")
    for condition in conditions:
        for _ in range(40):
            f.write(f"{readings(condition)},{condition}\n")

with open("readings.csv", "w") as f:
    for number in range(1, 1001):
        condition = random.choices(list(conditions), [85, 7, 5, 3])[0]
        f.write(f"pump-{number:04},{readings(condition)}\n")
