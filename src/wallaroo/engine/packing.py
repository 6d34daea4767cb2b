"""Packs many objects at once: taken apart into columns where that loses nothing, which is many times faster.

Pickle calls methods for every object of a class, and keeps track of all it has met in case it meets it again. Messages
and states are mostly plain: texts and numbers, tuples of them, objects with nothing else for attributes. Many such
objects of one class are written as the class, the names of its attributes and one list for each attribute. Whatever is
not so simple, or has its own idea of being pickled, is left to pickle.
"""

from __future__ import annotations

import copyreg
import io
import pickle
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from inspect import getattr_static
from itertools import starmap
from keyword import iskeyword
from operator import itemgetter
from typing import Any
from weakref import WeakSet

from wallaroo.engine.loops import Loop

PLAIN = frozenset({str, bytes, int, float, bool, type(None)})
"""Classes whose objects hold no other objects."""

Parts = tuple[Any, Any]
"""What objects have in common (None for plain ones), and their columns."""

_DEEPEST = 8

_not_taken_apart: WeakSet[type] = WeakSet()
"""Classes whose objects turned out to hold more than plain ones; they are not tried again."""


def pack(*many: Sequence[Any]) -> bytes:
    """Return some sequences of objects as bytes.

    >>> unpack(pack(["a", "b"], [("x", 1.5), ("y", 2.5)]))
    [['a', 'b'], [('x', 1.5), ('y', 2.5)]]
    """
    packed = pack_plain(*many)
    if packed is None:
        packed = pickle.dumps([(None, list(objects)) for objects in many], pickle.HIGHEST_PROTOCOL)
    return packed


def pack_plain(*many: Sequence[Any]) -> bytes | None:
    """Return the same where all objects are plain or made of plain ones, and so are sure to be unpacked; else None."""
    parts = list(map(_take_apart, many))
    if None in parts:
        return None
    buffer = io.BytesIO()
    pickler = pickle.Pickler(buffer, pickle.HIGHEST_PROTOCOL)
    # Without a memo, which is most of pickle's work on short texts. Plain objects do not hold themselves.
    pickler.fast = True
    pickler.dump(parts)
    return buffer.getvalue()


def unpack(data: bytes | memoryview) -> list[list[Any]]:
    """Return what `pack` packed."""
    return list(starmap(_put_together, pickle.loads(data)))


def _take_apart(objects: Sequence[Any], depth: int = 0) -> Parts | None:
    """Return objects as columns of plain ones, None where that cannot be done without losing something."""
    kinds = set(map(type, objects))
    if kinds <= PLAIN:
        return None, objects
    if len(kinds) > 1:
        return None
    (kind,) = kinds
    if kind in _not_taken_apart or depth == _DEEPEST:  # An object may hold itself.
        return None
    names, rows = _rows(kind, objects)
    width = len(rows[0]) if rows else 0
    parts = [_take_apart(list(map(itemgetter(at), rows)), depth + 1) for at in range(width)]
    if not parts or None in parts:
        _not_taken_apart.add(kind)
        return None
    shapes, columns = zip(*filter(None, parts), strict=True)
    return (kind, names, shapes), columns


def _rows(kind: type, objects: Sequence[Any]) -> tuple[tuple[str, ...], Sequence[tuple[Any, ...]]]:
    """Return the names of the attributes of objects (none for tuples), and a row of values for each object.

    There are no rows where objects of one class differ in what they have.
    """
    if kind is tuple or _is_named_tuple(kind):
        return (), objects if len(set(map(len, objects))) == 1 else ()
    if _is_simple(kind):
        attributes = list(map(vars, objects))
        names = tuple(attributes[0])
        if len(set(map(len, attributes))) == 1 and names and _are_just_set(kind, names):
            try:
                # A single name would give the values without a row around them.
                rows = map(itemgetter(*names), attributes)
                return names, list(rows if len(names) > 1 else zip(rows, strict=True))
            except KeyError:
                pass
    return (), ()


def _put_together(shape: Any, columns: Any) -> list[Any]:
    """Return the objects that were taken apart."""
    if shape is None:
        return columns if isinstance(columns, list) else list(columns)
    kind, names, shapes = shape
    rows = zip(*map(_put_together, shapes, columns), strict=True)
    if kind is tuple:
        return list(rows)
    if not names:
        return list(map(partial(tuple.__new__, kind), rows))
    return _maker(kind, names)(rows)


@lru_cache(maxsize=1000)
def _is_named_tuple(kind: type) -> bool:
    return kind.__bases__ == (tuple,) and hasattr(kind, "_fields") and _pickles_as_usual(kind)


@lru_cache(maxsize=1000)
def _is_simple(kind: type) -> bool:
    """Tell whether all there is to an object is its `__dict__`, also for pickle."""
    return (
        _has_usual(kind, "__new__")
        and kind.__basicsize__ - _room_for(kind) == object.__basicsize__
        and bool(kind.__dictoffset__)
        and not any(hasattr(kind, name) for name in ("__setstate__", "__getnewargs__", "__getnewargs_ex__"))
        and _pickles_as_usual(kind)
    )


def _room_for(kind: type) -> int:
    """Return how much of an object is for its dictionary and its weak references, where these are in the object."""
    pointer = tuple.__itemsize__
    return pointer * ((kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0))


def _pickles_as_usual(kind: type) -> bool:
    return kind not in copyreg.dispatch_table and _has_usual(kind, "__reduce__", "__reduce_ex__", "__getstate__")


def _has_usual(kind: type, *names: str) -> bool:
    """Tell whether a class has left these as they are."""
    return all(getattr(kind, name) is getattr(object, name) for name in names)


@lru_cache(maxsize=1000)
def _maker(kind: type, names: tuple[str, ...]) -> Callable[[Iterable[tuple[Any, ...]]], list[Any]]:
    """Return what makes objects of rows, without calling anything of the user's."""
    loop = Loop("rows")
    loop.line("made = []")
    with loop.block("for row in rows:"):
        loop.line(f"each = {loop.name(object.__new__, 'new')}({loop.name(kind, 'kind')})")
        if _has_usual(kind, "__setattr__"):
            loop.line("".join(f"each.{name}, " for name in names) + "= row")
        else:  # That of a frozen dataclass, say, which pickle does not ask either.
            put = loop.name(object.__setattr__, "put")
            for at, name in enumerate(names):
                loop.line(f"{put}(each, {name!r}, row[{at}])")
        loop.line("made.append(each)")
    loop.line("return made")
    return loop.compiled()


@lru_cache(maxsize=1000)
def _are_just_set(kind: type, names: tuple[str, ...]) -> bool:
    """Tell whether to set these attributes does nothing else."""
    return all(
        name.isidentifier() and not iskeyword(name) and not hasattr(type(getattr_static(kind, name, None)), "__set__")
        for name in names
    )
