"""The builder records what it is given, and reports every mistake at once."""

import pytest

import wallaroo
from wallaroo.topology.model import Computation, StateComputation


@wallaroo.decoder
def decode(bs):
    return bs.decode()


@wallaroo.encoder
def encode(data):
    return data.encode()


@wallaroo.computation_multi("split")
def split(line):
    return line.split()


@wallaroo.computation("upper")
def upper(data):
    return data.upper()


@wallaroo.state_computation("count")
def count(word, totals):
    totals.seen += 1
    return (word, totals.seen), True


@wallaroo.partition
def first_letter(word):
    return word[0]


class Totals:
    def __init__(self):
        self.seen = 0


class TotalsBuilder:
    def build(self):
        return Totals()


class Lower:
    def name(self):
        return "lower"

    def compute(self, data):
        return data.lower()


SOURCE = wallaroo.TCPSourceConfig("127.0.0.1", "0", decode)
SINK = wallaroo.TCPSinkConfig("127.0.0.1", "7002", encode)


def started():
    return wallaroo.ApplicationBuilder("app").new_pipeline("words", SOURCE)


def mistakes_of(builder):
    with pytest.raises(wallaroo.WallarooParameterError) as refused:
        builder.build()
    heading, *mistakes = str(refused.value).split("\n  - ")
    expected = "a mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
    assert heading == f"The application 'app' has {expected}:"
    return mistakes


def test_an_application_has_its_pipelines_and_its_declarations():
    builder = started()
    assert builder.to_parallel(split) is builder
    application = (
        builder.to(Lower)
        .to_state_partition(count, Totals, "totals", first_letter, ["a", "b"])
        .to_sinks([SINK, SINK])
        .done()
        .new_pipeline("all", SOURCE)
        .to_stateful(count, TotalsBuilder(), "total")
        .to_sink(SINK)
        .build()
    )
    assert [entry[0] for entry in application] == [
        "new_pipeline", "to_parallel", "to", "to_state_partition", "to_sinks", "done", "new_pipeline",
        "to_stateful", "to_sink",
    ]  # fmt: skip
    assert application[0] == ("new_pipeline", "words", SOURCE)
    assert application[3] == ("to_state_partition", count, Totals, "totals", first_letter, ["a", "b"])
    words, everything = application.pipelines
    assert (application.name, words.name, everything.name) == ("app", "words", "all")
    assert words.source is SOURCE
    assert words.sinks == (SINK, SINK)
    assert [(step.name, step.multi) for step in words.steps] == [
        ("split", True),
        ("lower", False),
        ("count", False),
    ]
    assert all(isinstance(step, Computation) for step in words.steps[:2])
    assert words.steps[1].bind()("A") == "a"
    by_letter, one = words.steps[2], everything.steps[0]
    assert isinstance(by_letter, StateComputation)
    assert (by_letter.state.name, by_letter.state.partitioned) == ("totals", True)
    assert by_letter.state.keys == {"a", "b"}
    assert by_letter.bind_partition()("word") == "w"
    assert isinstance(by_letter.state.make()(), Totals)
    assert (one.state.name, one.state.partitioned, one.state.keys, one.bind_partition()) == (
        "total",
        False,
        None,
        None,
    )
    assert isinstance(one.state.make()(), Totals)


@pytest.mark.parametrize("keys", [{}, {"partition_keys": None}, {"partition_keys": []}])
def test_any_key_is_accepted_if_none_are_listed(keys):
    application = started().to_state_partition(count, Totals, "totals", first_letter, **keys).build()
    assert application.pipelines[0].steps[0].state.keys is None


@pytest.mark.parametrize("method", ["to_state_partition", "to_state_partition_u64"])
@pytest.mark.parametrize(
    "keys",
    [
        lambda: range(3),
        lambda: (0, 1, 2),
        lambda: {0, 1, 2},
        lambda: dict.fromkeys([0, 1, 2]),
        lambda: dict.fromkeys([0, 1, 2]).keys(),
        lambda: (number for number in range(3)),
        lambda: map(int, "012"),
    ],
)
def test_keys_may_be_any_iterable(method, keys):
    builder = getattr(started(), method)(count, Totals, "totals", first_letter, keys())
    # Building again is no second look at a generator, which would be empty.
    for _ in range(2):
        assert builder.build().pipelines[0].steps[0].state.keys == {0, 1, 2}


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("abc", "got 'abc' (a str): write list('abc') where each letter is a key"),
        (b"abc", "got b'abc' (a bytes): write a list"),
        (5, "got 5 (an int): write a list"),
        (iter("aba"), "the partition key 'a' is in partition_keys more than once"),
    ],
)
def test_what_cannot_be_keys_is_a_mistake(keys, expected):
    (mistake,) = mistakes_of(started().to_state_partition(count, Totals, "totals", first_letter, keys))
    assert expected in mistake


def test_all_spellings_of_the_arguments_work():
    partition = {"partition_function": first_letter, "partition_keys": [1]}
    pipelines = (
        started()
        .to_stateful(computation=count, state_class=Totals, state_name="s1")
        .to_stateful(computation=count, state_builder=TotalsBuilder(), state_name="s2")
        .to_state_partition(computation=count, state=Totals, state_partition_name="s3", **partition)
        .to_state_partition(computation=count, state_builder=TotalsBuilder, state_name="s4", **partition)
        .to_state_partition_u64(computation=count, state_builder=Totals, state_partition_name="s5", **partition)
        .to_state_partition_u64(computation=count, state=Totals, state_name="s6", **partition)
        .to_sinks(sink_configs=[SINK])
        .new_pipeline(name="second", source_config=SOURCE)
        .to(computation=upper)
        .to_parallel(computation=upper)
        .to_sink(sink_config=SINK)
        .build()
        .pipelines
    )
    states = [step.state for step in pipelines[0].steps]
    assert [state.name for state in states] == ["s1", "s2", "s3", "s4", "s5", "s6"]
    assert all(isinstance(state.make()(), Totals) for state in states)


def test_a_state_given_under_two_names_is_a_mistake():
    builder = started().to_stateful(count, Totals, "s", state_builder=Totals)
    assert mistakes_of(builder) == [
        "the step count: state_class and state_builder mean the same: give only one of them."
    ]


def test_pipelines_share_a_state_by_its_name():
    builder = started().to_stateful(count, TotalsBuilder(), "shared")
    builder.new_pipeline("more", SOURCE).to_stateful(count, TotalsBuilder(), "shared")
    one, other = (pipeline.steps[0].state for pipeline in builder.build().pipelines)
    assert one is other


def test_a_new_pipeline_closes_the_one_before():
    application = started().to(upper).new_pipeline("second", SOURCE).to(split).to_sink(SINK).build()
    assert [[step.name for step in pipeline.steps] for pipeline in application.pipelines] == [
        ["upper"],
        ["split"],
    ]


def test_a_computation_may_be_used_twice():
    assert len(started().to(upper).to(upper).to(Lower).to(Lower).build().pipelines[0].steps) == 4


def test_building_again_gives_the_same():
    builder = started().to(upper)
    assert builder.build() == builder.build()


def test_no_method_raises_and_every_mistake_is_listed():
    builder = wallaroo.ApplicationBuilder("app")
    builder.to(upper)
    builder.new_pipeline("words", SINK)
    builder.to(count)
    builder.to_stateful(split, Totals(), 5)
    builder.to_sink(SOURCE)
    stateful = "pipeline 'words', step 2 (to_stateful split): "
    assert mistakes_of(builder) == [
        "to upper: there is no open pipeline: write new_pipeline(name, source_config) before to.",
        (
            "pipeline 'words': the source must be a source config; got TCPSinkConfig(...) (a TCPSinkConfig): "
            "that is a sink, write wallaroo.TCPSourceConfig(host, port, decoder)."
        ),
        (
            "pipeline 'words', step 1 (to count): count is a state computation: write "
            'to_stateful(count, StateClass, "state name") or '
            'to_state_partition(count, StateClass, "state name", partition_function, partition_keys).'
        ),
        stateful + "split is a computation without state: write to(split) or to_parallel(split).",
        (
            stateful + "the state must be a class, or an object with a build() method; got Totals(...) "
            "(a Totals): give the class itself, Totals."
        ),
        stateful + "the name of the state must be a string; got 5 (an int).",
        (
            "pipeline 'words', to_sink: a sink must be a sink config; got TCPSourceConfig(...) "
            "(a TCPSourceConfig): that is a source, write wallaroo.TCPSinkConfig(host, port, encoder)."
        ),
    ]


def test_omitted_arguments_are_named():
    builder = started().to_stateful(count).to_state_partition(count, Totals).to().to_sink()
    builder.new_pipeline("only a name").to_state_partition_u64(computation=count, partition_function=first_letter)
    assert mistakes_of(builder) == [
        (
            "pipeline 'words', step 1 (to_stateful count): state_class and state_name are missing: write "
            'to_stateful(count, StateClass, "state name").'
        ),
        (
            "pipeline 'words', step 2 (to_state_partition count): state_partition_name and "
            "partition_function are missing: write "
            'to_state_partition(count, Totals, "state name", partition_function).'
        ),
        "pipeline 'words', step 3 (to): computation is missing: write to(computation).",
        (
            "pipeline 'words', to_sink: sink_config is missing: write "
            "to_sink(wallaroo.TCPSinkConfig(host, port, encoder))."
        ),
        (
            "pipeline 'only a name': source_config is missing: write new_pipeline('only a name', "
            "wallaroo.TCPSourceConfig(host, port, decoder))."
        ),
        (
            "pipeline 'only a name', step 1 (to_state_partition_u64 count): state_builder and "
            "state_partition_name are missing: write "
            'to_state_partition_u64(count, StateClass, "state name", first_letter).'
        ),
    ]


@pytest.mark.parametrize(
    ("builder", "expected"),
    [
        (lambda: started().done().to(upper), "to upper: there is no open pipeline"),
        (lambda: started().done().to_sink(SINK), "to_sink TCPSinkConfig(...): there is no open pipeline"),
        (lambda: started().to_sink(SINK).to(upper), "step 1 (to upper): a step cannot come after the sink"),
        (
            lambda: started().to_sink(SINK).to_sink(SINK),
            "pipeline 'words', to_sink: the pipeline already has its sink",
        ),
        (lambda: started().to_sink(SINK).to_sinks([SINK]), "write to_sinks([one, another]) once for several"),
        (lambda: started().to_sinks(SINK), "to_sinks needs a list of sinks; got TCPSinkConfig(...)"),
        (lambda: started().to_sinks([]), "to_sinks got an empty list"),
        (lambda: started().to_sinks([SINK, 5]), "a sink must be a sink config; got 5 (an int)"),
        (lambda: wallaroo.ApplicationBuilder("app"), "there is no pipeline"),
        (
            lambda: wallaroo.ApplicationBuilder("app").new_pipeline(5, SOURCE),
            "pipeline 1: the name of the pipeline",
        ),
        (lambda: started().new_pipeline("words", SOURCE), "2 pipelines are called 'words'"),
    ],
)
def test_each_mistake_in_the_order_of_calls_is_found(builder, expected):
    (mistake,) = mistakes_of(builder())
    assert expected in mistake


@pytest.mark.parametrize("name", [5, "", None])
def test_an_application_needs_a_name(name):
    builder = wallaroo.ApplicationBuilder(name).new_pipeline("words", SOURCE)
    with pytest.raises(wallaroo.WallarooParameterError, match="the name of the application"):
        builder.build()


def test_a_class_that_cannot_be_made_is_a_mistake():
    class Broken(Lower):
        def __init__(self):
            raise OSError("no such model")

    (mistake,) = mistakes_of(started().to(Broken))
    assert mistake == "pipeline 'words', step 1 (to Broken): Broken() failed with OSError: no such model."
