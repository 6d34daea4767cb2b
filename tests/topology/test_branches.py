"""One graph for each source, whatever was merged with whatever."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from wallaroo.introspection import MISSING
from wallaroo.topology.branches import Declaration, Line, graphs_of


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


def declared(*names):
    return [Declaration("to", (name,)) for name in names]


def path(source, *declarations):
    return Line(source, tuple(declarations))


@settings(deadline=None)
@given(st.lists(st.sampled_from("abcdef"), unique=True))
def test_each_source_has_its_graph_in_the_order_of_the_lines(names):
    lines = [line(name, "to", "to_sink") for name in names]
    graphs, mistakes = graphs_of(lines)
    assert mistakes == []
    assert [graph.source for graph in graphs] == [each.source for each in lines]
    assert [tuple(graph.declarations) for graph in graphs] == [each.declarations for each in lines]


def test_what_lines_have_in_common_is_there_once_and_branches_are_in_the_order_of_the_lines():
    source, a, b, c, d, e = declared(*"sabcde")
    (graph,), mistakes = graphs_of([path(source, a, b), path(source, c), path(source, a, d, e), path(source, a)])
    assert mistakes == []
    assert graph.declarations == [a, b, c, d, e]
    assert graph.after == {source: [a, c], a: [b, d], b: [], c: [], d: [e], e: []}
    assert (graph.before(d), graph.before(c)) == ([a], [source])


def test_what_follows_a_merge_comes_after_everything_that_leads_to_it():
    source, a, b, merged, end = declared("s", "a", "b", "merged", "end")
    (graph,), mistakes = graphs_of([path(source, a, merged, end), path(source, a, b, merged, end)])
    assert mistakes == []
    assert graph.declarations == [a, b, merged, end]
    assert graph.after[a] == [merged, b]
    assert graph.before(merged) == [a, b]


def test_a_line_that_is_there_twice_is_a_mistake():
    source, a, b = declared(*"sab")
    graphs, mistakes = graphs_of([path(source, a), path(source, a, b), path(source, a)])
    assert [graph.declarations for graph in graphs] == [[a, b]]
    assert mistakes == [
        "the pipeline of source 's' is merged with itself: its messages would come twice. Merge it once"
    ]


@settings(deadline=None)
@given(st.data())
def test_any_lines_make_a_graph_with_each_way_in_it(data):
    source, *all_of_them = declared(*range(9))
    # In one order, as each declaration is made after those that it follows.
    some = st.lists(st.sampled_from(range(8)), unique=True).map(sorted)
    chosen = data.draw(st.lists(some, min_size=1, max_size=6, unique_by=tuple))
    lines = [path(source, *(all_of_them[index] for index in each)) for each in chosen]
    (graph,), mistakes = graphs_of(lines)
    assert mistakes == []
    places = {each: index for index, each in enumerate(graph.declarations)}
    assert len(places) == len(graph.declarations) == len({index for each in chosen for index in each})
    for each in lines:
        way = [source, *each.declarations]
        assert all(there in graph.after[here] for here, there in pairwise(way))
        assert [places[declaration] for declaration in way[1:]] == sorted(places[each] for each in way[1:])
