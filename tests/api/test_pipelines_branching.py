"""Pipelines that are continued several times from one place: what is shared runs once, then each branch in its turn."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wallaroo
from wallaroo import testing
from wallaroo.topology.drawing import draw
from wallaroo.topology.fingerprint import describe
from wallaroo.topology.model import SinkGroup
from wallaroo.topology.step_identity import find_spot, path_of, spots_of


@wallaroo.encoder
def encode(data):
    return str(data)


@wallaroo.key_extractor
def first_letter(text):
    return text[0]


@wallaroo.state_computation("count", list)
def count(text, seen):
    seen.append(text)
    return f"{text}{len(seen)}"


@wallaroo.state_computation("remember", list)
def remember(text, seen):
    seen.append(text)
    return f"{text} {' '.join(seen)}"


def sink(port, name=None):
    return wallaroo.TCPSinkConfig("127.0.0.1", port, encode, name=name)


class Calls:
    """Makes sources and steps that note when they are called."""

    def __init__(self):
        self.made = []

    def source(self, name="p"):
        def decode(bs):
            self.made.append(("decode", bs))
            return bs.decode()

        return wallaroo.source(name, wallaroo.TCPSourceConfig("127.0.0.1", 0, wallaroo.decoder(decode)))

    def step(self, name):
        def compute(data):
            self.made.append((name, data))
            return f"{data}{name}"

        return wallaroo.computation(name)(compute)


@pytest.fixture
def calls():
    return Calls()


def test_what_comes_before_a_fork_runs_once_and_branches_run_in_their_order(calls):
    base = calls.source().to(calls.step("a"))
    x = base.to(calls.step("b")).to_sink(sink(1, "x"))
    y = base.to(calls.step("c")).to_sink(sink(2, "y"))
    application = wallaroo.build_application("app", x, y)
    assert testing.run_all(application, [b"1", b"2"]) == {"p[x]": ["1ab", "2ab"], "p[y]": ["1ac", "2ac"]}
    first = [("decode", b"1"), ("a", "1"), ("b", "1a"), ("c", "1a")]
    assert calls.made == [*first, ("decode", b"2"), ("a", "2"), ("b", "2a"), ("c", "2a")]
    calls.made.clear()
    testing.run_all(wallaroo.build_application("app", y, x), [b"1"])
    assert calls.made == [("decode", b"1"), ("a", "1"), ("c", "1a"), ("b", "1a")]


def test_merging_branches_that_have_their_sinks_is_the_same_as_giving_both(calls):
    base = calls.source().to(calls.step("a"))
    x, y = base.to(calls.step("b")).to_sink(sink(1)), base.to_sink(sink(2))
    merged, given_both = wallaroo.build_application("app", x.merge(y)), wallaroo.build_application("app", x, y)
    assert testing.run_all(merged, ["1"]) == testing.run_all(given_both, ["1"]) == {"p[0]": ["1ab"], "p[1]": ["1a"]}


def test_the_pipeline_has_every_step_once(calls):
    base = calls.source().to(calls.step("a"))
    x = base.to(calls.step("b")).to_sink(sink(1))
    y = base.key_by(first_letter).to(count).to_sinks([sink(2), sink(3)])
    (pipeline,) = wallaroo.build_application("app", x, y, base).pipelines
    assert [step.name for step in pipeline.steps] == ["a", "b", "key_by first_letter", "count"]
    shown = [[each.sinks if isinstance(each, SinkGroup) else each for each in targets] for targets in pipeline.ways]
    assert shown == [[0], [1, 2], [(0,)], [3], [(1, 2)]]


def test_branches_may_branch_again_and_right_after_the_source(calls):
    source = calls.source()
    a = source.to(calls.step("a"))
    ab, ac = a.to(calls.step("b")), a.to(calls.step("c"))
    ends = [source, a, ab, ac, ab.to(calls.step("d")), source.to(calls.step("e"))]
    application = wallaroo.build_application("app", *(end.to_sink(sink(port)) for port, end in enumerate(ends, 1)))
    outputs = testing.run_all(application, ["1"])
    assert list(outputs.values()) == [["1"], ["1a"], ["1ab"], ["1ac"], ["1abd"], ["1e"]]
    assert Counter(name for name, _ in calls.made) == dict.fromkeys("abcde", 1)


def test_a_state_before_a_fork_is_changed_once(calls):
    counted = calls.source().key_by(first_letter).to(count)
    application = wallaroo.build_application("app", counted.to_sink(sink(1)), counted.to(remember).to_sink(sink(2)))
    memory = testing.InMemory(application).send(["x", "x", "y"])
    assert memory.outputs("p[0]") == ["x1", "x2", "y1"]
    assert memory.outputs("p[1]") == ["x1 x1", "x2 x1 x2", "y1 y1"]
    assert memory.states("count") == {"x": ["x", "x"], "y": ["y"]}


def test_a_key_is_for_its_own_branch(calls):
    base = calls.source()
    keyed, plain = base.key_by(first_letter).to(count), base.to(remember)
    # The branch without a key comes behind the one with a key, and before it.
    for branches in ((keyed, plain), (plain, keyed)):
        memory = testing.InMemory(wallaroo.build_application("app", *branches)).send(["ab", "cd", "ae"])
        assert memory.states("count") == {"a": ["ab", "ae"], "c": ["cd"]}
        assert memory.states("remember") == {None: ["ab", "cd", "ae"]}


def test_a_key_from_before_the_fork_stays_in_every_branch(calls):
    @wallaroo.key_extractor
    def last_letter(text):
        return text[-1]

    base = calls.source().key_by(first_letter)
    application = wallaroo.build_application("app", base.key_by(last_letter).to(count), base.to(remember))
    memory = testing.InMemory(application).send(["ab", "cb"])
    assert memory.states("count") == {"b": ["ab", "cb"]}
    assert memory.states("remember") == {"a": ["ab"], "c": ["cb"]}


def test_branches_that_are_merged_again_give_each_message_once_from_each(calls):
    base = calls.source()
    merged = base.to(calls.step("a")).merge(base.to(calls.step("b"))).to(count)
    memory = testing.InMemory(wallaroo.build_application("app", merged.to_sink(sink(1)))).send(["1", "2"])
    assert memory.outputs() == ["1a1", "1b2", "2a3", "2b4"]
    (pipeline,) = wallaroo.build_application("app", merged.to_sink(sink(1))).pipelines
    assert [step.name for step in pipeline.steps] == ["a", "b", "count"]


def test_a_branch_with_a_key_and_one_without_may_be_merged(calls):
    base = calls.source()
    for merged in (base.key_by(first_letter).merge(base), base.merge(base.key_by(first_letter))):
        memory = testing.InMemory(wallaroo.build_application("app", merged.to(count))).send(["ab", "cd"])
        assert memory.states("count") == {"a": ["ab"], "c": ["cd"], None: ["ab", "cd"]}


def test_branches_may_end_in_the_same_sink(calls):
    base = calls.source()
    whole = sink(1, "all")
    application = wallaroo.build_application(
        "app", base.to(calls.step("a")).to_sink(whole), base.to(calls.step("b")).to_sink(whole)
    )
    assert testing.run(application, ["1", "2"]) == ["1a", "1b", "2a", "2b"]


def test_an_error_in_a_branch_does_not_affect_the_others(calls):
    @wallaroo.computation("fail")
    def fail(data):
        raise ValueError(data)

    base = calls.source().to(calls.step("a"))
    application = wallaroo.build_application("app", base.to(fail).to_sink(sink(1)), base.to_sink(sink(2)))
    memory = testing.InMemory(application, keep_errors=True).send(["1"])
    assert (memory.outputs("p[0]"), memory.outputs("p[1]")) == ([], ["1a"])
    assert [(letter["step"], letter["place"], letter["message"]) for letter in memory.errors] == [
        ("fail", "step 2", "'1a'")
    ]


def test_several_sources_are_merged_and_branch_together(calls):
    merged = calls.source("p").merge(calls.source("q").to(calls.step("q"))).to(calls.step("a"))
    branches = merged.to(calls.step("b")).to_sink(sink(1)), merged.key_by(first_letter).to(count).to_sink(sink(2))
    memory = testing.InMemory(wallaroo.build_application("app", *branches))
    memory.send(["x"], to="p").send(["x"], to="q").send(["x"], to="p")
    assert {name: memory.outputs(name) for name in memory.sinks} == {
        "p[0]": ["xab", "xab"],
        "p[1]": ["xa1", "xa3"],
        "q[0]": ["xqab"],
        "q[1]": ["xqa2"],
    }
    assert memory.states("count") == {"x": ["xa", "xqa", "xa"]}


def passing(number, bit):
    """Return a step for numbers in which a bit is that of its own number; it changes the bits of higher numbers."""

    def compute(data):
        return data ^ (bit + 1) << number + 1 if data >> number & 1 == bit else None

    return wallaroo.computation(f"{number}: {bit}")(compute)


def adding(number):
    """Return a step that adds to each number the sum of those before it, within limits."""

    @wallaroo.state_computation(f"add {number}", list)
    def add(data, seen):
        seen.append(data)
        return sum(seen) % 2**50

    return add


def through_forks(data, many):
    """Return what a number becomes in `passing` steps."""
    for number in range(many):
        data ^= ((data >> number & 1) + 1) << number + 1
    return data


def forks_in_series(source, many):
    for number in range(many):
        source = source.to(passing(number, 0)).merge(source.to(passing(number, 1)))
    return source


def test_any_number_of_forks_and_merges_in_series():
    numbers = list(range(50))
    application = wallaroo.build_application("app", forks_in_series(Calls().source(), 40).to_sink(sink(1)))
    assert testing.run(application, numbers) == [through_forks(each, 40) for each in numbers]
    names = [f"{number}: {bit}" for number in range(40) for bit in (0, 1)]
    (pipeline,) = application.pipelines
    assert [step.name for step in pipeline.steps] == names
    assert [method for method, *_ in application] == ["source", *["to"] * 80, "to_sink"]
    assert len(describe(application)["pipelines"][0]["ways"]) == 81
    text = draw(application)
    assert all(f"│ {name} ├" in text for name in names)
    for spot in spots_of(pipeline):
        assert find_spot(pipeline, spot.kind, path_of(pipeline, spot)) == spot


def test_any_number_of_forks_with_states_in_their_branches():
    pipeline = Calls().source().merge(Calls().source("q"))
    for number in range(20):
        even, odd = pipeline.to(passing(number, 0)), pipeline.to(passing(number, 1))
        pipeline = even.to(adding(2 * number)).merge(odd.to(adding(2 * number + 1)))
    memory = testing.InMemory(wallaroo.build_application("app", pipeline.to_sink(sink(1))))
    memory.send(range(9), to="p").send(range(9, 20), to="q")
    totals, expected = Counter(), []
    for data in range(20):
        for number in range(20):
            bit = data >> number & 1
            data ^= (bit + 1) << number + 1  # noqa: PLW2901
            totals[number, bit] += data
            data = totals[number, bit] % 2**50  # noqa: PLW2901
        expected.append(data)
    assert memory.outputs("p") + memory.outputs("q") == expected


EXTEND, MERGE = "extend", "merge"
ANY = st.integers(0, 99)
CHANGES = st.lists(st.tuples(st.sampled_from([EXTEND, EXTEND, MERGE]), ANY, ANY), max_size=9)


@settings(deadline=None)
@given(CHANGES)
def test_any_branches_and_merges_give_what_each_way_gives_by_itself(changes):
    calls = Calls()
    # Each pipeline with the ways that lead to its end, as the names of the steps on them.
    made = [(calls.source(), {""})]
    for number, (change, one, other) in enumerate(changes):
        pipeline, ways = made[one % len(made)]
        if change == EXTEND:
            name = "abcdefghi"[number]
            made.append((pipeline.to(calls.step(name)), {way + name for way in ways}))
        else:
            second, more = made[other % len(made)]
            if not ways & more:
                made.append((pipeline.merge(second), ways | more))
    ended = [(pipeline.to_sink(sink(port, f"to {port}")), ways) for port, (pipeline, ways) in enumerate(made, 1)]
    application = wallaroo.build_application("app", *(pipeline for pipeline, _ in ended))
    memory = testing.InMemory(application).send(["1-", "2-"])
    for (_, ways), name in zip(ended, memory.sinks, strict=True):
        outputs = memory.outputs(name)
        assert Counter(outputs) == Counter(message + way for message in ("1-", "2-") for way in ways)
        assert [output[0] for output in outputs] == sorted(output[0] for output in outputs)
    # Each step has had each message once for each way that leads to it.
    prefixes = {way[:length] for _, ways in ended for way in ways for length in range(1, len(way) + 1)}
    expected = Counter((way[-1], message + way[:-1]) for way in prefixes for message in ("1-", "2-"))
    assert Counter(calls.made) == expected
