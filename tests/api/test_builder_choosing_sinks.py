"""`to_sinks` with `choose`: which output goes to which sink, and every mistake that can be made with it."""

import enum

import pytest

import wallaroo
from wallaroo import testing


@wallaroo.decoder
def decode(bs):
    return bs.decode()


@wallaroo.encoder
def encode(data):
    return f"<{data}>"


@wallaroo.computation_multi("split")
def split(text):
    return text.split()


@wallaroo.state_computation("count", list)
def count(word, seen):
    seen.append(word)
    return word * len(seen)


def sink(port, name=None):
    return wallaroo.TCPSinkConfig("127.0.0.1", port, encode, name=name)


def source_config():
    return wallaroo.TCPSourceConfig("127.0.0.1", 0, decode)


def with_builder(sinks, choose):
    return wallaroo.ApplicationBuilder("app").new_pipeline("p", source_config()).to_sinks(sinks, choose=choose).build()


def with_chain(sinks, choose):
    return wallaroo.build_application("app", wallaroo.source("p", source_config()).to_sinks(sinks, choose=choose))


WAYS = pytest.mark.parametrize("build", [with_builder, with_chain])


def three():
    return [sink(1, "a"), sink(2, "b"), sink(3, "c")]


class Names(enum.StrEnum):
    B = "b"


@WAYS
@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ("a", "a"),
        ("c", "c"),
        (Names.B, "b"),
        (["a"], "a"),
        (["c", "a"], "ac"),
        (("b", "c"), "bc"),
        ({"a", "b", "c"}, "abc"),
        (frozenset("b"), "b"),
        (["b", "b"], "b"),
        (None, ""),
        ([], ""),
        ((), ""),
        (set(), ""),
    ],
)
def test_an_output_goes_where_choose_says(build, chosen, expected):
    outputs = testing.run_all(build(three(), lambda output: chosen), ["x"])
    assert outputs == {f"p[{name}]": ["x"] if name in expected else [] for name in "abc"}


@WAYS
def test_choose_is_called_once_for_each_output_before_it_is_encoded(build):
    seen = []

    def choose(output):
        seen.append(output)
        return ["a", "b"]

    outputs = testing.run_all(build(three(), choose), [b"x", b"y"], encoded=True)
    assert seen == ["x", "y"]
    assert outputs == {"p[a]": [b"<x>", b"<y>"], "p[b]": [b"<x>", b"<y>"], "p[c]": []}


def test_choose_is_given_the_output_of_a_step_or_a_state():
    words = wallaroo.source("p", source_config()).to(split)
    choose = lambda word: "a" if len(word) < 3 else "b"  # noqa: E731
    memory = testing.InMemory(wallaroo.build_application("app", words.to(count).to_sinks(three(), choose=choose)))
    memory.send(["x y z", "w"])
    assert [memory.outputs(f"p[{name}]") for name in "abc"] == [["x", "yy"], ["zzz", "wwww"], []]


def test_without_choose_names_change_nothing():
    application = with_builder(three(), None)
    assert testing.run_all(application, ["x"]) == {"p[a]": ["x"], "p[b]": ["x"], "p[c]": ["x"]}
    assert application[-1][0] == "to_sinks"
    assert len(application[-1]) == 2


def test_a_single_sink_may_be_chosen_or_not():
    application = with_builder([sink(1, "only")], lambda output: None if output == "no" else "only")
    assert testing.run(application, ["yes", "no", "yes"]) == ["yes", "yes"]


def test_sinks_of_several_declarations_are_chosen_by_each_of_their_own():
    base = wallaroo.source("p", source_config())
    one = base.to_sinks([sink(1, "a"), sink(2, "b")], choose=lambda output: output)
    other = base.to_sinks([sink(3, "c"), sink(4, "d")], choose=lambda output: "d" if output == "a" else None)
    outputs = testing.run_all(wallaroo.build_application("app", one, other, base.to_sink(sink(5))), ["a", "b"])
    assert outputs == {"p[a]": ["a"], "p[b]": ["b"], "p[c]": [], "p[d]": ["a"], "p[4]": ["a", "b"]}


def test_a_name_of_digits_does_not_hide_another_sink():
    application = with_builder([sink(1, "1"), sink(2)], None)
    assert testing.run_all(application, ["x"]) == {"p[0]": ["x"], "p[1]": ["x"]}


@pytest.mark.parametrize(
    ("chosen", "error"),
    [
        ("d", "there is no sink 'd' to choose; the sinks are 'a', 'b', 'c'"),
        (["a", "d"], "there is no sink 'd' to choose; the sinks are 'a', 'b', 'c'"),
        ("", "there is no sink '' to choose"),
        (7, "expected the name of a sink, a list, tuple or set of names, or None for no sink, got an int: 7"),
        (True, "expected the name of a sink, a list, tuple or set of names, or None for no sink, got a bool: True"),
        (["a", 7], "expected the name of a sink, a list, tuple or set of names, or None for no sink, got a list"),
        ([["a"]], "expected the name of a sink, a list, tuple or set of names, or None for no sink, got a list"),
        (b"a", "expected the name of a sink, a list, tuple or set of names, or None for no sink, got a bytes: b'a'"),
        ({"a": 1}, "expected the name of a sink, a list, tuple or set of names, or None for no sink, got a dict"),
    ],
)
def test_an_unknown_sink_name_is_an_error_and_the_output_is_not_sent(chosen, error):
    application = with_builder(three(), lambda output: chosen if output == "bad" else "a")
    memory = testing.InMemory(application, keep_errors=True).send(["x", "bad", "y"])
    assert memory.outputs("p[a]") == ["x", "y"]
    assert memory.outputs("p[b]") == memory.outputs("p[c]") == []
    (letter,) = memory.errors
    assert (letter["pipeline"], letter["step"], letter["place"]) == ("p", "choose", "choose 1")
    assert (letter["message"], letter["position"]) == ("'bad'", 1)
    assert error in letter["error"]


def test_choose_may_raise():
    def choose(output):
        raise ValueError(f"nowhere for {output}")

    with pytest.raises(testing.StepError, match="step 'choose' failed for the message 'x': ValueError: nowhere for x"):
        testing.run_all(with_builder(three(), choose), ["x"])


def mistakes_of(build, sinks, choose):
    with pytest.raises(wallaroo.WallarooParameterError) as refused:
        build(sinks, choose)
    return str(refused.value).split("\n  - ")[1:]


async def later(_output):
    return "a"


A_NAME = 'write wallaroo.TCPSinkConfig(..., name="sink name")'


@WAYS
@pytest.mark.parametrize(
    ("sinks", "choose", "expected"),
    [
        (
            [sink(1, "a"), sink(2)],
            str,
            [
                "choose must be a function that is given an output and returns the name of a sink; got the class str",
                f"sink 2 of 2 has no name, by which choose could pick it: {A_NAME}",
            ],
        ),
        (
            [sink(1), sink(2)],
            repr,
            [
                f"sink 1 of 2 has no name, by which choose could pick it: {A_NAME}",
                f"sink 2 of 2 has no name, by which choose could pick it: {A_NAME}",
            ],
        ),
        (
            three(),
            "a",
            ["choose must be a function that is given an output and returns the name of a sink; got 'a' (a str)"],
        ),
        (
            three(),
            later,
            ["choose, later, is an async function: write `def`, and asyncio.run(...) around what has to be awaited"],
        ),
        (
            three(),
            lambda: "a",
            ["choose must allow 1 argument, as in choose(output); it is written as <lambda>()"],
        ),
        (
            [sink(1, 5), sink(2, "")],
            repr,
            [
                "the name of the sink must be a string; got 5 (an int)",
                "the name of the sink is empty: give it a name, or leave it out",
            ],
        ),
        (
            [5, sink(1, "a")],
            repr,
            [
                "a sink must be a sink config; got 5 (an int): write wallaroo.TCPSinkConfig(host, port, encoder)",
            ],
        ),
    ],
)
def test_every_mistake_is_listed(build, sinks, choose, expected):
    assert mistakes_of(build, sinks, choose) == [f"pipeline 'p', to_sinks: {mistake}." for mistake in expected]


SAME = sink(1, "a")


@WAYS
@pytest.mark.parametrize("choose", [None, lambda output: "a"])
@pytest.mark.parametrize("sinks", [[sink(1, "a"), sink(2, "b"), sink(3, "a")], [SAME, SAME]])
def test_two_sinks_of_a_pipeline_cannot_have_the_same_name(build, choose, sinks):
    assert mistakes_of(build, sinks, choose) == [
        "pipeline 'p': two sinks are called 'a': give each sink a name of its own."
    ]


def test_one_sink_after_another_is_a_mistake_even_with_names():
    with pytest.raises(wallaroo.WallarooParameterError, match="the pipeline already has its sink"):
        wallaroo.build_application("app", wallaroo.source("p", source_config()).to_sink(SAME).to_sinks([SAME]))


def test_sinks_of_different_pipelines_may_have_the_same_name():
    lines = [wallaroo.source(name, source_config()).to_sinks(three(), choose=lambda output: "b") for name in "pq"]
    application = wallaroo.build_application("app", *lines)
    assert testing.run_all(application, {"q": ["x"]})["q[b]"] == ["x"]
