"""What is packed is restored as pickle would restore it, whether it was split into columns or not."""

from __future__ import annotations

import copyreg
import enum
import linecache
import math
import pickle
from collections import namedtuple
from dataclasses import dataclass, field
from operator import length_hint
from typing import Any, NamedTuple, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wallaroo.engine.transport import packing
from wallaroo.engine.transport.packing import pack, pack_plain, unpack, unpack_stream


class Order(NamedTuple):
    symbol: str
    price: float


class Old(namedtuple("Old", "a b")):  # noqa: PYI024, SLOT002 - as older programs write it
    pass


class Doubling(namedtuple("Doubling", "a")):  # noqa: PYI024, SLOT002
    def __new__(cls, a: Any) -> Self:
        return super().__new__(cls, a * 2)


class Handmade(tuple):  # noqa: SLOT001 - what it is about
    _fields = ("a", "b")


class Rebuilt(tuple):
    __slots__ = ()
    _fields = ("a", "b")

    def __getnewargs__(self) -> tuple[Any]:
        return ((*self, "rebuilt"),)


class Total:
    def __init__(self, word: str, total: int) -> None:
        self.word = word
        self.total = total


class Child(Total):
    pass


@dataclass
class Reading:
    sensor: str
    value: float | None = None
    tags: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Frozen:
    a: str
    b: int


class Slotted:
    __slots__ = ("__dict__", "a")

    def __init__(self, a: int, b: int) -> None:
        self.a = a
        self.b = b


class Shouting:
    """Has a property of the name of what is in its dictionary."""

    def __init__(self, text: str) -> None:
        self.__dict__["text"] = text

    @property
    def text(self) -> str:
        return self.__dict__["text"].upper()

    @text.setter
    def text(self, text: str) -> None:
        raise AttributeError("cannot be set")


class OnlyDeleted:
    def __delete__(self, thing: Any) -> None:
        raise AttributeError("cannot be deleted")


class Guarded:
    value = OnlyDeleted()

    def __init__(self, value: int) -> None:
        self.__dict__["value"] = value


class Name(str):
    __slots__ = ()


class Counting:
    """Has its own pickling."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __getstate__(self) -> dict[str, Any]:
        return {"number": self.number + 1}


class Resetting:
    def __init__(self, number: int) -> None:
        self.number = number

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.number = -state["number"]


class Registered:
    def __init__(self, number: int) -> None:
        self.number = number


copyreg.pickle(Registered, lambda thing: (Registered, (thing.number + 100,)))


class Colour(enum.Enum):
    RED = 1


class Number(int):
    pass


def described(thing: Any) -> Any:
    """Return all there is to an object, in a form that can be compared."""
    if isinstance(thing, float):
        return ("float", math.copysign(1, thing), repr(thing))
    if isinstance(thing, tuple | list):
        return (type(thing), [described(each) for each in thing], described(getattr(thing, "__dict__", None)))
    if isinstance(thing, dict):
        return [(type(key), key, described(value)) for key, value in thing.items()]
    slots = getattr(thing, "a", None) if isinstance(thing, Slotted) else None
    return (type(thing), described(vars(thing)) if hasattr(thing, "__dict__") else thing, slots)


def odd_attribute() -> Total:
    total = Total("a", 1)
    vars(total)["not a name"] = 2
    return total


def extra_attribute() -> Total:
    total = Total("a", 1)
    total.more = 2  # type: ignore[attr-defined]
    return total


def other_attribute() -> Total:
    total = Total("a", 1)
    del total.total
    total.more = 2  # type: ignore[attr-defined]
    return total


def with_names(names: dict[str, Any]) -> Total:
    total = Total("a", 1)
    vars(total).clear()
    vars(total).update(names)
    return total


def numbered_attribute() -> Total:
    total = Total("a", 1)
    vars(total)[1] = "one"  # type: ignore[index]
    return total


def handmade() -> Handmade:
    made = Handmade([1, 2])
    made.note = "n"  # type: ignore[attr-defined]
    return made


def with_dictionary() -> Old:
    old = Old(1, 2)
    old.more = 3
    return old


@pytest.fixture(autouse=True)
def _forget_classes() -> None:
    packing._passes.clear()


@pytest.mark.parametrize(
    "objects",
    [
        [],
        ["a", "é", "\udcff", "\0", ""],
        [b"a", None, 1, True, 1.5, -0.0, math.nan, 1 << 70],
        [(), ()],
        [("a", 1), ("b", 2)],
        [("a", 1), ("b",)],
        [("a",), ("b", 2)],
        [("a", ("b", Order("c", 1.5))), ("a", ("b", Order("d", 2.5)))],
        [Order("a", 1.5), Order("b", 2.5)],
        [Order("a", [1]), Order("b", [2])],  # type: ignore[arg-type]
        [Order("a", 1.5), ("b", 2.5)],
        [Old(1, 2), Old(3, 4)],
        [Old(1, 2), with_dictionary()],
        [Doubling(1), Doubling(2)],
        [Total("a", 1), Total("b", 2)],
        [Total("a", 1), Child("b", 2)],
        [Child("a", 1), Child("b", 2)],
        [Total("a", 1), extra_attribute()],
        [Total("a", 1), other_attribute()],
        [odd_attribute()],
        [numbered_attribute()],
        [with_names({"µ": 5}), with_names({"µ": 6})],
        [with_names({"µ": 5, "μ": 6})],  # They are equal in Python.
        [with_names({"__debug__": 1})],
        [with_names({"__class__": 1})],
        [with_names({"x": 1, "y": 2}), with_names({"y": 3, "x": 4})],
        [with_names({Name("x"): 1})],
        [Guarded(1), Guarded(2)],
        [handmade(), handmade()],
        [Rebuilt([1, 2]), Rebuilt([3, 4])],
        [Reading("a"), Reading("b", 1.5)],
        [Reading("a", 1.0, ["x"]), Reading("b", None, ["y"])],
        [Frozen("a", 1), Frozen("b", 2)],
        [Slotted(1, 2), Slotted(3, 4)],
        [Shouting("a"), Shouting("b")],
        [Counting(1), Counting(2)],
        [Resetting(1), Resetting(2)],
        [Registered(1), Registered(2)],
        [Colour.RED, Colour.RED],
        [Number(1), Number(2)],
        [[1], [2]],
        [{"a": 1}],
        [Total, Order],
        [print],
        [ValueError("a")],
    ],
    ids=lambda objects: str([type(each).__name__ for each in objects]),
)
def test_objects_are_restored_as_by_pickle(objects: list[Any]) -> None:
    (found,) = unpack(pack(objects))
    assert described(found) == described(pickle.loads(pickle.dumps(objects)))


@pytest.mark.parametrize(
    "objects",
    [
        ["a", "b", "c"],
        [("a", 1), ("b", 2), ("c", 3)],
        [("a", ("b", 1)), ("c", ("d", 2)), ("e", ("f", 3))],
        [Order("a", 1.5), Order("b", 2.5), Order("c", 3.5)],
        [Total("a", 1), Total("b", 2), Total("c", 3)],
        [Frozen("a", 1), Frozen("b", 2), Frozen("c", 3)],
        [Reading("a", 1.0, ["x"]), Reading("b", None, ["y"]), Reading("c")],
        [Counting(1), Counting(2), Counting(3)],
        [("a", 1), ("b",), "c"],
    ],
    ids=lambda objects: str([type(each).__name__ for each in objects]),
)
def test_a_stream_gives_the_same_objects_a_few_at_a_time(objects: list[Any]) -> None:
    packed = pack(["key"], objects)
    (keys,), stream = unpack_stream(packed)
    assert keys == ["key"]
    assert described([*stream.next(2), *stream.next(1)]) == described(unpack(packed)[1])
    assert stream.next(1) == []


def test_a_stream_makes_objects_when_they_are_taken() -> None:
    _, stream = unpack_stream(pack([Order("a", 1.5), Order("b", 2.5), Order("c", 3.5)]))
    assert length_hint(stream.counter) == 3
    assert next(stream.made) == Order("a", 1.5)
    assert length_hint(stream.counter) == 2


@pytest.mark.parametrize(
    "objects",
    [
        ["a", "b"],
        [("a", 1), ("b", 2)],
        [Order("a", 1.5), Order("b", 2.5)],
        [Total("a", 1), Total("b", 2)],
        [Frozen("a", 1), Frozen("b", 2)],
    ],
    ids=lambda objects: str([type(each).__name__ for each in objects]),
)
def test_plain_objects_are_taken_apart(objects: list[Any]) -> None:
    assert pack_plain(objects) is not None


def test_tuples_of_different_lengths_are_left_to_pickle() -> None:
    assert pack_plain([("a",), ("b", 2)]) is None
    assert pack_plain([Order("a", 1.5), tuple.__new__(Order, ("b",))]) is None


def test_objects_that_hold_themselves() -> None:
    total = Total("a", 1)
    total.word = total  # type: ignore[assignment]
    ((found,),) = unpack(pack([total]))
    assert found.word is found


def test_objects_that_share_another_one() -> None:
    shared = ["a"]
    ((one, other),) = unpack(pack([Reading("a", 1.0, shared), Reading("b", 2.0, shared)]))
    assert one.tags is other.tags


@pytest.mark.parametrize("others", [[], [Frozen("a", 1)]])
def test_an_object_that_is_in_two_places_stays_one(others: list[Any]) -> None:
    node = Total("node", 1)
    ((pair, *_),) = unpack(pack([Total(node, node), *others]))  # type: ignore[arg-type]
    assert pair.word is pair.total
    ((pair,),) = unpack(pack([(node, (1, node))]))
    assert pair[0] is pair[1][1]
    ((one, holder),) = unpack(pack([node, node]))
    assert one is holder


def test_a_long_text_that_many_share_is_written_once() -> None:
    text = "long " * 2000
    for objects in ([text] * 1000, [(text, i) for i in range(1000)], [Total(text, i) for i in range(1000)]):
        assert len(pack(objects)) < 100_000
        assert described(unpack(pack(objects))) == described([objects])


def test_long_texts_come_back() -> None:
    texts = [f"{i} " * 1000 for i in range(100)]
    assert unpack(pack(texts)) == [texts]


def test_a_large_tuple_that_many_share_is_written_once() -> None:
    large = tuple(range(500))
    objects = [(large, i) for i in range(2000)]
    assert len(pack(objects)) < 100_000
    ((one, other, *_),) = unpack(pack(objects))
    assert one[0] == large
    assert one[0] is other[0]


def test_a_few_objects_with_many_items_are_left_to_pickle() -> None:
    assert pack_plain([tuple(map(float, range(20_000)))]) is None
    assert pack_plain([tuple(range(20))]) is None


def test_one_different_tuple_does_not_slow_down_all_others_forever() -> None:
    assert pack_plain([(1, [2])]) is None
    assert any(pack_plain([(1, 2)]) for _ in range(200))


def test_any_number_of_classes_and_attributes_leaves_nothing_in_memory() -> None:
    before = len(linecache.cache)
    for i in range(3000):
        unpack(pack([with_names({f"name{i}": i})]))
    assert len(linecache.cache) == before


def test_a_class_that_cannot_be_found_again_is_refused() -> None:
    class Local:
        def __init__(self) -> None:
            self.a = 1

    with pytest.raises((AttributeError, pickle.PicklingError)):
        pack([Local(), Local()])


plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()


@given(
    st.lists(st.builds(Total, plain, plain)),
    st.lists(st.tuples(plain, st.tuples(plain, plain)) | st.lists(plain, max_size=2)),
)
def test_any_packed_objects_are_restored(totals: list[Total], tuples: list[Any]) -> None:
    packing._passes.clear()
    found = unpack(pack(totals, tuples))
    assert described(found) == described(pickle.loads(pickle.dumps([totals, tuples])))
