"""What is found wrong with steps, states, partitions and keys."""

import functools

import pytest

import wallaroo
from wallaroo.topology import validate
from wallaroo.topology.model import State


@wallaroo.computation("double")
def double(data):
    return data * 2


@wallaroo.state_computation("keep")
def keep(data, state=None):
    return data, True


@wallaroo.partition
def parity(data):
    return data % 2


class Single:
    def name(self):
        return "single"

    def compute(self, data):
        return data


class Stateful:
    def name(self):
        return "stateful"

    def compute_multi(self, data, state):
        return [data], True


class Both(Single):
    def compute_multi(self, data):
        return [data]


class Nameless:
    def compute(self, data):
        return data


class NumberedName(Single):
    def name(self):
        return 7


class BrokenName(Single):
    def name(self):
        raise KeyError("no name")


class ThreeArguments(Single):
    def compute(self, data, state, more):
        return data, state, more


class NeedsArguments(Single):
    def __init__(self, factor):
        self.factor = factor


class Builder:
    def build(self):
        return []


def plain(data):
    return data


@pytest.mark.parametrize(
    ("computation", "stateful"), [(double, False), (keep, True), (Single(), False), (Stateful(), True)]
)
def test_good_computations(computation, stateful):
    assert list(validate.computation_mistakes(computation, "it", stateful=stateful)) == []


@pytest.mark.parametrize(
    ("computation", "stateful", "expected"),
    [
        (plain, False, 'it is a plain function: write @wallaroo.computation("it") above it'),
        (plain, True, 'write @wallaroo.state_computation("it") above it'),
        (functools.partial(plain), False, "it is a plain function"),
        (parity, False, "it has neither compute(data) nor compute_multi(data)"),
        (5, True, "it has neither compute(data, state) nor compute_multi(data, state)"),
        (Both(), False, "it has both compute and compute_multi"),
        (Nameless(), False, "it has no method name"),
        (NumberedName(), False, "what name() of it returns must be a string; got 7 (an int)"),
        (BrokenName(), False, "name() of it failed with KeyError: 'no name'"),
        (keep, False, "it is a state computation: write to_stateful(it"),
        (Stateful(), False, "it is a state computation: write to_stateful(it"),
        (double, True, "it is a computation without state: write to(it)"),
        (Single(), True, "it is a computation without state: write to(it)"),
        (
            ThreeArguments(),
            False,
            "must allow 1 argument, as in compute(data); it is written as compute(data, state, m",
        ),
        (ThreeArguments(), True, "must allow 2 arguments, as in compute(data, state)"),
    ],
)
def test_computations_with_mistakes(computation, stateful, expected):
    (mistake,) = validate.computation_mistakes(computation, "it", stateful=stateful)
    assert expected in mistake


def test_a_class_that_needs_arguments_cannot_be_given_as_a_class():
    (mistake,) = validate.making_mistakes(NeedsArguments)
    assert "give an object, NeedsArguments(factor), not the class" in mistake
    assert list(validate.making_mistakes(NeedsArguments(2))) == []
    assert list(validate.making_mistakes(Single)) == []


@pytest.mark.parametrize("state", [dict, Single, Builder, Builder(), lambda: {"a": 1}, functools.partial(int, "5")])
def test_good_states(state):
    assert list(validate.state_mistakes(state)) == []


class BuilderWithArgument:
    def build(self, size):
        return [0] * size


class BuilderThatNeedsArguments(Builder):
    def __init__(self, size):
        self.size = size


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (Single(), "got Single(...) (a Single): give the class itself, Single"),
        ({}, "got {} (a dict): give the class itself, a class of yours"),
        (None, "got None"),
        (
            NeedsArguments,
            "the state NeedsArguments cannot be made without arguments (NeedsArguments(factor))",
        ),
        (
            BuilderWithArgument,
            "build of the state builder BuilderWithArgument must be a method without arguments",
        ),
        (BuilderWithArgument(), "must be a method without arguments"),
        (BuilderThatNeedsArguments, "give an object, BuilderThatNeedsArguments(size), not the class"),
    ],
)
def test_states_with_mistakes(state, expected):
    (mistake,) = validate.state_mistakes(state)
    assert expected in mistake


class ByParity:
    def partition(self, data):
        return data % 2


class WithoutData:
    def partition(self):
        return 1


class ParityOfBase(ByParity):
    def __init__(self, base):
        self.base = base


class ParityAsKey:
    def extract_key(self, data):
        return data % 2


@pytest.mark.parametrize("kind", ["partition", "key_extractor"])
@pytest.mark.parametrize("partition", [parity, ByParity(), ByParity, ParityAsKey(), ParityAsKey])
def test_good_partitions(partition, kind):
    assert list(validate.partition_mistakes(partition, kind)) == []


@pytest.mark.parametrize(
    ("partition", "expected"),
    [
        (plain, "plain is a plain function: write @wallaroo.partition above it"),
        (Single(), "has no method partition"),
        (double, "has no method partition"),
        (WithoutData(), "must allow 1 argument, as in partition(data); it is written as partition()"),
        (ParityOfBase, "give an object, ParityOfBase(base)"),
    ],
)
def test_partitions_with_mistakes(partition, expected):
    (mistake,) = validate.partition_mistakes(partition)
    assert expected in mistake


class TwoArguments:
    def extract_key(self, data, more):
        return data


@pytest.mark.parametrize(
    ("extractor", "expected"),
    [
        (plain, "the key extractor plain is a plain function: write @wallaroo.key_extractor above it"),
        (Single(), "has no method extract_key: write a function with @wallaroo.key_extractor above it, or a class wi"),
        ("text", "the key extractor 'text' has no method extract_key"),
        (TwoArguments(), "extract_key of TwoArguments(...) must allow 1 argument, as in extract_key(data); it is writ"),
    ],
)
def test_key_extractors_with_mistakes(extractor, expected):
    (mistake,) = validate.partition_mistakes(extractor, "key_extractor")
    assert expected in mistake


@pytest.mark.parametrize("keys", [None, [], ["a", ("b", 1), None, 2.5]])
def test_good_keys(keys):
    assert list(validate.key_mistakes(keys, u64=False)) == []


def test_good_u64_keys():
    assert list(validate.key_mistakes([0, 1, 2**64 - 1], u64=True)) == []


@pytest.mark.parametrize(
    ("keys", "u64", "expected"),
    [
        (
            "abc",
            False,
            ["partition_keys must be a list of keys; got 'abc' (a str): write list('abc') where each letter"],
        ),
        (3, True, ["partition_keys must be a list of keys; got 3 (an int): write a list, or leave it out for any key"]),
        (["a", ["b"], "c"], False, ["the partition key ['b'] cannot be hashed"]),
        ([("a", [])], False, ["the partition key ('a', []) cannot be hashed"]),
        (["a", "b", "a"], False, ["the partition key 'a' is in partition_keys more than once"]),
        ([1, 1.0], False, ["the partition key 1.0 is in partition_keys more than once"]),
        (
            [-1, "a", 2**64, True],
            True,
            ["got -1 (an int)", "got 'a' (a str)", "got 1844", "got True (a bool)"],
        ),
        ([3, 3], True, ["the partition key 3 is in partition_keys more than once"]),
    ],
)
def test_keys_with_mistakes(keys, u64, expected):
    mistakes = list(validate.key_mistakes(keys, u64=u64))
    assert len(mistakes) == len(expected)
    assert all(part in mistake for part, mistake in zip(expected, mistakes, strict=True))


SHARED = State("totals", dict, partitioned=True, keys=frozenset("ab"))


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (State("totals", dict, partitioned=True, keys=frozenset("ba")), []),
        (State("totals", list, partitioned=True, keys=frozenset("ab")), ["with dict, here with list"]),
        (State("totals", dict, partitioned=False, keys=None), ["with partitions, here without"]),
        (State("totals", dict, partitioned=True, keys=None), ["with other partition_keys"]),
        (State("totals", dict, partitioned=True, keys=frozenset("a")), ["with other partition_keys"]),
        (State("totals", list, partitioned=False, keys=None), ["with dict, here with list", "here without"]),
    ],
)
def test_one_name_is_one_state(other, expected):
    mistakes = list(validate.shared_state_mistakes(other, SHARED, "first"))
    assert len(mistakes) == len(expected)
    for part, mistake in zip(expected, mistakes, strict=True):
        assert part in mistake
        assert "the state name 'totals' is already used in pipeline 'first'" in mistake


def test_builders_of_one_class_make_one_state():
    one, other = (State("totals", Builder(), partitioned=False, keys=None) for _ in range(2))
    assert list(validate.shared_state_mistakes(one, other, "first")) == []
