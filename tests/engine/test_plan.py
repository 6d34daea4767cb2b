"""The plan: every place a chunk can go to has a number, and every state its buckets."""

import pytest
from wallaroo.engine.transport.chunks import DEAD_LETTERS, NUDGE, PRINTED

from wallaroo.engine.plan import Layout, SinkRoute, StepRoute
from wallaroo.engine.transport.buckets import spark_hash


def same(data):
    return data


def keep(data, state):
    return data, True


@pytest.fixture
def plan(make):
    """Return a plan: `p` visits a, b and c, `q` visits a and c, `r` has no state, `s` a state with one object."""

    def at(name, **options):
        return make.state_step(keep, state=name, **options)

    encoders = [str, repr]
    return make.plan(
        make.pipeline("p", make.step(same), at("a"), make.step(same), at("b"), at("c"), encoders=encoders),
        make.pipeline("q", at("a"), make.step(same), at("c"), make.step(same)),
        make.pipeline("r", make.step(same), encoders=encoders),
        make.pipeline("s", at("single", key=None), encoders=[]),
        partitions=3,
        buckets=5,
    )


def test_routes_are_numbered_in_the_order_of_the_application(plan):
    told = [
        (route.number, route.pipeline.name, route.step.state.name if isinstance(route, StepRoute) else "sink")
        for route in plan.routes
    ]
    places = [*("p" + state for state in "abc"), "psink", "psink", "qa", "qc", "qsink", "rsink", "rsink", "ssingle"]
    assert told == [(number, place[0], place[1:]) for number, place in enumerate(places)]


def test_the_next_state_of_a_pipeline_is_found_from_any_step(plan):
    p, q, r, s = plan.application.pipelines

    def states(pipeline):
        routes = [plan.after(pipeline, index) for index in range(len(pipeline.steps) + 1)]
        return [route and route.step.state.name for route in routes]

    assert states(p) == ["a", "a", "b", "b", "c", None]
    assert states(q) == ["a", "c", "c", None, None]
    assert states(r) == [None, None]
    assert states(s) == ["single", None]
    assert plan.after(q, 0).pipeline is q


def test_each_pipeline_has_its_own_sinks(plan):
    sinks = [[route.number for route in plan.sinks_of(pipeline)] for pipeline in plan.application.pipelines]
    assert sinks == [[3, 4], [7], [8, 9], []]
    for pipeline in plan.application.pipelines:
        assert [route.sink for route in plan.sinks_of(pipeline)] == list(pipeline.sinks)


def test_levels(plan):
    assert plan.layout.levels == (("a", "single"), ("b",), ("c",))
    levels = [plan.level_of(route.number) for route in plan.routes]
    assert levels == [0, 1, 2, None, None, 0, 2, None, None, None, 0]
    assert all(plan.level_of(route) is None for route in (DEAD_LETTERS, PRINTED, NUDGE))
    assert [route.number for route in plan.routes if isinstance(route, SinkRoute)] == [3, 4, 7, 8, 9]


@pytest.mark.parametrize("partitions", [1, 2, 3, 8])
@pytest.mark.parametrize("buckets", [1, 4, 9])
def test_groups_are_apart_and_spread_evenly(partitions, buckets):
    layout = Layout((("a", "single", "b"), ("c",)), frozenset({"single"}), partitions, buckets)
    carriers = layout.carriers
    assert [spark_hash(carrier) % partitions for carrier in carriers] == list(range(partitions))
    assert {name: (state.level, len(state.groups)) for name, state in layout.states.items()} == {
        "a": (0, buckets),
        "single": (0, 1),
        "b": (0, buckets),
        "c": (1, buckets),
    }
    for level in layout.levels:
        groups = [group for name in level for group in layout.states[name].groups]
        assert len({*groups, *carriers}) == len(groups) + len(carriers)
        places = [spark_hash(group) % partitions for group in groups]
        counts = [places.count(partition) for partition in range(partitions)]
        assert max(counts) - min(counts) <= 1


def test_the_layout_of_a_state_does_not_depend_on_later_levels():
    one = Layout((("a", "b"),), frozenset(), 2, 4)
    more = Layout((("a", "b"), ("c",), ("d",)), frozenset(), 2, 4)
    assert {name: more.states[name] for name in "ab"} == one.states
    assert more.carriers == one.carriers


def test_the_plan_packs_with_the_applications_functions(make):
    plan = make.plan(make.pipeline("p"), serialize=lambda data: b"mine", deserialize=lambda bs: bs.decode())
    assert plan.serializer.dump("anything") == b"mine"
    assert plan.serializer.load(b"mine") == "mine"
