"""Packs many objects together: as columns if that is lossless, which is many times faster than pickle.

Pickle calls methods for every object of a class, and memoizes every object in case it occurs again. Messages and states
are mostly plain: strings and numbers, tuples of them, objects with such attributes. Many objects of one class are
written as the class, the names of its attributes and one list per attribute. Objects that are more complex, customize
pickling, or occur more than once, are left to pickle.
"""

from __future__ import annotations

import copyreg
import io
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from inspect import getattr_static
from itertools import islice, repeat, starmap
from keyword import iskeyword
from operator import countOf, itemgetter
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from wallaroo.class_changes import loads
from wallaroo.engine.loop_codegen import GeneratedLoop

_NOTHING: Iterator[Any] = iter(())


class Stream:
    """Objects that arrived together, each of which is made when it is taken.

    An object that was just made is in the processor's cache, and if it is dropped before the next one is made, that one
    gets the same memory. Making all of them first and then using them takes longer.

    >>> rows = iter([1, 2, 3])
    >>> stream = Stream(None, map(str, rows), rows)
    >>> stream.next(2), stream.next(1)
    (['1', '2'], ['3'])
    >>> Stream([1, 2, 3]).next(2)
    [1, 2]
    """

    __slots__ = ("at", "counter", "made", "ready")

    def __init__(
        self, ready: list[Any] | None, made: Iterator[Any] = _NOTHING, counter: Iterator[Any] = _NOTHING
    ) -> None:
        self.ready = ready
        """The objects, if they exist already: taking slices of a list is faster still. None if they are in `made`."""
        self.at = 0
        """The index in `ready` of the next object."""
        self.made = made
        """Makes the next object."""
        self.counter = counter
        """An iterator that has as many items left as `made` and, unlike that, knows how many."""

    def next(self, count: int) -> list[Any]:
        """Return the next objects, fewer than `count` at the end."""
        if self.ready is None:
            return list(islice(self.made, count))
        self.at += count
        return self.ready[self.at - count : self.at]


PLAIN = frozenset({str, bytes, int, float, bool, type(None)})
"""Classes whose objects contain no other objects."""

Parts = tuple[Any, Any]
"""The common shape of objects (None for plain ones), and their columns."""

_DEEPEST = 8
_WIDE = 16
"""Columns are for many objects with few attributes each. A tuple with many items may occur many times."""
_LONG_VALUE = 256
_FRAME = 64 << 10

_PASSES = 100
"""How many times objects of a class are left to pickle after they turned out not to be plain."""
_passes: WeakKeyDictionary[type, int] = WeakKeyDictionary()


def pack(*many: Sequence[Any]) -> bytes:
    """Return several sequences of objects as bytes.

    >>> unpack(pack(["a", "b"], [("x", 1.5), ("y", 2.5)]))
    [['a', 'b'], [('x', 1.5), ('y', 2.5)]]
    """
    packed = pack_plain(*many)
    if packed is None:
        packed = pickle.dumps([(None, list(objects)) for objects in many], pickle.HIGHEST_PROTOCOL)
    return packed


def pack_plain(*many: Sequence[Any]) -> bytes | None:
    """Return the same if all objects consist of plain ones, so that unpacking cannot fail; otherwise None."""
    dissection = _Dissection()
    parts = list(map(dissection.take_apart, many))
    if None in parts:
        return None
    # Long values may be few objects that occur many times, which pickle would write once.
    buffer = _Buffer(_FRAME + _LONG_VALUE * dissection.values)
    pickler = pickle.Pickler(buffer, pickle.HIGHEST_PROTOCOL)
    # Without a memo, which is most of pickle's work for short strings. Plain objects cannot be recursive.
    pickler.fast = True
    try:
        pickler.dump(parts)
    except _TooLongError:
        return None
    return buffer.getvalue()


def unpack(data: bytes | memoryview) -> list[list[Any]]:
    """Return what `pack` packed."""
    return list(starmap(_put_together, loads(data)))


def unpack_stream(data: bytes | memoryview) -> tuple[list[list[Any]], Stream]:
    """Return what `pack` packed, the last sequence as a stream.

    No user code is run while the stream is read.

    >>> keys, stream = unpack_stream(pack(["a", "b"], [("x", 1.5), ("y", 2.5), ("z", 3.5)]))
    >>> keys, stream.next(2), stream.next(1)
    ([['a', 'b']], [('x', 1.5), ('y', 2.5)], [('z', 3.5)])
    """
    *others, (shape, columns) = loads(data)
    return list(starmap(_put_together, others)), _stream(shape, columns)


class _TooLongError(Exception):
    """The output is so large that columns do not pay off."""


class _Buffer(io.BytesIO):
    """A buffer with a maximum size. Pickle writes many values at a time."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._room = most

    def write(self, data: Any) -> int:
        self._room -= len(data)
        if self._room < 0:
            raise _TooLongError
        return super().write(data)


class _Dissection:
    """Splits objects into columns, and remembers which objects it has seen."""

    def __init__(self) -> None:
        self._met: set[int] = set()
        self.values = 0
        """How many plain objects there are in all columns."""

    def take_apart(self, objects: Sequence[Any], depth: int = 0) -> Parts | None:
        """Return objects as columns of plain ones, None if that would not be lossless."""
        kind = _only_kind(objects)
        if kind in PLAIN or (kind is None and set(map(type, objects)) <= PLAIN):
            self.values += len(objects)
            return None, objects
        if kind is None or depth == _DEEPEST:
            return None
        if passes := _passes.get(kind):
            _passes[kind] = passes - 1
            return None
        names, rows = _rows(kind, objects)
        width = len(rows[0]) if rows else 0
        if width > _WIDE and (width > len(objects) or len(set(map(id, objects))) < len(objects)):
            return None
        parts = [self.take_apart(column, depth + 1) for column in _columns(rows)]
        if not parts or None in parts or (names and self._meets(objects)):
            _passes[kind] = _PASSES
            return None
        shapes, columns = zip(*filter(None, parts), strict=True)
        return (kind, names, shapes), columns

    def _meets(self, objects: Sequence[Any]) -> bool:
        """Return whether one of these objects occurs more than once, so that unpacking would duplicate it."""
        before = len(self._met)
        self._met.update(map(id, objects))
        return len(self._met) < before + len(objects)


def _only_kind(objects: Sequence[Any]) -> type | None:
    """Return the class of all objects, None if there are several or none."""
    kind = type(objects[0]) if objects else None
    # Counting is faster than a set of all classes.
    return kind if countOf(map(type, objects), kind) == len(objects) else None


def _columns(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the columns of rows; none if the rows have different lengths."""
    try:
        return list(zip(*rows, strict=True))
    except ValueError:
        return []


def _rows(kind: type, objects: Sequence[Any]) -> tuple[tuple[str, ...], Sequence[tuple[Any, ...]]]:
    """Return the names of the attributes of objects (none for tuples), and a row of values for each object.

    There are no rows if the objects have different attributes; those of tuples may have different lengths.
    """
    if kind is tuple or _is_named_tuple(kind):
        return (), objects
    if _is_simple(kind):
        attributes = list(map(vars, objects))
        names = tuple(attributes[0])
        # The same names in the same order, because the order of `__dict__` is observable.
        if len(set(map(tuple, attributes))) == 1 and names and _are_just_set(kind, names):
            rows = map(itemgetter(*names), attributes)
            # With a single name, itemgetter returns the value itself and not a tuple.
            return names, list(rows if len(names) > 1 else zip(rows, strict=True))
    return (), ()


def _put_together(shape: Any, columns: Any) -> list[Any]:
    """Return the objects that were split into columns."""
    stream = _stream(shape, columns)
    return list(stream.made) if stream.ready is None else stream.ready


def _stream(shape: Any, columns: Any) -> Stream:
    """Return the same objects as a stream."""
    if shape is None:
        return Stream(columns if isinstance(columns, list) else list(columns))
    kind, names, shapes = shape
    first, *others = map(_put_together, shapes, columns)
    counter = iter(first)
    rows = zip(counter, *others, strict=True)
    if kind is tuple:
        return Stream(None, rows, counter)
    if names and _is_simple(kind) and _are_just_set(kind, names):
        return Stream(None, _maker(kind, names)(rows), counter)
    if not names and _is_named_tuple(kind) and len(getattr(kind, "_fields", ())) == len(shapes):
        return Stream(None, map(tuple.__new__, repeat(kind), rows), counter)
    # The class is another one than it was when the objects were packed, so that user code is called.
    return Stream(_made_as_pickle_does(kind, names, rows))


class _Named(NamedTuple):
    """A reference for all classes of named tuples: their methods share the same code."""

    value: Any


@lru_cache(maxsize=1000)
def _is_named_tuple(kind: type) -> bool:
    """Return whether objects of this class have no data besides the items of the tuple."""
    return (
        kind.__bases__ == (tuple,)
        and _code(kind, "__getnewargs__") is _code(_Named, "__getnewargs__")
        and not kind.__dictoffset__
        and _pickles_as_usual(kind)
    )


def _code(kind: type, method: str) -> Any:
    return getattr(getattr(kind, method, None), "__code__", None)


@lru_cache(maxsize=1000)
def _is_simple(kind: type) -> bool:
    """Return whether objects of this class have no data besides their `__dict__`, also for pickle."""
    return (
        _has_usual(kind, "__new__")
        and kind.__basicsize__ - _room_for(kind) == object.__basicsize__
        and bool(kind.__dictoffset__)
        and not any(hasattr(kind, name) for name in ("__setstate__", "__getnewargs__", "__getnewargs_ex__"))
        and _pickles_as_usual(kind)
    )


def _room_for(kind: type) -> int:
    """Return the size of the pointers to the dictionary and the weak references, if they are in the object itself."""
    pointer = tuple.__itemsize__
    return pointer * ((kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0))


def _pickles_as_usual(kind: type) -> bool:
    return kind not in copyreg.dispatch_table and _has_usual(kind, "__reduce__", "__reduce_ex__", "__getstate__")


def _has_usual(kind: type, *names: str) -> bool:
    """Return whether a class does not override these methods of `object`."""
    return all(getattr(kind, name) is getattr(object, name) for name in names)


@lru_cache(maxsize=1000)
def _maker(kind: type, names: tuple[str, ...]) -> Callable[[Iterable[tuple[Any, ...]]], Iterator[Any]]:
    """Return a function that creates objects from rows, one by one, without calling user code."""
    loop = GeneratedLoop("rows")
    with loop.block("for row in rows:"):
        loop.line(f"each = {loop.name(object.__new__, 'new')}({loop.name(kind, 'kind')})")
        if _has_usual(kind, "__setattr__"):
            loop.line("".join(f"each.{name}, " for name in names) + "= row")
        else:  # For example a frozen dataclass; pickle bypasses its `__setattr__`, too.
            put = loop.name(object.__setattr__, "put")
            for at, name in enumerate(names):
                loop.line(f"{put}(each, {name!r}, row[{at}])")
        loop.line("yield each")
    return loop.compiled(shown=False)


def _made_as_pickle_does(kind: type, names: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Return objects of rows: each without a call of `__init__`, and given its attributes by `__setstate__`, if any.

    Without names they are named tuples, whose class may have defaults for what is new.
    """
    if not names:
        return [kind.__new__(kind, *row) for row in rows]
    made = []
    for row in rows:
        each: Any = copyreg.__newobj__(kind)  # type: ignore[attr-defined]
        attributes = dict(zip(names, row, strict=True))
        if hasattr(each, "__setstate__"):
            each.__setstate__(attributes)
        elif hasattr(each, "__dict__"):
            each.__dict__.update(attributes)
        else:
            for name, value in attributes.items():
                setattr(each, name, value)
        made.append(each)
    return made


@lru_cache(maxsize=1000)
def _are_just_set(kind: type, names: tuple[str, ...]) -> bool:
    """Return whether these attributes can be set by generated source, without side effects."""
    return all(
        type(name) is str
        # Python normalizes non-ASCII identifiers, and names such as `__debug__` have a special meaning.
        and name.isascii()
        and name.isidentifier()
        and not iskeyword(name)
        and not name.startswith("__")
        and not _is_managed(type(getattr_static(kind, name, None)))
        for name in names
    )


def _is_managed(kind: type) -> bool:
    return hasattr(kind, "__set__") or hasattr(kind, "__delete__")
