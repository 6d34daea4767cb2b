"""Sends each temperature of a file: python send.py HOST:PORT FILE"""

import socket
import struct
import sys

host, port = sys.argv[1].split(":")

with socket.create_connection((host, int(port))) as connection, open(sys.argv[2]) as f:
    for line in f:
        connection.sendall(struct.pack(">If", 4, float(line)))
