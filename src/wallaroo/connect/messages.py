"""What other systems have, as messages: text, bytes or JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from wallaroo.errors import WallarooError
from wallaroo.introspection import a_kind_of

CODECS = ("text", "bytes", "json")
"""What messages may be: strings, bytes, or what JSON has."""


def parsed(data: bytes, codec: str) -> Any:
    r"""Return the message that another system has as `data`.

    >>> parsed(b"caf\xc3\xa9", "text"), parsed(b"[1, 2]", "json"), parsed(b"hello", "bytes")
    ('café', [1, 2], b'hello')
    >>> parsed(b"\xff", "text")
    Traceback (most recent call last):
    wallaroo.errors.WallarooError: b'\xff' is not text in UTF-8: is it --codec bytes?
    """
    try:
        if codec == "json":
            return json.loads(data)
        return data.decode() if codec == "text" else data
    except UnicodeDecodeError as error:
        raise WallarooError(f"{data[:80]!r} is not text in UTF-8: is it --codec bytes?") from error
    except (ValueError, RecursionError) as error:
        raise WallarooError(f"{data[:80]!r} is not JSON: is it --codec text?") from error


def as_bytes(message: Any) -> bytes:
    r"""Return a message as another system gets it: text in UTF-8, and anything but text and bytes as JSON.

    >>> as_bytes("hello"), as_bytes(b"hello"), as_bytes(["hello", 2]), as_bytes(["\ud800"])
    (b'hello', b'hello', b'["hello", 2]', b'["\\ud800"]')
    """
    if isinstance(message, bytes | bytearray | memoryview):
        return bytes(message)
    try:
        text = message if isinstance(message, str) else json.dumps(message, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise WallarooError(
            f"{a_kind_of(message)} is neither text nor bytes, and cannot be written as JSON: {error}. Have the decoder "
            "return what can be"
        ) from error
    # Half a pair of surrogates, which JSON may have, is no text; written so it is JSON again.
    return text.encode(errors="backslashreplace")


def as_pairs(message: Any, separator: str) -> list[tuple[bytes, bytes]]:
    r"""Return the fields and values in a message: a pair, a mapping, or text with a separator.

    >>> as_pairs(("hello", 2), "="), as_pairs({"to": 1, "be": 2}, "="), as_pairs("hello => 2\n", " => ")
    ([(b'hello', b'2')], [(b'to', b'1'), (b'be', b'2')], [(b'hello', b'2')])
    >>> as_pairs("hello", " => ")
    Traceback (most recent call last):
    wallaroo.errors.WallarooError: b'hello' has no ' => ' between a field and its value: name another --separator
    """
    if isinstance(message, Mapping):
        return [(_field(field), as_bytes(value)) for field, value in message.items()]
    if isinstance(message, list | tuple) and len(message) == 2:
        return [(_field(message[0]), as_bytes(message[1]))]
    data = as_bytes(message).rstrip(b"\r\n")
    field, found, value = data.partition(separator.encode())
    if not found:
        raise WallarooError(
            f"{data[:80]!r} has no {separator!r} between a field and its value: name another --separator"
        )
    return [(field, value)]


def _field(field: Any) -> bytes:
    return as_bytes(field if isinstance(field, str | bytes) else str(field))
