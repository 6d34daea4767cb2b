"""Checks of what user code returns: the loops call them for every result that is not of the usual type."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from wallaroo.introspection import a_type_of


class ReturnShapeError(Exception):
    """User code returned a value of the wrong shape for its kind of step."""


class UnknownSinkError(Exception):
    """A `choose` returned a name that is not the name of one of its sinks."""


def checked_list(results: Any) -> list[Any]:
    """Return the results of a multi step as a list; None means no results.

    >>> checked_list(None), checked_list((1, 2))
    ([], [1, 2])
    >>> checked_list("a b")
    Traceback (most recent call last):
        ...
    wallaroo.engine.stages.result_checks.ReturnShapeError: expected a list of results or None, got a str: 'a b'
    """
    if results is None:
        return []
    if isinstance(results, list | tuple):
        return list(results)
    raise ReturnShapeError(f"expected a list of results or None, got {a_type_of(results)}: {results!r:.80}")


def checked_names(chosen: Any, known: Collection[str]) -> Collection[str]:
    """Return the result of a `choose` as a collection of known sink names; None means no sink.

    >>> checked_names("large", ["small", "large"]), checked_names(None, ["small", "large"])
    (('large',), ())
    >>> checked_names(["small", "huge"], ["small", "large"])
    Traceback (most recent call last):
        ...
    wallaroo.engine.stages.result_checks.UnknownSinkError: there is no sink 'huge' ...; the sinks are 'small', 'large'
    """
    if chosen is None:
        return ()
    names = (chosen,) if isinstance(chosen, str) else chosen
    if not isinstance(names, list | tuple | set | frozenset) or not all(isinstance(name, str) for name in names):
        raise ReturnShapeError(
            "expected the name of a sink, a list, tuple or set of names, or None for no sink, got "
            f"{a_type_of(chosen)}: {chosen!r:.80}"
        )
    for name in names:
        if name not in known:
            raise UnknownSinkError(
                f"there is no sink {name!r:.80} to choose; the sinks are {', '.join(map(repr, known))}"
            )
    return names


def checked_pair(result: Any) -> tuple[Any, Any]:
    """Return the result of a state computation as (output, save_state).

    >>> checked_pair(("out", True))
    ('out', True)
    >>> checked_pair("out")
    Traceback (most recent call last):
        ...
    wallaroo.engine.stages.result_checks.ReturnShapeError: expected a tuple (output, save_state), got a str: 'out'
    """
    if isinstance(result, tuple) and len(result) == 2:
        return result
    raise ReturnShapeError(f"expected a tuple (output, save_state), got {a_type_of(result)}: {result!r:.80}")


def checked_save(save: Any) -> bool:
    """Return `save_state`, the second of the two results of a state computation.

    A value that is not a bool is probably a second output, with `save_state` forgotten after it.

    >>> checked_save(False)
    False
    >>> checked_save("b")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    wallaroo.engine.stages.result_checks.ReturnShapeError: expected True or False for save_state, got a str: ...
    """
    # NumPy's comparisons return its own bool type; NumPy is not imported just to check for it.
    kind = type(save)
    if kind is bool or (kind.__module__ == "numpy" and kind.__name__ in ("bool", "bool_")):
        return bool(save)
    raise ReturnShapeError(
        f"expected True or False for save_state, got {a_type_of(save)}: {save!r:.80}. Write `return output, True` to "
        "have the state saved, `return output, False` if not, and `return (a, b), True` for a pair"
    )


def checked_bytes(encoded: Any) -> bytes:
    r"""Return the result of an encoder as bytes; text is encoded as UTF-8.

    >>> checked_bytes("é")
    b'\xc3\xa9'
    >>> checked_bytes(7)
    Traceback (most recent call last):
        ...
    wallaroo.engine.stages.result_checks.ReturnShapeError: expected bytes (or text, sent as UTF-8), got an int: 7
    """
    if isinstance(encoded, str):
        return encoded.encode()
    if isinstance(encoded, bytes | bytearray | memoryview):
        return bytes(encoded)
    raise ReturnShapeError(f"expected bytes (or text, sent as UTF-8), got {a_type_of(encoded)}: {encoded!r:.80}")
