"""Heads of buckets: what names the durable entries of a state, in the commit and on the way there."""

from __future__ import annotations

from typing import Any, NamedTuple


class Place(NamedTuple):
    """Where an entry lies."""

    file: str
    offset: int


class StoredHead(NamedTuple):
    """The head of a bucket, and where its entries are."""

    head: bytes
    places: dict[int, Place]

    def as_json(self) -> list[Any]:
        """Return it as JSON has it."""
        return [self.head.decode(), [[number, *place] for number, place in self.places.items()]]

    @classmethod
    def from_json(cls, data: list[Any]) -> StoredHead:
        """Return what `as_json` gave.

        >>> head = StoredHead(b"{}", {3: Place("a", 7)})
        >>> StoredHead.from_json(head.as_json()) == head
        True
        """
        return cls(data[0].encode(), {number: Place(file, offset) for number, file, offset in data[1]})


BucketName = tuple[str, int]
"""A state, and the number of one of its buckets."""
