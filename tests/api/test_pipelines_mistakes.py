"""Every mistake that can be made with pipelines that are chained and merged."""

import pytest

import wallaroo


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


@wallaroo.state_computation_multi("old history")
def old_history(data, seen):
    return seen, True


class Total:
    def name(self):
        return "total"

    def compute(self, data, state):
        return data, True


def config(port=0):
    return wallaroo.TCPSourceConfig("127.0.0.1", port, decode)


def sink(port=7002):
    return wallaroo.TCPSinkConfig("127.0.0.1", port, encode)


def source(name="words", port=0):
    return wallaroo.source(name, config(port))


def built(pipeline, name="app"):
    return wallaroo.build_application(name, pipeline).pipelines


def mistakes_of(pipeline, name="app"):
    with pytest.raises(wallaroo.WallarooParameterError) as refused:
        wallaroo.build_application(name, pipeline)
    heading, *mistakes = str(refused.value).split("\n  - ")
    expected = "a mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
    assert heading == f"The application {name!r} has {expected}:"
    return mistakes


OLD = (
    "is a state computation that does not bring its state: write a function with "
    '@wallaroo.{}("step name", StateClass) above it that returns the output alone, without save_state; '
    "or use it as it is with wallaroo.ApplicationBuilder."
)


@pytest.mark.parametrize(
    ("pipeline", "expected"),
    [
        (
            lambda: source().to(old_count),
            "pipeline 'words', step 1 (to old_count): old_count " + OLD.format("state_computation"),
        ),
        (
            lambda: source().to(upper).to(old_history),
            "pipeline 'words', step 2 (to old_history): old_history " + OLD.format("state_computation_multi"),
        ),
        (
            lambda: source().to(Total),
            "pipeline 'words', step 1 (to Total): Total " + OLD.format("state_computation"),
        ),
        (
            lambda: source().to(len),
            (
                "pipeline 'words', step 1 (to len): len is a plain function: write "
                '@wallaroo.computation("len") above it, or @wallaroo.computation_multi("len") if it returns a list of '
                "outputs."
            ),
        ),
        (lambda: source().to(), "pipeline 'words', step 1 (to): computation is missing: write to(computation)."),
        (
            lambda: source().key_by(),
            "pipeline 'words', step 1 (key_by): key_extractor is missing: write key_by(key_extractor).",
        ),
        (
            lambda: source().key_by(len),
            (
                "pipeline 'words', step 1 (key_by len): the key extractor len is a plain function: write "
                "@wallaroo.key_extractor above it."
            ),
        ),
        (
            lambda: source().key_by("first letter"),
            (
                "pipeline 'words', step 1 (key_by 'first letter'): the key extractor 'first letter' has no method "
                "extract_key: write a function with @wallaroo.key_extractor above it, or a class with "
                "extract_key(data)."
            ),
        ),
        (
            lambda: source().to_sink(sink()).to(upper),
            (
                "pipeline 'words', step 1 (to upper): a step cannot come after the sink: put it before, and where it "
                "is for several pipelines, merge them before their sinks."
            ),
        ),
        (
            lambda: source().to_sink(sink()).collect(),
            (
                "pipeline 'words', step 1 (collect): a step cannot come after the sink: put it before, and where it "
                "is for several pipelines, merge them before their sinks."
            ),
        ),
        (
            lambda: source("open").merge(source("ended").to_sink(sink())).to(upper),
            (
                "pipeline 'ended', step 1 (to upper): a step cannot come after the sink: put it before, and where it "
                "is for several pipelines, merge them before their sinks."
            ),
        ),
        (
            lambda: source().to_sink(sink()).to_sink(sink()),
            (
                "pipeline 'words', to_sink: the pipeline already has its sink: write to_sinks([one, another]) once for "
                "several."
            ),
        ),
        (
            lambda: source().to_sink(),
            (
                "pipeline 'words', to_sink: sink_config is missing: write "
                "to_sink(wallaroo.TCPSinkConfig(host, port, encoder))."
            ),
        ),
        (
            lambda: source().to_sinks(sink()),
            (
                "pipeline 'words', to_sinks: to_sinks needs a list of sinks; got TCPSinkConfig(...) (a TCPSinkConfig): "
                "write to_sinks([wallaroo.TCPSinkConfig(host, port, encoder), ...])."
            ),
        ),
        (
            lambda: source().merge(5),
            (
                "pipeline 'words', merge: the other pipeline must be one, made with wallaroo.source(name, config); "
                "got 5 (an int)."
            ),
        ),
        (
            lambda: source("a").merge(source("b")).merge(),
            "pipeline 'a' and 'b', merge: the other pipeline is missing: write merge(pipeline).",
        ),
        (
            lambda: wallaroo.source(5, config()),
            "pipeline 1: the name of the source must be a string; got 5 (an int).",
        ),
        (lambda: wallaroo.source("", config()), "pipeline 1: the name of the source is empty: give it a name."),
        (
            lambda: wallaroo.source("words"),
            (
                "pipeline 'words': source_config is missing: write source('words', "
                "wallaroo.TCPSourceConfig(host, port, decoder))."
            ),
        ),
        (
            lambda: wallaroo.source("words", sink()),
            (
                "pipeline 'words': the source must be a source config; got TCPSinkConfig(...) (a TCPSinkConfig): that "
                "is a sink, write wallaroo.TCPSourceConfig(host, port, decoder)."
            ),
        ),
        (
            lambda: source("words").merge(source("words")),
            "2 pipelines are called 'words': give each pipeline a name of its own.",
        ),
        (
            lambda: source("(replayed dead letters)"),
            (
                "a pipeline is called '(replayed dead letters)', which is the name of an internal source: give it "
                "another name."
            ),
        ),
        (
            lambda: source("a", 7010).merge(source("b", 7010)),
            "the pipelines 'a' and 'b' both listen on 127.0.0.1:7010: give each source a port of its own.",
        ),
    ],
)
def test_every_mistake_in_a_chain(pipeline, expected):
    assert mistakes_of(pipeline()) == [expected]


def test_all_mistakes_are_reported_at_once_and_shared_ones_once():
    merged = wallaroo.source("a", None).merge(source("b").key_by(len)).to(old_count).to(5).to_sink(None)
    assert [mistake.partition(": ")[0] for mistake in mistakes_of(merged)] == [
        "pipeline 'a'",
        "pipeline 'a', step 1 (to old_count)",
        "pipeline 'a', step 2 (to 5)",
        "pipeline 'a', to_sink",
        "pipeline 'b', step 1 (key_by len)",
    ]


def test_a_source_without_a_name_is_reported_as_such():
    slip, missing = mistakes_of(wallaroo.source(source_config=config()).merge(5))
    assert slip.startswith("pipeline without a name, merge: the other pipeline must be one")
    assert missing.startswith('pipeline 1: name is missing: write source("source name", TCPSourceConfig(...))')
    assert repr(wallaroo.source()) == "<Pipeline without a name>"


def test_a_mistake_in_merging_is_reported_once_however_often_it_is_merged():
    slip = source("a").merge(None)
    (mistake,) = mistakes_of(slip.to_sink(sink(1)).merge(slip.to_sink(sink(2))))
    assert "pipeline 'a', merge: the other pipeline must be one" in mistake


@pytest.mark.parametrize(
    "branched",
    [
        lambda words: words.to(count).to_sink(sink(1)).merge(words.to(count).to_sink(sink(2))),
        lambda words: words.to(upper).to(count).merge(words.to(lower).key_by(first_letter).to(count)),
    ],
)
def test_branches_that_use_the_same_state_are_merged_before_it(branched):
    (mistake,) = mistakes_of(branched(source()))
    assert mistake.startswith("pipeline 'words' visits the state 'count' in several branches. The messages of one ")
    assert "Merge the branches before this step, as in one.merge(another).to(computation)" in mistake


def test_branches_pass_states_in_one_order():
    words = source()
    *_, circle = mistakes_of(words.to(count).to(history).merge(words.to(history).to(count)))
    assert circle.startswith("the pipelines visit shared states in different orders: pipeline 'words' goes from ")
    (mistake,) = mistakes_of(words.to(count).merge(words.to(history)).to(count))
    assert mistake.startswith("pipeline 'words' visits the state 'count' more than once")


def test_no_branch_continues_after_a_sink():
    words = source()
    (mistake,) = mistakes_of(words.merge(words.to_sink(sink(1))).to(upper))
    assert mistake.startswith("pipeline 'words', step 1 (to upper): a step cannot come after the sink")


def test_a_mistake_before_branches_is_reported_once_and_those_in_each():
    words = source().to(len)
    (first, second, third) = mistakes_of(words.to(5).to_sink(sink(1)).merge(words.to_sink(None)))
    assert first.startswith("pipeline 'words', step 1 (to len): len is a plain function")
    assert second.startswith("pipeline 'words', step 2 (to 5): 5 is not a computation")
    assert third.startswith("pipeline 'words', to_sink: a sink must be a sink config; got None")


def test_mistakes_in_any_number_of_forks_are_reported_once_each():
    pipeline = source()
    for _ in range(40):
        pipeline = pipeline.to(len).merge(pipeline.to(5))
    steps = [mistake.partition(": ")[0] for mistake in mistakes_of(pipeline.merge(pipeline))[1:]]
    assert steps == [f"pipeline 'words', step {number + 1} (to {['len', 5][number % 2]})" for number in range(80)]


def merged_twice(pipeline, other):
    return pipeline.merge(other).merge(other)


@pytest.mark.parametrize(
    "merged",
    [
        lambda words: words.merge(words),
        lambda words: words.merge(words.clone()).to(count).to_sink(sink()),
        lambda words: words.merge(source("others")).merge(words).to_sink(sink()),
        lambda words: merged_twice(words.to_sink(sink(1)), words.to_sink(sink(2))),
        lambda words: merged_twice(words, words),
        lambda words: merged_twice(source("others"), words.to(upper).merge(words.to(lower)).to(count)),
    ],
)
def test_a_pipeline_cannot_be_merged_with_itself(merged):
    assert mistakes_of(merged(source())) == [
        "the pipeline of source 'words' is merged with itself: its messages would come twice. Merge it once."
    ]


def test_a_state_computation_comes_once_in_a_pipeline():
    (mistake,) = mistakes_of(source().to(count).key_by(first_letter).to(count))
    assert "pipeline 'words' visits the state 'count' more than once" in mistake
    assert "with the state in its decorator, a computation's name is its state's too" in mistake


def test_states_of_the_same_name_must_be_alike():
    other = wallaroo.state_computation("count", dict)(lambda data, state: data)
    (mistake,) = mistakes_of(source("a").to(count).merge(source("b").to(other)))
    assert "pipeline 'b', step 1 (to <lambda>): the state name 'count' is already used in pipeline 'a'" in mistake


def test_key_extractors_need_no_names_of_their_own():
    by_first, by_last = (wallaroo.key_extractor(lambda data, at=at: data[at]) for at in (0, -1))
    pipeline = source().key_by(by_first).to(count).key_by(by_last).to(history)
    assert [step.name for step in built(pipeline)[0].steps][::2] == ["key_by <lambda>", "key_by <lambda>"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("app", 5), "build_application needs a pipeline, made with wallaroo.source(name, config); got 5 (an int)."),
        (("app",), 'write build_application("application name", pipeline), in this order.'),
        (
            ("app", [source("a"), source("b")]),
            (
                "build_application needs a pipeline, made with wallaroo.source(name, config); got a list of pipelines: "
                "write them one after the other, without brackets."
            ),
        ),
        (
            ("app", wallaroo.ApplicationBuilder("b")),
            (
                "build_application needs a pipeline, made with wallaroo.source(name, config); got "
                "ApplicationBuilder(...) (an ApplicationBuilder): a builder builds its application itself, with "
                "build()."
            ),
        ),
        (
            ("app", source("a"), None, source("b")),
            "build_application needs a pipeline, made with wallaroo.source(name, config); got None.",
        ),
        (("app", source("a"), source("a")), "2 pipelines are called 'a': give each pipeline a name of its own."),
        ((source("a"), "app"), 'write build_application("application name", pipeline), in this order.'),
        (("", source("a")), "the name of the application is empty: give it a name."),
        ((5, source("a")), "the name of the application must be a string; got 5 (an int)."),
    ],
)
def test_what_build_application_is_given(arguments, expected):
    with pytest.raises(wallaroo.WallarooParameterError) as refused:
        wallaroo.build_application(*arguments)
    assert str(refused.value).endswith(f"\n  - {expected}")


@pytest.mark.parametrize("method", ["to_parallel", "to_stateful", "to_state_partition", "to_state_partition_u64"])
def test_a_state_that_is_brought_and_another_one_are_a_mistake(method):
    about_state = {
        "to_parallel": (),
        "to_stateful": (list, "counts"),
        "to_state_partition": (list, "counts", first_letter),
        "to_state_partition_u64": (list, "counts", first_letter, [1]),
    }[method]
    ab = wallaroo.ApplicationBuilder("app").new_pipeline("words", config())
    getattr(ab, method)(count, *about_state)
    with pytest.raises(wallaroo.WallarooParameterError) as refused:
        ab.build()
    brings = f"pipeline 'words', step 1 ({method} count): count is a state computation that brings its state, list: "
    instead = (
        ", after key_by(key_extractor) in a pipeline made with wallaroo.source if each key has a state of its own; or "
        f"leave the state out of its decorator, return (output, save_state), and keep {method}"
    )
    assert str(refused.value).endswith(f"{brings}write to(count){'' if method == 'to_parallel' else instead}.")
