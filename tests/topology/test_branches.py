"""One line for each source, whatever was merged with whatever."""

from hypothesis import given, settings
from hypothesis import strategies as st

from wallaroo.introspection import MISSING
from wallaroo.topology.branches import Declaration, Line, one_line_for_each_source


def line(name="a", *methods):
    made = Line(Declaration("source", (name, None)))
    for method in methods:
        made = made.then(Declaration(method, ("x",)))
    return made


def test_a_declaration_in_words():
    assert str(Declaration("to", (len,))) == "to len"
    assert str(Declaration("to", (MISSING,))) == "to"
    assert str(Declaration("collect", ())) == "collect"


def test_a_line_grows_without_changing():
    short = line("a", "to")
    longer = short.then(Declaration("collect", ()))
    assert [each.method for each in short.declarations] == ["to"]
    assert [each.method for each in longer.declarations] == ["to", "collect"]
    assert longer.source is short.source


@settings(deadline=None)
@given(st.lists(st.sampled_from("abcdef"), unique=True))
def test_lines_of_different_sources_are_kept_in_order(names):
    lines = [line(name, "to", "to_sink") for name in names]
    assert one_line_for_each_source(lines) == (lines, [])


@settings(deadline=None)
@given(st.integers(0, 5), st.booleans())
def test_sinks_behind_the_same_steps_are_joined_in_order(number, without_sink):
    steps = line("a", "to", "key_by")
    sinks = [Declaration("to_sink", (n,)) for n in range(number)]
    lines = [steps] * (without_sink or not sinks) + [steps.then(sink) for sink in sinks]
    (found,), mistakes = one_line_for_each_source(lines)
    assert mistakes == []
    assert (*found.declarations, *found.more_sinks) == (*steps.declarations, *sinks)


def test_other_ways_are_mistakes_and_the_first_is_kept():
    steps = line("a", "to")
    first, other = steps.then(Declaration("to_sink", (1,))), steps.then(Declaration("to", (2,)))
    kept, (itself, parted) = one_line_for_each_source([first, first, other])
    assert kept == [first]
    assert itself.startswith("the pipeline of source 'a' is merged with itself")
    assert "would take two ways, which part at to_sink 1 and to 2" in parted
