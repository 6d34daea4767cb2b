"""Sends each line of a log file, then the marker that ends the day: python sender.py HOST:PORT FILE"""

import socket
import struct
import sys


def send_message(connection, text):
    message = text.encode("utf-8")
    connection.sendall(struct.pack(">I", len(message)))
    connection.sendall(message)


if __name__ == "__main__":
    host, port = sys.argv[1].split(":")
    file_to_send = sys.argv[2]
    with socket.create_connection((host, int(port))) as connection:
        with open(file_to_send, encoding="utf-8") as f:
            for line in f:
                send_message(connection, line.rstrip("\n"))
        send_message(connection, "END_OF_DAY")
        # Wallaroo closes its side once it has read everything. A day that is sent before that, on another
        # connection, may be faster than the rest of this one.
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)
    print(f"{file_to_send} sent to {host}:{port}")
