"""Checks of what scripts pass to their halves of extensions, and of what their codecs return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wallaroo.connectors.extension.protocol import MOST_PARTITION
from wallaroo.errors import WallarooError
from wallaroo.introspection import a_kind_of

if TYPE_CHECKING:
    from collections.abc import Callable

_SEQUENCES = range(-(1 << 63), 1 << 63)


def codec_function(codec: Any, method: str, role: str) -> Callable[[Any], Any]:
    """Return the function of a decoder or encoder."""
    if isinstance(codec, type) and codec.__module__ != "builtins" and hasattr(codec, method):
        raise WallarooError(f"The {role} is the class {codec.__name__}: write {codec.__name__}() to make one.")
    # Python's own types, such as str and bytes, are functions here.
    found = codec if isinstance(codec, type) else getattr(codec, method, codec)
    if not callable(found):
        above = f"@wallaroo.experimental.streaming_message_{role}"
        raise WallarooError(f"The {role} must be a function with {above} above it; got {a_kind_of(codec)}.")
    function: Callable[[Any], Any] = found
    return function


def checked_bytes(encoded: Any) -> bytes | None:
    """Return what an encoder has returned as bytes, None if it has nothing to send."""
    if encoded is None:
        return None
    if isinstance(encoded, str):
        return encoded.encode()
    if isinstance(encoded, bytes | bytearray | memoryview):
        return bytes(encoded)
    raise WallarooError(f"The encoder must return bytes or text; it returned {a_kind_of(encoded)}.")


def checked_partition(partition: Any) -> str:
    """Return the name of a partition.

    >>> checked_partition(7), checked_partition(None)
    ('7', '')
    """
    name = "" if partition is None else str(partition)
    if len(name) > MOST_PARTITION // 4 and len(name.encode("utf-8", "surrogatepass")) > MOST_PARTITION:
        raise WallarooError(
            f"The name of a partition has at most {MOST_PARTITION} bytes; got one of {len(name):,} characters."
        )
    return name


def checked_sequence(sequence: Any) -> int:
    """Return a sequence, if it is one."""
    if not isinstance(sequence, int) or isinstance(sequence, bool) or sequence not in _SEQUENCES:
        raise WallarooError(f"A sequence is a whole number of at most 63 bits; got {a_kind_of(sequence)}.")
    return sequence
