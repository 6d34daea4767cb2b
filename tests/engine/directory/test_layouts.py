"""Which states an application can go on with, and where new ones are put."""

from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wallaroo.engine.directory.home import Home
from wallaroo.engine.directory.layouts import _MisfitError, fitted, layout_to_go_on_with, new_layout
from wallaroo.engine.plan import Layout
from wallaroo.engine.transport.buckets import spark_hash, spread_ids
from wallaroo.errors import DirectoryError, WallarooParameterError
from wallaroo.topology.levels import state_levels


def keep(data, state):
    return data, True


@pytest.fixture(scope="session")
def visiting(make):
    """Return a function that makes pipelines of states: "ab c" are two, and a capital letter is a single object."""

    def pipelines(text):
        return tuple(
            make.pipeline(
                f"p{number}",
                *(make.state_step(keep, state=name.lower(), key=None if name.isupper() else str) for name in names),
            )
            for number, names in enumerate(text.split(" "))
        )

    return pipelines


def describe(layout):
    """Return the levels as text, singles as capital letters."""
    return " ".join(
        "".join(name.upper() if name in layout.singles else name for name in level) for level in layout.levels
    )


FITS = [
    # before, now, the levels after it, what is said
    ("a", "a", "a", ""),
    ("ab C", "C ab", "aC b", ""),
    ("a", "a b", "ab", "new state 'b'"),
    ("a", "b a", "ab", "new state 'b'"),
    ("a", "a B c", "aBc", "new states 'b', 'c'"),
    ("a b", "a", "ab", "state 'b' no longer used, and kept"),
    ("ab", "b", "a b", "state 'a' no longer used, and kept"),
    ("ab", "ac", "a bc", "new state 'c'; state 'b' no longer used, and kept"),
    ("ab", "cb", "ac b", "new state 'c'; state 'a' no longer used, and kept"),
    # A place is the lowest that is behind all states before it.
    ("abc", "adc", "a bd c", "new state 'd'; state 'b' no longer used, and kept"),
    ("abc", "abc bd", "a b cd", "new state 'd'"),
    ("ab", "", "a b", "states 'a', 'b' no longer used, and kept"),
    ("", "", "", ""),
]


@pytest.mark.parametrize(("before", "now", "after", "change"), FITS)
def test_states_that_are_there_keep_their_places_and_new_ones_come_behind(visiting, before, now, after, change):
    recorded = new_layout(visiting(before), partitions=2, buckets=4)
    fit = fitted(recorded, visiting(now))
    assert (describe(fit.layout), fit.change) == (after, change)
    assert {name: fit.layout.states[name] for name in recorded.states} == recorded.states


def test_a_state_that_comes_back_finds_its_place(visiting):
    first = new_layout(visiting("a b"), partitions=2, buckets=4)
    second = fitted(first, visiting("a c")).layout
    assert second.unused == {"b"}
    # What is not new is not told again.
    assert fitted(second, visiting("a c")).change == ""
    third = fitted(second, visiting("a b"))
    assert third.change == "state 'c' no longer used, and kept; state 'b' used again"
    assert third.layout.states == second.states
    assert third.layout.states["b"] == first.states["b"]


MISFITS = [
    ("a", "A", "the state 'a' was partitioned and is one object now (under another name it would begin anew)"),
    ("aB", "ab", "the state 'b' was one object and is partitioned now (under another name it would begin anew)"),
    ("ab", "ba", "pipeline 'p0' passes the states 'b' and 'a' in an order that is not as it was"),
    ("a b", "ab", "pipeline 'p0' passes the states 'a' and 'b' in an order that is not as it was"),
    ("a", "ab", "there is no place for the new state 'b' behind 'a'"),
    ("a", "ba", "there is no place for the new state 'b' of pipeline 'p0' in front of 'a'"),
    ("ab", "acb", "there is no place for the new state 'c' of pipeline 'p0' in front of 'b'"),
    ("", "a", "there is no place for the new state 'a' where there was no state at all"),
]


@pytest.mark.parametrize(("before", "now", "why"), MISFITS)
def test_what_does_not_fit_is_refused_with_what_has_changed(visiting, before, now, why):
    with pytest.raises(_MisfitError) as refused:
        fitted(new_layout(visiting(before), 2, 4), visiting(now))
    assert str(refused.value) == why


def test_all_reasons_are_told(visiting):
    with pytest.raises(_MisfitError) as refused:
        fitted(new_layout(visiting("aB"), 2, 4), visiting("ba bcd"))
    assert str(refused.value).count("; ") == 3


class TestInADirectory:
    @pytest.fixture
    def home(self, tmp_path, visiting):
        home = Home(tmp_path)
        home.record_layout("app", new_layout(visiting("a"), partitions=2, buckets=8))
        home.checkpoint.mkdir()
        return home

    def test_nothing_is_there_yet(self, tmp_path, visiting):
        assert layout_to_go_on_with(Home(tmp_path), "app", visiting("a")) is None

    def test_the_numbers_stay_those_of_the_first_run(self, home, visiting):
        fit = layout_to_go_on_with(home, "app", visiting("a b"))
        assert (fit.layout.partitions, fit.layout.buckets) == (2, 8)

    def test_a_run_that_ended_before_it_had_any_state_decides_nothing(self, home, visiting):
        home.checkpoint.rmdir()
        assert layout_to_go_on_with(home, "app", visiting("bca")) is None

    def test_another_application_is_refused(self, home, visiting):
        with pytest.raises(DirectoryError, match=r"holds the state of another application, 'app'\. .*--reset"):
            layout_to_go_on_with(home, "other", visiting("a"))

    def test_what_does_not_fit_is_refused_with_what_can_be_done(self, home, visiting):
        with pytest.raises(DirectoryError) as refused:
            layout_to_go_on_with(home, "app", visiting("ab"))
        first, second = str(refused.value).splitlines()
        assert "there is no place for the new state 'b' behind 'a'" in first
        assert "--reset" in second
        assert "--resilience-dir" in second


NAMES = st.text("abcdef", min_size=1, max_size=1)
APPLICATIONS = st.lists(st.lists(NAMES, max_size=3, unique=True).map("".join), min_size=1, max_size=3).map(" ".join)


def possible(recorded, pipelines):
    """Tell, by trying all places for all new states, whether the application can go on."""
    names = {step.state.name for pipeline in pipelines for step in pipeline.steps}
    new = sorted(names - recorded.states.keys())
    for places in product(range(len(recorded.levels)), repeat=len(new)):
        level = {
            **{name: recorded.states[name].level for name in recorded.states},
            **dict(zip(new, places, strict=True)),
        }
        if all(
            level[here.state.name] < level[there.state.name]
            for pipeline in pipelines
            for here, there in pairwise(pipeline.steps)
        ):
            return True
    return False


@given(before=APPLICATIONS, now=APPLICATIONS)
def test_an_application_goes_on_whenever_there_is_a_way(visiting, before, now):
    pipelines = visiting(now)
    try:
        recorded = new_layout(visiting(before), partitions=3, buckets=5)
        state_levels(pipelines)
    except WallarooParameterError:
        return  # No application at all.
    if not possible(recorded, pipelines):
        with pytest.raises(_MisfitError):
            fitted(recorded, pipelines)
        return
    layout = fitted(recorded, pipelines).layout
    assert len(layout.levels) == len(recorded.levels)
    assert {name: layout.states[name] for name in recorded.states} == recorded.states
    for pipeline in pipelines:
        levels = [layout.states[step.state.name].level for step in pipeline.steps]
        assert levels == sorted(set(levels))
    assert fitted(layout, pipelines).layout == layout


@given(
    levels=st.lists(st.lists(st.booleans(), max_size=4), max_size=3),
    added=st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=4),
    partitions=st.integers(1, 9),
    buckets=st.integers(1, 20),
)
def test_states_that_come_behind_change_nothing_for_those_before(levels, added, partitions, buckets):
    """A state's groups are those under which Spark's checkpoint has its keys."""
    names = [[f"{number}.{place}" for place, _ in enumerate(level)] for number, level in enumerate(levels)]
    singles = {f"{number}.{place}" for number, level in enumerate(levels) for place, one in enumerate(level) if one}
    before = Layout(tuple(map(tuple, names)), frozenset(singles), partitions, buckets)
    for number, (level, single) in enumerate(added):
        if level < len(names):
            names[level].append(f"new {number}")
            singles |= {f"new {number}"} if single else set()
    after = Layout(tuple(map(tuple, names)), frozenset(singles), partitions, buckets)
    assert {name: after.states[name] for name in before.states} == before.states
    assert after.carriers == before.carriers
    for level in names:
        groups = [*after.carriers, *(group for name in level for group in after.states[name].groups)]
        assert len(set(groups)) == len(groups)


@given(number=st.integers(0, 200), more=st.integers(0, 50), partitions=st.integers(1, 16))
def test_ids_are_the_beginning_of_more_ids(number, more, partitions):
    ids = spread_ids(number + more, partitions)
    assert spread_ids(number, partitions) == ids[:number]
    assert [spark_hash(each) % partitions for each in ids] == [each % partitions for each in range(number + more)]
