"""Places of pipelines, and how they are found again when the pipeline has changed."""

import json

import pytest

import wallaroo
from wallaroo.topology.step_identity import CHOOSE, ENCODER, STEP, NoSpotError, find_spot, path_of, spot_of, spots_of


@wallaroo.encoder
def encode(data):
    return str(data)


STEPS = {name: wallaroo.computation(name)(lambda data: data) for name in "abcdez"}


def source():
    return wallaroo.source("p", wallaroo.TCPSourceConfig("127.0.0.1", 0, wallaroo.decoder(bytes.decode)))


def line(names, start=None):
    made = source() if start is None else start
    for name in names:
        made = made.to(STEPS[name])
    return made


def sink(port, name=None):
    return wallaroo.TCPSinkConfig("127.0.0.1", port, encode, name=name)


def pipeline(*ends):
    """Return a pipeline with these ends, each with a sink of its own that has a name."""
    given = (end.to_sink(sink(port, f"s{port}")) for port, end in enumerate(ends, 1))
    return wallaroo.build_application("app", *given).pipelines[0]


def branches(*names):
    """Return a pipeline with these lines of steps behind one source."""
    base = source()
    return pipeline(*(line(each, base) for each in names))


def to_sinks(**names):
    """Return a pipeline with a line of steps to each of these sinks, behind one source."""
    base = source()
    ends = (line(steps, base).to_sink(sink(port, name)) for port, (name, steps) in enumerate(names.items(), 1))
    return wallaroo.build_application("app", *ends).pipelines[0]


def moved(then, now, number, kind=STEP):
    """Return where a place is found in a changed pipeline."""
    path = json.loads(json.dumps(path_of(then, spot_of(then, kind, number))))
    return find_spot(now, kind, path).number


def is_refused(then, now, number, kind=STEP):
    with pytest.raises(NoSpotError, match="cannot be matched with certainty"):
        moved(then, now, number, kind)
    return True


def test_all_places_of_an_unchanged_pipeline_are_found():
    base = source()
    a = line("a", base)
    merged = line("c", a.merge(line("b", base)))
    twins = [line("d", merged), line("d", merged)]
    # Nothing tells apart two branches with the same steps and no sinks.
    nowhere = [line("e", merged), line("e", merged)]
    ends = [twins[0].to_sink(sink(1)), twins[1].to_sink(sink(2)), *nowhere]
    ends.append(merged.to_sinks([sink(3, "x"), sink(4, "y")], choose=lambda _: "x"))
    ends.append(a.to_sinks([sink(5, "v"), sink(6, "w")], choose=lambda _: "v"))
    (whole,) = wallaroo.build_application("app", *ends).pipelines
    assert len(spots_of(whole)) == 7 + 2 + 6
    for spot in spots_of(whole):
        assert moved(whole, whole, spot.number, spot.kind) == spot.number


def test_a_place_is_known_by_no_more_than_is_needed():
    base = source()
    (one,) = wallaroo.build_application("app", line("ab").to_sink(sink(1))).pipelines
    assert [path_of(one, spot)["known_by"] for spot in spots_of(one)] == ["line", "line", "line"]
    ends = line("abc", base), line("ac", base), line("dc", base)
    (more,) = wallaroo.build_application("app", *(end.to_sink(sink(1)) for end in ends)).pipelines
    known = [(spot.name, path_of(more, spot)["known_by"]) for spot in spots_of(more)]
    assert known == [
        *(("a", "after"), ("b", "name"), ("c", "before")),
        *(("a", "after"), ("c", "before"), ("d", "name"), ("c", "before")),
        *(("", "before"), ("", "before"), ("", "before")),
    ]


def test_a_step_is_found_when_others_come_before_or_after_it():
    assert moved(branches("ab"), branches("zcab"), 1) == 3
    assert moved(branches("ab"), branches("zcabd"), 1) == 3
    assert moved(branches("ab", "d"), branches("zab", "d"), 1) == 2
    assert moved(branches("ab", "d"), branches("abz", "d"), 1) == 1


def test_a_step_that_was_moved_to_another_branch_is_refused():
    assert is_refused(branches("ab", "d"), branches("a", "db"), 1)
    assert is_refused(branches("ab"), branches("a", "db"), 1)


def test_a_step_that_is_now_in_another_branch_as_well_is_found_by_its_path():
    assert moved(to_sinks(x="ab"), to_sinks(y="db", x="ab"), 1) == 3
    assert is_refused(branches("ab"), branches("db", "zb"), 1)
    # One leads to where the step did, the other is behind what the step was behind.
    assert is_refused(to_sinks(x="ab"), to_sinks(x="db", y="ab"), 1)
    assert is_refused(to_sinks(x="ab", z="e"), to_sinks(x="db", y="ab", z="e"), 1)


def test_a_step_that_was_in_several_branches_is_found_only_with_its_own_path():
    then = branches("ab", "db")
    assert moved(then, branches("db", "ab"), 1) == 3
    assert moved(then, branches("ab"), 1) == 1
    assert is_refused(then, branches("ab"), 3)
    assert is_refused(then, branches("zab", "db"), 1)


def test_another_step_of_the_name_in_the_same_position_is_not_mistaken_for_it():
    then = to_sinks(alarms="a", archive="da")
    # The other one, without the step before it.
    assert is_refused(then, to_sinks(archive="a", other="z"), 0)
    assert is_refused(then, to_sinks(archive="a", other="za"), 0)
    assert moved(then, to_sinks(other="z", alarms="a"), 0) == 1
    assert moved(then, to_sinks(alarms="a", archive="zda"), 0) == 0
    # All of the name are behind what they were behind, so each is the one that it was.
    assert moved(then, to_sinks(alarms="ab", archive="da"), 0) == 0


def test_a_letter_without_a_note_on_the_others_of_its_name_needs_both_sides():
    then = to_sinks(alarms="a", archive="da")
    path = path_of(then, spot_of(then, STEP, 0))
    del path["approaches"]
    assert find_spot(then, STEP, path).number == 0
    with pytest.raises(NoSpotError):
        find_spot(to_sinks(alarms="ab", archive="da"), STEP, path)


def test_the_order_of_merged_branches_does_not_matter():
    def merged(*names):
        base = source()
        first, second = (line(each, base) for each in names)
        return pipeline(line("c", first.merge(second)), line("c", base))

    assert moved(merged("a", "b"), merged("b", "a"), 2) == 2
    assert is_refused(merged("a", "b"), merged("a", "d"), 2)


def test_identical_steps_are_found_by_their_order_while_their_number_is_unchanged():
    def twins(many):
        base = source()
        return wallaroo.build_application("app", *(line("a", base) for _ in range(many))).pipelines[0]

    assert [moved(twins(3), twins(3), number) for number in range(3)] == [0, 1, 2]
    assert is_refused(twins(3), twins(2), 1)


def test_a_choose_is_known_by_its_sinks():
    def choosing(*names):
        base = source()
        ends = (base.to_sinks([sink(1, name), sink(2, f"{name}2")], choose=lambda _: None) for name in names)
        return wallaroo.build_application("app", *ends).pipelines[0]

    assert moved(choosing("x", "y"), choosing("y", "x"), 0, CHOOSE) == 1
    assert is_refused(choosing("x", "y"), choosing("y", "z"), 0, CHOOSE)


def test_a_sink_that_has_got_a_name_is_still_found():
    def ending(*names):
        sinks = [sink(port, name) for port, name in enumerate(names, 1)]
        return wallaroo.build_application("app", source().to_sinks(sinks)).pipelines[0]

    assert [moved(ending(None, None), ending("x", "y"), number, ENCODER) for number in (0, 1)] == [0, 1]


def test_a_sink_that_two_branches_share_is_found_by_its_name():
    base = source()
    shared = sink(1, "all")
    (then,) = wallaroo.build_application("app", base.to_sink(shared), line("a", base).to_sink(shared)).pipelines
    (now,) = wallaroo.build_application("app", line("b").to_sink(shared)).pipelines
    assert [moved(then, now, number, ENCODER) for number in (0, 1)] == [0, 0]
