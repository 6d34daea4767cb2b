"""The plan: every place a chunk can go to has a number, and every state its buckets."""

import pytest

from wallaroo.engine.plan import SinkRoute, StepRoute
from wallaroo.engine.transport.shuffle_format import BLOCK, DEAD_LETTERS, PRINTED
from wallaroo.topology.model import Pipeline, StateComputation


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
        buckets=5,
    )


def test_routes_are_numbered_in_the_order_of_the_application(plan):
    told = [
        (route.number, route.pipeline.name, route.step.state.name if isinstance(route, StepRoute) else "sink")
        for route in plan.routes
    ]
    places = [*("p" + state for state in "abc"), "psink", "psink", "qa", "qc", "qsink", "rsink", "rsink", "ssingle"]
    assert told == [(number, place[0], place[1:]) for number, place in enumerate(places)]


def test_the_route_to_a_state_step_is_found_by_its_index(plan):
    for pipeline in plan.application.pipelines:
        indexes = [index for index, step in enumerate(pipeline.steps) if isinstance(step, StateComputation)]
        routes = [plan.to_step(pipeline, index) for index in indexes]
        assert [route.pipeline for route in routes] == [pipeline] * len(routes)
        assert [route.index for route in routes] == indexes
        assert [route.step for route in routes] == [pipeline.steps[index] for index in indexes]


def test_the_first_state_of_each_pipeline_is_known(plan):
    first = [plan.is_first(route) for route in plan.routes if isinstance(route, StepRoute)]
    assert first == [True, False, False, True, False, True]


def test_where_steps_branch_there_may_be_several_first_states(make):
    states = [make.state_step(keep, state=name) for name in "abc"]
    # The decoder leads to all of them, and a to c: where messages for c come from is known only by their block.
    ways = ((0, 1, 2), (2,), (), ())
    plan = make.plan(Pipeline("p", make.pipeline("p").source, tuple(states), (), ways))
    assert [plan.is_first(route) for route in plan.routes] == [True, True, False]
    assert plan.layout.levels == (("a", "b"), ("c",))


def test_each_pipeline_has_its_own_sinks(plan):
    sinks = [[route.number for route in plan.sinks_of(pipeline)] for pipeline in plan.application.pipelines]
    assert sinks == [[3, 4], [7], [8, 9], []]
    for pipeline in plan.application.pipelines:
        assert [route.sink for route in plan.sinks_of(pipeline)] == list(pipeline.sinks)


def test_levels(plan):
    assert plan.layout.levels == (("a", "single"), ("b",), ("c",))
    levels = [plan.level_of(route.number) for route in plan.routes]
    assert levels == [0, 1, 2, None, None, 0, 2, None, None, None, 0]
    assert all(plan.level_of(route) is None for route in (DEAD_LETTERS, PRINTED, BLOCK))
    assert [route.number for route in plan.routes if isinstance(route, SinkRoute)] == [3, 4, 7, 8, 9]


@pytest.mark.parametrize("partitions", [1, 2, 3, 8])
def test_the_buckets_of_a_state_are_spread_evenly_and_neighbours_are_kept_together(make, partitions):
    plan = make.plan(
        make.pipeline("p", make.state_step(keep, state="a"), make.state_step(keep, state="one", key=None)), buckets=128
    )
    assert {name: tuple(vars(state).values()) for name, state in plan.layout.states.items()} == {
        "a": (0, 128),
        "one": (1, 1),
    }
    places = list(map(plan.placement("a", partitions), range(128)))
    assert places == sorted(places)
    counts = [places.count(partition) for partition in range(partitions)]
    assert max(counts) - min(counts) <= 1
    assert 0 <= plan.placement("one", partitions)(0) < partitions


def test_the_plan_packs_with_the_applications_functions(make):
    plan = make.plan(make.pipeline("p"), serialize=lambda data: b"mine", deserialize=lambda bs: bs.decode())
    assert plan.serializer.dump("anything") == b"mine"
    assert plan.serializer.load(b"mine") == "mine"
