"""Heads of buckets: they refer to the durable entries of a state, in the commit and in the reports for it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NamedTuple


class Place(NamedTuple):
    """Where an entry is stored."""

    file: str
    offset: int


class StoredHead(NamedTuple):
    """The head of a bucket, and where its entries are."""

    head: bytes
    places: dict[int, Place]

    def as_json(self) -> list[Any]:
        """Return data that can be written as JSON."""
        return [self.head.decode(), [[number, *place] for number, place in self.places.items()]]

    @classmethod
    def from_json(cls, data: list[Any]) -> StoredHead:
        """Return the head that `as_json` was called on.

        >>> head = StoredHead(b"{}", {3: Place("a", 7)})
        >>> StoredHead.from_json(head.as_json()) == head
        True
        """
        return cls(data[0].encode(), {number: Place(file, offset) for number, file, offset in data[1]})


BucketName = tuple[str, int]
"""A state, and the number of one of its buckets."""


def entry_sizes(head: bytes) -> list[int]:
    """Return the size of each entry that a head refers to.

    >>> entry_sizes(BucketHead(2, [(1, 70), (2, 5)]).dump())
    [70, 5]
    """
    return [size for _, size in BucketHead.load(head).entries]


@dataclass
class BucketHead:
    """The version of a bucket, and its entries."""

    version: int
    entries: list[tuple[int, int]]
    """Number and size of each entry, the oldest first."""

    @classmethod
    def load(cls, data: bytes | None) -> BucketHead:
        """Return the head that `dump` was called on; for None, the head of a bucket that was never written."""
        if data is None:
            return cls(0, [])
        # Between the two there was something else in earlier versions.
        version, *_, entries = json.loads(data)
        return cls(version, [(number, size) for number, size in entries])

    def dump(self) -> bytes:
        """Return the head as bytes."""
        return json.dumps([self.version, self.entries]).encode()


class StateSize(NamedTuple):
    """The size of a state."""

    buckets: int
    """How many buckets have ever had a key."""
    entries: int
    bytes: int
    """The size of all entries."""
