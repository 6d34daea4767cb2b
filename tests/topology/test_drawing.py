"""Drawings of applications."""

import importlib.util
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wallaroo
from wallaroo.connectors import registry
from wallaroo.topology.drawing import columns, draw
from wallaroo.topology.model import (
    Application,
    Computation,
    KeyBy,
    Pipeline,
    SinkGroup,
    State,
    StateComputation,
    line_of,
)

PROJECT = Path(__file__).parents[2]


def named(name, decorator):
    def function(data):
        return data

    function.__name__ = name
    return decorator(function)


def source(port=7010, host="127.0.0.1"):
    return wallaroo.TCPSourceConfig(host, port, named("decode", wallaroo.decoder))


def sink(port=7002, encoder="encode", name=None):
    return wallaroo.TCPSinkConfig("127.0.0.1", port, named(encoder, wallaroo.encoder), name=name)


def step(name, *, multi=False):
    return Computation(name, None, multi)


def on_state(name, state, *, multi=False):
    return StateComputation(name, None, multi, state, None)


def drawn(*pipelines, width=100, name="Test"):
    return draw(Application(name, pipelines), width)


def picture(text):
    """Return a drawing as it is written in a test, without the margin of the source code."""
    return "\n".join(line.removeprefix("    ").rstrip() for line in text.strip().splitlines())


def test_the_word_count_of_the_examples():
    spec = importlib.util.spec_from_file_location("drawn_word_count", PROJECT / "examples/word_count/word_count.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    application = module.application_setup(["--in", "127.0.0.1:7010", "--out", "127.0.0.1:7002"])
    assert draw(application) == picture("""
    Word Count Application

      Split and Count
      ╭────────────────────╮   ╭──────────────────╮   ╭──────────────────╮   ╭────────────────────╮
      │ TCP 127.0.0.1:7010 ├──▶│ split into words ╞══▶│ Count Word       ├──▶│ TCP 127.0.0.1:7002 │
      │ decoded by Decoder │   │ 1 ⇉ many         │   │ ◇ word totals    │   │ encoded by Encoder │
      ╰────────────────────╯   ╰──────────────────╯   │ by key (27 keys) │   ╰────────────────────╯
                                                      ╰──────────────────╯
    """)


def test_a_state_that_two_pipelines_share_a_pipeline_without_sink_and_one_with_two():
    symbols = State("symbols", dict, partitioned=True, keys=None)
    prices = Pipeline("Prices", source(7010), (step("parse price"), on_state("update", symbols)), ())
    orders = Pipeline(
        "Orders", source(7011, "::1"), (on_state("check order", symbols),), (sink(7002, "text"), sink(7003))
    )
    assert drawn(prices, orders, name="Market") == picture("""
    Market

      Prices
      ╭────────────────────╮   ╭─────────────╮   ╭──────────────────╮
      │ TCP 127.0.0.1:7010 ├──▶│ parse price ├──▶│ update           ├──○ no sink
      │ decoded by decode  │   ╰─────────────╯   │ ◆ symbols        │
      ╰────────────────────╯                     │ by key (any key) │
                                                 ╰──────────────────╯

      Orders
      ╭───────────────────╮   ╭──────────────────╮      ╭────────────────────╮
      │ TCP [::1]:7011    ├──▶│ check order      ├──┬──▶│ TCP 127.0.0.1:7002 │
      │ decoded by decode │   │ ◆ symbols        │  │   │ encoded by text    │
      ╰───────────────────╯   │ by key (any key) │  │   ╰────────────────────╯
                              ╰──────────────────╯  │   ╭────────────────────╮
                                                    ╰──▶│ TCP 127.0.0.1:7003 │
                                                        │ encoded by encode  │
                                                        ╰────────────────────╯

    ◆ state 'symbols' — shared by 'Prices' (update) and 'Orders' (check order)
    """)


def test_what_does_not_fit_continues_on_the_next_line():
    total = State("total", dict, partitioned=False, keys=None)
    steps = (KeyBy("user", object()), KeyBy("collect", None), on_state("sum up", total, multi=True), step("add"))
    assert drawn(Pipeline("sums", source(), steps, (sink(),)), width=52) == picture("""
    Test

      sums
      ╭────────────────────╮   ╭───────────────╮
      │ TCP 127.0.0.1:7010 ├──▶│ user          ├──╮
      │ decoded by decode  │   │ gives the key │  │
      ╰────────────────────╯   ╰───────────────╯  │
      ╭───────────────────────────────────────────╯
      │   ╭─────────────────╮   ╭────────────╮
      ╰──▶│ collect         ├──▶│ sum up     ╞══╕
          │ one key for all │   │ 1 ⇉ many   │  │
          ╰─────────────────╯   │ ◇ total    │  │
                                │ one object │  │
                                ╰────────────╯  │
      ╭─────────────────────────────────────────╯
      │   ╭─────╮   ╭────────────────────╮
      ╘══▶│ add ├──▶│ TCP 127.0.0.1:7002 │
          ╰─────╯   │ encoded by encode  │
                    ╰────────────────────╯
    """)


def test_a_pipeline_may_have_no_steps():
    assert "│ TCP 127.0.0.1:7010 ├──▶│ TCP 127.0.0.1:7002 │" in drawn(Pipeline("copy", source(), (), (sink(),)))


def test_a_state_that_two_steps_of_one_pipeline_use_is_not_shared():
    state = State("state", dict, partitioned=False, keys=None)
    text = drawn(Pipeline("p", source(), (on_state("one", state), on_state("two", state)), ()))
    assert "◇ state" in text
    assert "shared" not in text


def test_a_state_shared_by_three():
    state = State("state", dict, partitioned=False, keys=None)
    text = drawn(*[Pipeline(name, source(), (on_state(f"in {name}", state),), ()) for name in "abc"])
    assert text.endswith("\n◆ state 'state' — shared by 'a' (in a), 'b' (in b) and 'c' (in c)")


@pytest.mark.parametrize(("number", "shown"), [(1, "(1 key)"), (27, "(27 keys)"), (1200, "(1,200 keys)")])
def test_the_number_of_keys(number, shown):
    state = State("state", dict, partitioned=True, keys=frozenset(range(number)))
    assert f"by key {shown}" in drawn(Pipeline("p", source(), (on_state("count", state),), ()))


def test_names_that_are_wide_long_or_cannot_be_shown():
    text = drawn(Pipeline("p", source(), (step("単語を数える"), step("a\nb\x1bc"), step("x" * 40)), ()))
    assert "│ 単語を数える ├──▶│ a b\N{REPLACEMENT CHARACTER}c ├──▶│ " + "x" * 28 + " ├" in text
    top, middle, bottom = drawn(Pipeline("p", source(), (step("単語"),), (sink(),))).splitlines()[3:6]
    assert columns(top) == columns(middle) == columns(bottom)
    assert f"│ {'x' * 12} " in text


def test_a_computation_that_brings_its_own_state():
    own = State("count", dict, partitioned=True, keys=None)
    text = drawn(Pipeline("p", source(), (KeyBy("key_by user", object()), on_state("count", own)), ()))
    assert "│ key_by user   ├──▶│ count              ├──○ no sink" in text
    assert "│ gives the key │   │ ◇ by key (any key) │" in text


def test_every_kind_of_source_says_what_is_in_its_box(monkeypatch):
    class Tide:
        place = "Tide of Cuxhaven"

    class TideKind:
        config_class = Tide

        def shown(self, config):
            return [config.place]

    monkeypatch.setattr(registry, "SOURCES", [*registry.SOURCES, TideKind()])
    generated = wallaroo.GenSourceConfig(named("numbers", wallaroo.computation("n")))
    text = drawn(Pipeline("p", Tide(), (), ()), Pipeline("q", generated, (), ()))
    assert "│ Tide of Cuxhaven ├" in text
    assert "│ generated by ├──○ no sink\n  │ numbers      │" in text


def test_sinks_with_names_and_a_function_that_chooses_among_them():
    sinks = (sink(7002, name="small"), sink(7003, name="large"))
    group = SinkGroup((0, 1), named("size", wallaroo.computation("size")))
    pipeline = Pipeline("sizes", source(), (step("parse", multi=True),), sinks, line_of(1, group))
    assert drawn(pipeline) == picture("""
    Test

      sizes
      ╭────────────────────╮   ╭──────────╮   ╭───────────────╮      ╭────────────────────╮
      │ TCP 127.0.0.1:7010 ├──▶│ parse    ╞══▶│ size          ├──┬──▶│ “small”            │
      │ decoded by decode  │   │ 1 ⇉ many │   │ chooses sinks │  │   │ TCP 127.0.0.1:7002 │
      ╰────────────────────╯   ╰──────────╯   ╰───────────────╯  │   │ encoded by encode  │
                                                                 │   ╰────────────────────╯
                                                                 │   ╭────────────────────╮
                                                                 ╰──▶│ “large”            │
                                                                     │ TCP 127.0.0.1:7003 │
                                                                     │ encoded by encode  │
                                                                     ╰────────────────────╯
    """)


def test_branches_one_below_the_other():
    everything, some = SinkGroup((0,)), SinkGroup((1,))
    steps = (step("words", multi=True), step("upper"), KeyBy("key_by user", object()), step("last"))
    ways = ((0,), (1, everything, 2), (3,), (3,), (some,))
    pipeline = Pipeline("words", source(), steps, (sink(7002, name="all"), sink(7003)), ways)
    assert drawn(pipeline) == picture("""
    Test

      words
      ╭────────────────────╮   ╭──────────╮      ╭───────╮   ╭──────╮   ╭────────────────────╮
      │ TCP 127.0.0.1:7010 ├──▶│ words    ╞══╤──▶│ upper ├──▶│ last ├──▶│ TCP 127.0.0.1:7003 │
      │ decoded by decode  │   │ 1 ⇉ many │  │   ╰───────╯   ╰──────╯   │ encoded by encode  │
      ╰────────────────────╯   ╰──────────╯  │                          ╰────────────────────╯
                                             │   ╭────────────────────╮
                                             ├──▶│ “all”              │
                                             │   │ TCP 127.0.0.1:7002 │
                                             │   │ encoded by encode  │
                                             │   ╰────────────────────╯
                                             │   ╭───────────────╮   ╭─────────────╮
                                             ╰──▶│ key_by user   ├──▶│ last        │
                                                 │ gives the key │   │ (see above) │
                                                 ╰───────────────╯   ╰─────────────╯
    """)
    assert drawn(pipeline, width=52) == picture("""
    Test

      words
      ╭────────────────────╮   ╭──────────╮
      │ TCP 127.0.0.1:7010 ├──▶│ words    ╞══╕
      │ decoded by decode  │   │ 1 ⇉ many │  │
      ╰────────────────────╯   ╰──────────╯  │
      ╭──────────────────────────────────────╯
      │      ╭───────╮   ╭──────╮
      ╘══╤──▶│ upper ├──▶│ last ├──╮
         │   ╰───────╯   ╰──────╯  │
         │   ╭─────────────────────╯
         │   │   ╭────────────────────╮
         │   ╰──▶│ TCP 127.0.0.1:7003 │
         │       │ encoded by encode  │
         │       ╰────────────────────╯
         │   ╭────────────────────╮
         ├──▶│ “all”              │
         │   │ TCP 127.0.0.1:7002 │
         │   │ encoded by encode  │
         │   ╰────────────────────╯
         │   ╭───────────────╮   ╭─────────────╮
         ╰──▶│ key_by user   ├──▶│ last        │
             │ gives the key │   │ (see above) │
             ╰───────────────╯   ╰─────────────╯
    """)


TO_THE_RIGHT, TO_THE_LEFT = "─═╭╰├╞┬╤╘", "─═╮╯┬╤╕▶○"
DOWN, UP = "│╭╮├╞┬╤╕", "│╰╯├╞╘"

names = st.text("abcde ", min_size=1, max_size=40).filter(str.strip)
states = st.builds(State, names, st.just(dict), st.booleans(), st.none() | st.just(frozenset("ab")))
steps = st.one_of(
    st.builds(Computation, names, st.none(), st.booleans()),
    st.builds(KeyBy, names, st.none() | st.just(object())),
    st.builds(StateComputation, names, st.none(), st.booleans(), states, st.none()),
)
sinks = st.builds(sink, st.integers(1, 65535), st.text("abc", min_size=1, max_size=30))
pipelines = st.builds(
    Pipeline, names, st.just(source()), st.lists(steps, max_size=7).map(tuple), st.lists(sinks, max_size=3).map(tuple)
)


@st.composite
def branched_pipelines(draw):
    """Draw pipelines in which every step leads to up to three later ones, and to sinks."""
    some = draw(st.lists(steps, max_size=5))
    ends = draw(st.lists(sinks, max_size=3))
    groups = [SinkGroup((number,), draw(st.none() | st.just(len))) for number, _ in enumerate(ends)]
    ways = []
    for index in range(-1, len(some)):
        later = st.lists(st.sampled_from(range(index + 1, len(some))), unique=True, max_size=3)
        onward = draw(later) if index + 1 < len(some) else []
        ways.append((*onward, *draw(st.lists(st.sampled_from(groups), unique=True))) if groups else tuple(onward))
    return Pipeline(draw(names), source(), tuple(some), tuple(ends), tuple(ways))


@settings(deadline=None)
@given(st.lists(pipelines, max_size=3), st.integers(41, 120))
def test_every_line_is_joined_at_both_ends_and_stays_within_the_width(some, width):
    lines = drawn(*some, width=width).splitlines()
    assert max(map(len, lines)) <= width
    assert_joined(lines)


@settings(deadline=None)
@given(branched_pipelines(), st.integers(41, 120))
def test_also_where_pipelines_branch(pipeline, width):
    lines = drawn(pipeline, width=width).splitlines()
    assert_joined(lines)
    # A fan takes seven columns, and there may be one behind each step; the narrowest box needs seventeen.
    depth = len(pipeline.steps) + 2
    assert max(map(len, lines)) <= max(width, 2 + 7 * depth + 17)


def assert_joined(lines):
    grid = {(row, column): each for row, line in enumerate(lines) for column, each in enumerate(line)}

    def at(row, column):
        return grid.get((row, column), " ")

    for (row, column), each in grid.items():
        if each in TO_THE_RIGHT:
            assert at(row, column + 1) in TO_THE_LEFT, lines
        if each in TO_THE_LEFT:
            assert at(row, column - 1) in TO_THE_RIGHT, lines
        if each in DOWN:
            assert at(row + 1, column) in UP, lines
        if each in UP:
            assert at(row - 1, column) in DOWN, lines


@settings(deadline=None)
@given(pipelines, st.integers(41, 120))
def test_everything_is_there_in_order(pipeline, width):
    # Numbers instead of names, to find them again.
    numbered = tuple(Computation(str(number), None, multi=False) for number, _ in enumerate(pipeline.steps))
    text = drawn(Pipeline("p", source(), numbered, pipeline.sinks), width=width)
    places = [text.index(f"│ {number} ├") for number, _ in enumerate(numbered)]
    assert places == sorted(places)
    assert text.count("encoded by") == len(pipeline.sinks)
    assert ("no sink" in text) is not pipeline.sinks
    assert not any(line != line.rstrip() for line in text.splitlines())
