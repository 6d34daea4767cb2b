"""Pipelines that are chained and merged: what they become, and that they never change."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wallaroo
from wallaroo import testing
from wallaroo.topology.model import Computation, KeyBy, StateComputation


@wallaroo.decoder
def decode(bs):
    return bs.decode()


@wallaroo.encoder
def encode(data):
    return str(data)


@wallaroo.computation("upper")
def upper(data):
    return data.upper()


@wallaroo.computation("lower")
def lower(data):
    return data.lower()


@wallaroo.computation_multi("split")
def split(data):
    return data.split()


@wallaroo.key_extractor
def first_letter(data):
    return data[0]


@wallaroo.state_computation("count", list)
def count(data, seen):
    seen.append(data)
    return len(seen)


@wallaroo.state_computation_multi("history", list)
def history(data, seen):
    seen.append(data)
    return list(seen)


@wallaroo.state_computation("old count")
def old_count(data, seen):
    seen.append(data)
    return len(seen), True


def config(port=0):
    return wallaroo.TCPSourceConfig("127.0.0.1", port, decode)


def sink(port=7002):
    return wallaroo.TCPSinkConfig("127.0.0.1", port, encode)


def source(name="words", port=0):
    return wallaroo.source(name, config(port))


def built(pipeline, name="app"):
    return wallaroo.build_application(name, pipeline).pipelines


def test_a_chain_becomes_a_line_of_steps():
    in_config, out_config = config(7010), sink()
    pipeline = wallaroo.source("words", in_config).to(split).key_by(first_letter).to(count).collect().to(history)
    application = wallaroo.build_application("app", pipeline.to_sink(out_config))
    (line,) = application.pipelines
    assert (application.name, line.name, line.source, line.sinks) == ("app", "words", in_config, (out_config,))
    assert [(type(step), step.name) for step in line.steps] == [
        (Computation, "split"),
        (KeyBy, "key_by first_letter"),
        (StateComputation, "count"),
        (KeyBy, "collect"),
        (StateComputation, "history"),
    ]
    counted, kept = line.steps[2], line.steps[4]
    assert (counted.multi, counted.output_only, counted.partition) == (False, True, None)
    assert (kept.multi, kept.output_only, kept.partition) == (True, True, None)
    assert (counted.state.name, counted.state.target, counted.state.partitioned, counted.state.keys) == (
        "count",
        list,
        True,
        None,
    )
    assert counted.bind()("a", []) == (1, True)
    assert kept.bind()("a", ["b"]) == (["b", "a"], True)
    assert line.steps[1].bind()("word") == "w"
    assert line.steps[3].bind()("word") is None
    assert application == [
        ("source", "words", in_config),
        ("to", split),
        ("key_by", first_letter),
        ("to", count),
        ("collect",),
        ("to", history),
        ("to_sink", out_config),
    ]


def test_arguments_have_names():
    pipeline = wallaroo.source(name="words", source_config=config()).to(computation=split)
    pipeline = pipeline.key_by(key_extractor=first_letter).to_sinks(sink_configs=[sink()])
    other = source("others").to_sink(sink_config=sink())
    application = wallaroo.build_application(app_name="app", pipeline=pipeline.merge(pipeline=other))
    assert [line.name for line in application.pipelines] == ["words", "others"]


def test_what_follows_a_merge_is_for_all():
    merged = source("words").to(upper).merge(source("lines").to(split)).to(count).to_sink(sink())
    words, lines = built(merged)
    assert [step.name for step in words.steps] == ["upper", "count"]
    assert [step.name for step in lines.steps] == ["split", "count"]
    assert words.steps[1].state is lines.steps[1].state
    assert words.sinks == lines.sinks
    memory = testing.InMemory(wallaroo.build_application("app", merged))
    memory.send(["a"], to="words").send(["b c"], to="lines").send(["d"], to="words")
    assert (memory.outputs("words"), memory.outputs("lines")) == ([1, 4], [2, 3])
    assert memory.state("count") == ["A", "b", "c", "D"]


def test_merged_messages_keep_the_keys_they_came_with():
    keyed = source("keyed").key_by(first_letter)
    memory = testing.InMemory(
        wallaroo.build_application("app", keyed.merge(source("others")).to(count).to_sink(sink()))
    )
    memory.send(["ab", "ac"], to="keyed").send(["ad"], to="others")
    assert memory.states("count") == {"a": ["ab", "ac"], None: ["ad"]}


def test_pipelines_with_sinks_are_merged_into_one_application():
    one, other, third = source("one").to(upper), source("other").to(lower), source("third")
    lines = built(one.to_sink(sink(1)).merge(other.to_sink(sink(2))).merge(third.to(count)))
    assert [(line.name, [step.name for step in line.steps], len(line.sinks)) for line in lines] == [
        ("one", ["upper"], 1),
        ("other", ["lower"], 1),
        ("third", ["count"], 0),
    ]


def test_the_same_steps_may_end_in_the_sinks_of_several_pipelines():
    counted = source("words").to(count)
    first, second, third = sink(1), sink(2), sink(3)
    (line,) = built(counted.to_sink(first).merge(counted.clone().to_sinks([second, third])))
    assert line.sinks == (first, second, third)
    assert [step.name for step in line.steps] == ["count"]
    (line,) = built(counted.merge(counted.to_sink(first)))
    assert line.sinks == (first,)
    merged = counted.merge(source("others"))
    lines = built(merged.to_sink(first).merge(merged.to_sink(second)))
    assert [(line.name, line.sinks) for line in lines] == [("words", (first, second)), ("others", (first, second))]


def test_a_message_is_computed_once_for_all_sinks():
    counted = source().to(count)
    application = wallaroo.build_application("app", counted.to_sink(sink(1)).merge(counted.to_sink(sink(2))))
    assert testing.run_all(application, ["a", "b"]) == {"words[0]": [1, 2], "words[1]": [1, 2]}


def test_no_method_changes_the_pipeline_and_a_clone_is_independent():
    pipeline = source()
    clone = pipeline.clone()
    assert clone is not pipeline
    assert repr(clone) == repr(pipeline) == "<Pipeline 'words'>"
    with pytest.raises(AttributeError):
        pipeline._lines = ()
    sinks = [sink(1)]
    ended = pipeline.to_sinks(sinks)
    sinks.append(sink(2))
    assert len(built(ended)[0].sinks) == 1
    assert built(pipeline)[0].sinks == ()


METHODS = st.sampled_from(
    [
        ("to", upper),
        ("to", count),
        ("to", old_count),
        ("to",),
        ("key_by", first_letter),
        ("key_by", len),
        ("collect",),
        ("to_sink", sink()),
        ("to_sinks", [sink(1), sink(2)]),
        ("merge", wallaroo.source("others", config()).to(lower)),
        ("merge", 5),
        ("clone",),
    ]
)


def outcome(pipeline):
    """Return what a pipeline becomes, in a form that can be compared."""
    try:
        application = wallaroo.build_application("app", pipeline)
    except wallaroo.WallarooParameterError as error:
        return str(error)
    return list(application), [(line.name, [step.name for step in line.steps]) for line in application.pipelines]


@settings(deadline=None)
@given(st.lists(METHODS, max_size=5), METHODS, METHODS)
def test_pipelines_never_change(beginning, one, other):
    pipeline = source()
    for method, *arguments in beginning:
        pipeline = getattr(pipeline, method)(*arguments)
    before = outcome(pipeline)
    first = getattr(pipeline, one[0])(*one[1:])
    after_one = outcome(first)
    second = getattr(pipeline, other[0])(*other[1:])
    assert len({id(pipeline), id(first), id(second)}) == 3
    assert outcome(pipeline) == before
    assert outcome(first) == after_one
