"""The README of `examples/celsius`, followed."""

import struct

from .readme import EXAMPLES


def fahrenheit(celsius):
    # The sender rounds to four bytes.
    return struct.unpack("<f", struct.pack("<f", celsius))[0] * 1.8 + 32


def test_every_temperature_is_converted_in_order(walkthrough):
    text = (EXAMPLES / "celsius" / "temperatures.txt").read_text()
    expected = [fahrenheit(float(line)) for line in text.splitlines()]
    walk = walkthrough("celsius")
    received = walk.folder / "fahrenheit.bin"

    walk.start("wallaroo receive")
    walk.start("machida")
    walk.run("python send.py")
    walk.wait_until(lambda: received.stat().st_size >= 12 * len(expected), "all temperatures")
    shown = walk.run("python show.py").splitlines()
    assert shown == [f"{degrees:.1f}" for degrees in expected]
    assert shown[: len(walk.shown)] == walk.shown
    walk.make_data_again("python make_temperatures.py", "temperatures.txt")
    walk.finish()

    assert received.read_bytes() == b"".join(struct.pack(">Id", 8, degrees) for degrees in expected)
