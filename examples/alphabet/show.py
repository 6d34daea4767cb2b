"""Prints the latest total of each letter in a file that the application has sent: python show.py FILE"""

import struct
import sys

totals = {}

with open(sys.argv[1], "rb") as f:
    for length, letter, total in struct.iter_unpack(">IsQ", f.read()):
        totals[letter.decode("ascii")] = total

for letter in sorted(totals):
    print(letter, totals[letter])
