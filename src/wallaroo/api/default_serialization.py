"""Wallaroo's default serialization of objects."""

from __future__ import annotations

import pickle
from typing import Any

from wallaroo.class_changes import loads


def serialize(obj: Any) -> bytes:
    """Return `obj` as bytes that `deserialize` turns back into an equal object.

    Args:
        obj: Any object that can be pickled.

    Returns:
        The bytes.

    Raises:
        Exception: The object cannot be pickled; the type of the exception depends on the object.

    >>> deserialize(serialize({"word": "hello", "count": 2}))
    {'word': 'hello', 'count': 2}
    """
    return pickle.dumps(obj, protocol=pickle.HIGHEST_PROTOCOL)


def deserialize(bs: bytes) -> Any:
    """Return the object in `bs`, which must come from `serialize` in a program you trust: unpickling may run code.

    Args:
        bs: What `serialize` returned.

    Returns:
        The object.

    >>> deserialize(serialize(["any", b"object", None]))
    ['any', b'object', None]
    """
    return loads(bs)
