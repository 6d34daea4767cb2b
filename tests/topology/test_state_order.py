"""The common order of states."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wallaroo.errors import WallarooParameterError
from wallaroo.topology.model import Computation, Pipeline, State, StateComputation
from wallaroo.topology.state_order import order_mistakes, state_hops, state_levels


def pipeline(name, *states):
    """Return a pipeline that visits these states, with a step without state before each."""
    steps = []
    for state in states:
        steps.append(Computation("between", None, multi=False))
        steps.append(
            StateComputation("at " + state, None, False, State(state, dict, partitioned=False, keys=None), None)
        )
    return Pipeline(name, None, tuple(steps), ())


def branched(name, states, *ways):
    """Return a pipeline with these states, and where messages go from the source and from each of them."""
    steps = [
        StateComputation("at " + state, None, False, State(state, dict, partitioned=False, keys=None), None)
        for state in states
    ]
    return Pipeline(name, None, tuple(steps), (), ways)


def names(levels):
    return [[state.name for state in level] for level in levels]


@pytest.mark.parametrize(
    ("ways", "expected"),
    [
        ([], []),
        ([""], []),
        (["a"], [["a"]]),
        (["a", "a"], [["a"]]),
        (["abc"], [["a"], ["b"], ["c"]]),
        (["a", "b"], [["a", "b"]]),
        (["ac", "bc"], [["a", "b"], ["c"]]),
        (["abd", "acd", "ad"], [["a"], ["b", "c"], ["d"]]),
        (["cd", "abc"], [["a"], ["b"], ["c"], ["d"]]),
        (["ab", "", "c"], [["a", "c"], ["b"]]),
    ],
)
def test_levels_are_the_longest_ways(ways, expected):
    pipelines = [pipeline(f"p{number}", *way) for number, way in enumerate(ways)]
    assert list(order_mistakes(pipelines)) == []
    assert names(state_levels(pipelines)) == expected


@pytest.mark.parametrize(
    ("states", "ways", "expected"),
    [
        ("ab", ((0, 1), (), ()), [["a", "b"]]),
        ("abc", ((0,), (1, 2), (), ()), [["a"], ["b", "c"]]),
        # A way round, merged again.
        ("abc", ((0, 2), (1,), (2,), ()), [["a"], ["b"], ["c"]]),
        ("abcd", ((0, 1), (2,), (2, 3), (3,), ()), [["a", "b"], ["c"], ["d"]]),
    ],
)
def test_levels_are_the_longest_ways_over_all_branches(states, ways, expected):
    assert list(order_mistakes([branched("p", states, *ways)])) == []
    assert names(state_levels([branched("p", states, *ways)])) == expected


def test_a_circle_over_branches_of_different_pipelines_is_explained():
    one = branched("p", "abx", (0, 1), (2,), (), ())
    other = branched("q", "xya", (0, 1), (), (2,), ())
    third = branched("r", "xa", (0,), (1,), ())
    assert list(order_mistakes([one, other])) == []
    (mistake,) = order_mistakes([one, other, third])
    assert "pipeline 'p' goes from 'a' to 'x'" in mistake
    assert "pipeline 'r' goes from 'x' to 'a'" in mistake


def test_a_state_in_several_branches_is_a_mistake_of_its_own():
    (mistake,) = order_mistakes([branched("p", "aba", (0, 1), (), (2,), ())])
    assert mistake.startswith("pipeline 'p' visits the state 'a' in several branches. ")
    (mistake,) = order_mistakes([branched("p", "aba", (0,), (1,), (2,), ())])
    assert mistake.startswith("pipeline 'p' visits the state 'a' more than once. ")


def test_a_state_is_represented_by_the_one_that_is_met_first():
    one, other = pipeline("p", "a"), pipeline("q", "a")
    assert state_levels([one, other])[0][0] is one.steps[1].state


def test_opposite_orders_are_explained():
    (mistake,) = order_mistakes([pipeline("orders", "x", "y"), pipeline("returns", "y", "x")])
    assert "pipeline 'orders' goes from 'x' to 'y'" in mistake
    assert "pipeline 'returns' goes from 'y' to 'x'" in mistake
    assert "one query in which each state has one place" in mistake
    for way_out in ("a different state name", "change the order", "two applications connected by TCP"):
        assert way_out in mistake


def test_a_circle_over_three_pipelines_names_them_all():
    pipelines = [
        pipeline("p", "x", "y"),
        pipeline("q", "y", "z"),
        pipeline("r", "z", "x"),
        pipeline("s", "z", "x"),
    ]
    (mistake,) = order_mistakes(pipelines)
    assert "pipeline 'p' goes from 'x' to 'y'" in mistake
    assert "pipeline 'q' goes from 'y' to 'z'" in mistake
    assert "pipelines 'r', 's' go from 'z' to 'x'" in mistake


def test_every_circle_is_reported():
    pipelines = [
        pipeline("p", "a", "b"),
        pipeline("q", "b", "a"),
        pipeline("r", "c", "d"),
        pipeline("s", "d", "c"),
    ]
    assert len(list(order_mistakes(pipelines))) == 2


@pytest.mark.parametrize("states", ["xx", "xyx"])
def test_visiting_a_state_twice_is_one_mistake(states):
    (mistake,) = order_mistakes([pipeline("p", *states)])
    assert mistake.startswith("pipeline 'p' visits the state 'x' more than once. ")


def test_levels_of_pipelines_without_a_common_order_are_refused():
    with pytest.raises(WallarooParameterError, match="different orders"):
        state_levels([pipeline("p", "x", "y"), pipeline("q", "y", "x")])


@given(st.lists(st.lists(st.sampled_from("abcdef"), unique=True, max_size=6), max_size=5))
def test_levels_ascend_in_every_valid_application(ways):
    pipelines = [pipeline(f"p{number}", *way) for number, way in enumerate(ways)]
    if list(order_mistakes(pipelines)):
        with pytest.raises(WallarooParameterError):
            state_levels(pipelines)
        return
    level_of = {name: level for level, states in enumerate(names(state_levels(pipelines))) for name in states}
    for way in ways:
        visited = [level_of[name] for name in way]
        assert visited == sorted(set(visited))


def states_on_the_ways(pipeline, index=-1):
    """Return the names of the states on each way from a step, or from the source."""
    here = (pipeline.steps[index].state.name,) if index >= 0 else ()
    return [(*here, *way) for each in pipeline.after(index) for way in states_on_the_ways(pipeline, each)] or [here]


@st.composite
def graphs_of_states(draw):
    """Draw a pipeline in which messages go to each state from some of those before it, or from the source."""
    states = draw(st.lists(st.sampled_from("abcdef"), max_size=8))
    ways = [[] for _ in range(len(states) + 1)]
    for index in range(len(states)):
        for before in draw(st.sets(st.integers(0, index), min_size=1, max_size=3)):
            ways[before].append(index)
    return branched("p", states, *map(tuple, ways))


@given(graphs_of_states())
def test_visits_and_hops_are_those_on_all_ways(pipeline):
    ways = states_on_the_ways(pipeline)
    names = [step.state.name for step in pipeline.steps]
    twice = {name for name in names if any(way.count(name) > 1 for way in ways)}
    starts = [
        f"pipeline 'p' visits the state {name!r} more than once" for name in dict.fromkeys(names) if name in twice
    ]
    mistakes = list(order_mistakes([pipeline]))
    assert [mistake.partition(". ")[0] for mistake in mistakes if "more than once." in mistake] == starts
    if not twice:
        assert set(state_hops([pipeline])) == {hop for way in ways for hop in pairwise(way)}
    if len(set(names)) == len(names):
        assert mistakes == []
        # By name, as the order decides which of several circles is reported.
        assert list(state_hops([pipeline])) == list(dict.fromkeys(hop for way in sorted(ways) for hop in pairwise(way)))


@given(st.lists(st.sets(st.sampled_from("abcdef")), max_size=6))
def test_pipelines_that_follow_one_order_have_levels(ways):
    pipelines = [pipeline(f"p{number}", *sorted(way)) for number, way in enumerate(ways)]
    assert list(order_mistakes(pipelines)) == []
    assert {name for level in names(state_levels(pipelines)) for name in level} == set().union(*ways)
