"""Prints the temperatures in a file that the application has sent: python show.py FILE"""

import struct
import sys

with open(sys.argv[1], "rb") as f:
    for length, fahrenheit in struct.iter_unpack(">Id", f.read()):
        print(f"{fahrenheit:.1f}")
