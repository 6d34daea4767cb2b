"""One graph for each source, for any merges."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from wallaroo.introspection import MISSING
from wallaroo.topology.branches import Declaration, graphs_of, merged, sources_of

TWICE = "the pipeline of source {} is merged with itself: its messages would come twice. Merge it once"


def source(name="s"):
    return Declaration("source", (name, None))


def to(name, *before):
    return Declaration("to", (name,), before)


def test_a_declaration_in_words():
    assert str(Declaration("to", (len,))) == "to len"
    assert str(Declaration("to", (MISSING,))) == "to"
    assert str(Declaration("collect", ())) == "collect"
    assert repr(to("b", to("a"))) == "Declaration(method='to', arguments=('b',))"


@settings(deadline=None)
@given(st.lists(st.sampled_from("abcdef"), unique=True))
def test_each_source_has_its_graph_in_the_order_of_the_ends(names):
    sources = [source(name) for name in names]
    steps = [to("step", each) for each in sources]
    ends = tuple(to("sink", each) for each in steps)
    graphs, mistakes = graphs_of(ends)
    assert mistakes == []
    assert [graph.source for graph in graphs] == sources_of(ends) == sources
    assert [tuple(graph.declarations) for graph in graphs] == list(zip(steps, ends, strict=True))


def test_what_ways_have_in_common_is_there_once_and_branches_are_in_the_order_of_the_ends():
    start = source()
    a, c = to("a", start), to("c", start)
    b, d = to("b", a), to("d", a)
    e = to("e", d)
    (graph,), mistakes = graphs_of((b, c, e, a))
    assert mistakes == []
    assert graph.declarations == [a, b, c, d, e]
    assert graph.after == {start: [a, c], a: [b, d], b: [], c: [], d: [e], e: []}
    assert (graph.before(d), graph.before(c)) == ([a], [start])


def test_what_follows_a_merge_comes_after_everything_that_leads_to_it():
    start = source()
    a = to("a", start)
    b = to("b", a)
    joint = to("joint", a, b)
    end = to("end", joint)
    (graph,), mistakes = graphs_of((end,))
    assert mistakes == []
    assert graph.declarations == [a, b, joint, end]
    assert graph.after[a] == [joint, b]
    assert graph.before(joint) == [a, b]


def test_an_end_that_is_there_twice_is_a_mistake():
    a = to("a", source())
    b = to("b", a)
    graphs, mistakes = graphs_of((a, b, a))
    assert [graph.declarations for graph in graphs] == [[a, b]]
    assert mistakes == [TWICE.format("'s'")]


def test_a_source_that_is_merged_with_itself_again_and_again_is_reported_once():
    ends = (source("p"),)
    for _ in range(40):
        ends = merged(ends, ends)
    for _ in range(40):
        ends = (to("step", *merged(ends, ends)),)
    (graph, other), mistakes = graphs_of(merged(ends, (source("q"),)))
    assert (len(graph.declarations), other.declarations) == (40, [])
    assert mistakes == [TWICE.format("'p'")]


def ways_to(end):
    """Return all ways from sources to an end."""
    return [(*way, end) for each in end.before for way in ways_to(each)] or [(end,)]


def graphs_by_the_ways(ends):
    """Return what `graphs_of` is to return, found by going each way for itself."""
    ways = [way for end in ends for way in ways_to(end)]
    graphs = {}
    for way in ways:
        after = graphs.setdefault(way[0], {way[0]: []})
        for here, following in zip(way, [*way[1:], None], strict=True):
            after.setdefault(here, [])
            if following is not None and following not in after[here]:
                after[here].append(following)
    seen = Counter()
    repeated = {}
    for way in ways:
        seen[way] += 1
        if seen[way] > 1:
            repeated[way[0]] = TWICE.format(way[0].name)
    return graphs, list(repeated.values())


def in_order(source, after):
    """Return the declarations of a graph as they are met, but each behind all that lead to it."""
    waiting, ordered = [each for each in after if each is not source], []
    while waiting:
        ready = next(each for each in waiting if not any(each in after[other] for other in waiting))
        waiting.remove(ready)
        ordered.append(ready)
    return ordered


CHANGES = st.lists(st.tuples(st.sampled_from(["step", "merge"]), st.integers(0, 99), st.integers(0, 99)), max_size=14)


@settings(deadline=None)
@given(st.integers(1, 3), CHANGES)
def test_any_graphs_are_those_of_all_ways(sources, changes):
    made = [(source(name),) for name in "pqr"[:sources]]
    for number, (change, one, other) in enumerate(changes):
        ends = made[-1 - one % len(made)]
        made.append((to(number, *ends),) if change == "step" else merged(ends, made[other % len(made)]))
    ends = merged(*made[-3:])
    graphs, mistakes = graphs_of(ends)
    expected, expected_mistakes = graphs_by_the_ways(ends)
    assert mistakes == expected_mistakes
    found = {graph.source: graph.after for graph in graphs}
    assert [(each, list(after.items())) for each, after in found.items()] == [
        (each, list(after.items())) for each, after in expected.items()
    ]
    for graph in graphs:
        assert graph.declarations == in_order(graph.source, graph.after)
        for each in graph.declarations:
            assert set(graph.before(each)) == {here for here, following in graph.after.items() if each in following}


def test_forks_and_merges_in_series_cost_what_they_declare():
    ends = (source(),)
    for _ in range(200):
        ends = (to("a", *ends), to("b", *ends))
    (graph,), mistakes = graphs_of(ends)
    assert mistakes == []
    assert len(graph.declarations) == 400
    assert [each.arguments[0] for each in graph.declarations] == ["a", "b"] * 200
