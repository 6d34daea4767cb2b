"""What is found wrong with generators."""

import pytest

import wallaroo
from wallaroo.connectors.generator.kind import GeneratorKind


class Counter:
    def initial_value(self):
        return 0

    def apply(self, v):
        return v + 1


def generated(**methods):
    return wallaroo.GenSourceConfig(type("Odd", (Counter,), methods)())


async def later(_self):
    return 0


def several(_self, v):
    yield v


class CounterFrom(Counter):
    def __init__(self, first):
        self.first = first


@pytest.mark.parametrize(
    "config",
    [
        wallaroo.GenSourceConfig(Counter),
        wallaroo.GenSourceConfig("n", Counter()),
        wallaroo.GenSourceConfig(CounterFrom(5)),
    ],
)
def test_good_generators(config):
    assert list(GeneratorKind().mistakes(config)) == []


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (wallaroo.GenSourceConfig(5, Counter()), "the name of the source config must be a string; got 5 (an int)"),
        (
            wallaroo.GenSourceConfig([1, 2]),
            "the generator [1, 2] has no method initial_value and no apply: a generator is an object with",
        ),
        (generated(apply=None), "the generator Odd(...) has no method apply: a generator is"),
        (
            generated(initial_value=lambda _, first: first),
            "initial_value of the generator Odd(...) must allow no arguments; it is written as initial_value(first)",
        ),
        (
            generated(apply=lambda _: 1),
            "apply of the generator Odd(...) must allow 1 argument, as in apply(v); it is written as apply()",
        ),
        (generated(initial_value=later), "initial_value of the generator Odd(...) is an async function: write `def`"),
        (
            wallaroo.GenSourceConfig(type("Odd", (Counter,), {"apply": several})),
            "apply of the generator Odd is a generator function, with `yield` in it: write `return`, with one message",
        ),
        (
            wallaroo.GenSourceConfig(CounterFrom),
            "CounterFrom cannot be made without arguments: give an object, CounterFrom(first), not the class",
        ),
    ],
)
def test_generators_with_mistakes(config, expected):
    (mistake,) = GeneratorKind().mistakes(config)
    assert expected in mistake
