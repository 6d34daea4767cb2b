"""Partitioning of keys: keys are hashed into buckets, and buckets are spread evenly over Spark's partitions.

A bucket is the unit of placement. Its number must not depend on the process that computes it, so keys have our own
stable hash. Spark places a bucket by its own hash of the bucket's id, so ids are chosen for an even distribution.
"""

from __future__ import annotations

import dataclasses
import enum
import zlib
from collections.abc import Hashable
from itertools import count
from typing import Any

_MASK = 0xFFFFFFFF


def stable_hash(key: Hashable) -> int:  # noqa: C901, PLR0911 - one for each kind of key
    """Return a hash of `key` that is the same in every process, and the same for equal keys.

    >>> stable_hash("acorn") == stable_hash("acorn")
    True
    >>> stable_hash(1) == stable_hash(1.0) == stable_hash(True)
    True
    >>> stable_hash(("a", 1)) == stable_hash(("a", 2))
    False
    """
    # The order matters: bool is an int, an enum may be a str or an int, and a named tuple equals a plain tuple.
    if isinstance(key, str):
        return _scramble(zlib.crc32(key.encode("utf-8", "surrogatepass")))  # A plain CRC keeps similar keys together.
    if isinstance(key, bytes):
        return _scramble(zlib.crc32(key, 1))
    if isinstance(key, int | float | complex):
        return _scramble(hash(key))  # Python's hash of numbers is not randomized.
    if isinstance(key, tuple):
        result = 0x345678
        for item in key:
            result = (result * 1000003 ^ stable_hash(item)) & _MASK
        return _scramble(result)
    if isinstance(key, frozenset):
        result = 0
        for item in key:
            result ^= _scramble(stable_hash(item))
        return _scramble(result)
    if key is None:
        return 0x9E3779B9
    if isinstance(key, enum.Enum):
        return _scramble(zlib.crc32(f"{type(key).__qualname__}.{key.name}".encode()))
    if (fields := _hashed_fields(key)) is not None:
        return stable_hash((type(key).__qualname__, *fields))
    # A user's own class: only its __hash__ is consistent with its __eq__. Workers run with a fixed PYTHONHASHSEED, so
    # it is the same in all of them.
    return _scramble(hash(key))


def _hashed_fields(key: Any) -> tuple[Any, ...] | None:
    """Return the hashed fields of a dataclass with the generated `__eq__`; None for anything else.

    Its own hash is not stable: it depends on the fields' hashes, and before Python 3.12 that of None is an address.
    """
    if not dataclasses.is_dataclass(key):
        return None
    code = getattr(type(key).__eq__, "__code__", None)
    if code is None or code.co_filename != "<string>":  # Generated methods have no source file.
        return None
    hashed = [field for field in dataclasses.fields(key) if (field.compare if field.hash is None else field.hash)]
    return tuple(getattr(key, field.name) for field in hashed)


def _scramble(value: int) -> int:
    """Spread neighbouring numbers over 32 bits."""
    value = (value ^ (value >> 32)) & _MASK
    value = (value ^ (value >> 16)) * 0x85EBCA6B & _MASK
    value = (value ^ (value >> 13)) * 0xC2B2AE35 & _MASK
    return value ^ (value >> 16)


def spark_hash(value: int) -> int:
    """Return the value of Spark's `hash` function for a 32-bit integer column (Murmur3, seed 42).

    >>> spark_hash(0), spark_hash(1)
    (933211791, -559580957)
    """
    k = value * 0xCC9E2D51 & _MASK
    k = (k << 15 | k >> 17) & _MASK
    k = k * 0x1B873593 & _MASK
    h = 42 ^ k
    h = (h << 13 | h >> 19) & _MASK
    h = (h * 5 + 0xE6546B64) & _MASK
    h ^= 4
    h ^= h >> 16
    h = h * 0x85EBCA6B & _MASK
    h ^= h >> 13
    h = h * 0xC2B2AE35 & _MASK
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h


def spread_ids(number: int, partitions: int) -> list[int]:
    """Return `number` ids, of which Spark places the i-th in partition `i % partitions`.

    >>> [spark_hash(i) % 2 for i in spread_ids(6, 2)]
    [0, 1, 0, 1, 0, 1]
    """
    waiting: list[list[int]] = [[] for _ in range(partitions)]
    candidates = count()
    ids: list[int] = []
    for index in range(number):
        wanted = waiting[index % partitions]
        while not wanted:
            candidate = next(candidates)
            waiting[spark_hash(candidate) % partitions].append(candidate)
        ids.append(wanted.pop(0))
    return ids
