"""Writes requests.txt: two minutes of requests, by peaceful visitors and by some who are not."""

import random

random.seed(99)

pages = ["/", "/news", "/search", "/about"]
requests = []


def visit(address, start, end, requests_a_second):
    time = start + random.expovariate(requests_a_second)
    while time < end:
        requests.append((time, address))
        time += random.expovariate(requests_a_second)


# Addresses that are set aside for examples.
for number in range(1, 51):
    visit(f"192.0.2.{number}", 0, 120, random.uniform(0.05, 0.6))

# In a hurry, but below the limit.
visit("192.0.2.77", 0, 120, 4)

visit("198.51.100.4", 20, 32, 35)
visit("198.51.100.9", 25, 31, 50)
# Comes back after a pause.
visit("203.0.113.200", 10, 20, 30)
visit("203.0.113.200", 20, 60, 0.5)
visit("203.0.113.200", 60, 68, 40)

with open("requests.txt", "w") as f:
    for time, address in sorted(requests):
        f.write(f"{time:.3f} {address} GET {random.choice(pages)}\n")
