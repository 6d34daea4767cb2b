"""Numbers as people write and read them: sizes in bytes, and counts with their nouns."""

from __future__ import annotations

import re

from wallaroo.errors import WallarooError

_UNITS = {
    "GiB": 1 << 30,
    "GB": 10**9,
    "MiB": 1 << 20,
    "MB": 10**6,
    "KiB": 1 << 10,
    "kB": 10**3,
}
# A single letter has the meaning that it has in Spark's own settings.
_BY_NAME = {name.lower(): size for name, size in _UNITS.items()} | {
    "": 1,
    "b": 1,
    "bytes": 1,
    "k": 1 << 10,
    "m": 1 << 20,
    "g": 1 << 30,
}


def parse_size(text: str) -> int:
    """Return the number of bytes that `text` stands for.

    >>> parse_size("64MiB"), parse_size("1GB"), parse_size("1.5 kib"), parse_size("1_000")
    (67108864, 1000000000, 1536, 1000)
    >>> parse_size("many")
    Traceback (most recent call last):
    wallaroo.errors.WallarooError: 'many' is not a size. Write a number of bytes, or one with a unit: 64MiB, 1GB, 500kB.
    """
    found = re.fullmatch(r"(\d[\d_]*(?:\.\d+)?)\s*([a-z]*)", text.strip().lower(), re.ASCII)
    if found is None or found[2] not in _BY_NAME:
        raise WallarooError(f"{text!r} is not a size. Write a number of bytes, or one with a unit: 64MiB, 1GB, 500kB.")
    unit = _BY_NAME[found[2]]
    return round(float(found[1]) * unit) if "." in found[1] else int(found[1]) * unit


def readable_size(size: int) -> str:
    """Return a size in the most readable unit.

    >>> readable_size(64 << 20), readable_size(10**9), readable_size(1_234_567), readable_size(999)
    ('64 MiB', '1 GB', '1.2 MiB', '999 bytes')
    """
    for name, unit in _UNITS.items():
        if size >= unit and size % unit == 0:
            return f"{size // unit:,} {name}"
    for name, unit in _UNITS.items():
        if size >= unit and name.endswith("iB"):
            return f"{size / unit:,.1f} {name}"
    return plural(size, "byte")


def plural(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless the number is one.

    >>> plural(1, "message"), plural(0, "message"), plural(2000, "dead letter")
    ('1 message', '0 messages', '2,000 dead letters')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
