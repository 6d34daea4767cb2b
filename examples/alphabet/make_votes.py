"""Writes votes.bin: ten thousand messages, each with votes for a letter. Some letters are more popular than others."""

import random
import string
import struct

random.seed(26)

popularity = [random.randint(1, 9) for _ in string.ascii_lowercase]

with open("votes.bin", "wb") as f:
    for letter in random.choices(string.ascii_lowercase, popularity, k=10_000):
        # Big shares of votes, so that the totals outgrow four bytes.
        votes = random.randrange(100_000_000)
        f.write(struct.pack(">IsI", 5, letter.encode("ascii"), votes))
