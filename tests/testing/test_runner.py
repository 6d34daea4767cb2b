"""Applications in memory: the outputs, the states and the errors of a real run, without one."""

import sys

import pytest
from tests.processes import run_python

import wallaroo
from wallaroo import testing


@wallaroo.decoder
def decode(bs):
    return bs.decode()


@wallaroo.computation_multi("split")
def split(line):
    return line.split()


@wallaroo.partition
def first_letter(word):
    return word[0]


class Totals:
    def __init__(self):
        self.totals = {}


@wallaroo.state_computation("count")
def count(word, state):
    if word == "bad":
        state.totals["trace"] = True
        raise ValueError("a bad word")
    state.totals[word] = state.totals.get(word, 0) + 1
    return (word, state.totals[word]), True


@wallaroo.state_computation("count by letter", Totals)
def count_by_letter(word, state):
    return count.compute(word, state)[0]


@wallaroo.encoder
def encode(counted):
    return "{} => {}\n".format(*counted)


@wallaroo.encoder
def encode_word(counted):
    return counted[0].encode()


def word_count(args):
    host, port = wallaroo.tcp_parse_input_addrs(args)[0]
    ab = wallaroo.ApplicationBuilder("Words")
    ab.new_pipeline("words", wallaroo.TCPSourceConfig(host, port, decode))
    ab.to(split)
    ab.to_state_partition(count, Totals, "totals", first_letter, list("abhw"))
    ab.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", "7002", encode))
    return ab.build()


def two_pipelines():
    ab = wallaroo.ApplicationBuilder("Two")
    ab.new_pipeline("one", wallaroo.TCPSourceConfig("127.0.0.1", "7010", decode))
    ab.to_state_partition(count, Totals, "totals", first_letter)
    ab.to_sinks(
        [wallaroo.TCPSinkConfig("127.0.0.1", port, encoder) for port, encoder in ((1, encode), (2, encode_word))]
    )
    ab.new_pipeline("two", wallaroo.TCPSourceConfig("127.0.0.1", "7011", decode))
    ab.to_state_partition(count, Totals, "totals", first_letter)
    ab.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", "7004", encode))
    return ab.build()


class OneWayError(Exception):
    """Is pickled with one argument, and takes two."""

    def __init__(self, what, where):
        super().__init__(f"{what} {where}")


class TestRun:
    def test_bytes_are_decoded_and_outputs_come_in_order(self):
        assert testing.run(word_count, [b"why hello", b"why"]) == [("why", 1), ("hello", 1), ("why", 2)]

    def test_messages_need_no_decoder(self):
        assert testing.run(word_count, ["why", "why"]) == [("why", 1), ("why", 2)]

    def test_encoded(self):
        assert testing.run(word_count, ["why why"], encoded=True) == [b"why => 1\n", b"why => 2\n"]

    def test_several_sources_and_sinks_have_names(self):
        outputs = testing.run_all(two_pipelines(), {"one": ["a"], "two": ["a", "b"]}, encoded=True)
        assert outputs == {"one[0]": [b"a => 1\n"], "one[1]": [b"a"], "two": [b"a => 2\n", b"b => 1\n"]}

    def test_all_sinks_by_name_also_if_there_is_only_one(self):
        assert testing.run_all(word_count, ["why"]) == {"words": [("why", 1)]}
        assert testing.run_all(word_count, ["why"], encoded=True) == {"words": [b"why => 1\n"]}

    def test_the_outputs_of_several_sinks_are_no_list(self):
        with pytest.raises(wallaroo.WallarooError) as refused:
            testing.run(two_pipelines(), {"one": ["a"]})
        assert str(refused.value) == (
            "The application has 3 sinks (one[0], one[1], two), and testing.run returns the outputs of one: call "
            "testing.run_all, which returns those of each by its name."
        )

    @pytest.mark.parametrize("made", ["why", b"why", bytearray(b"why"), memoryview(b"why")])
    def test_what_is_encoded_is_bytes(self, made):
        ab = wallaroo.ApplicationBuilder("Encoded")
        ab.new_pipeline("words", wallaroo.TCPSourceConfig("127.0.0.1", "7010", decode))
        ab.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", "7002", wallaroo.encoder(lambda _: made)))
        (encoded,) = testing.run(ab.build(), ["x"], encoded=True)
        assert (type(encoded), encoded) == (bytes, b"why")

    def test_two_runs_are_independent(self):
        assert testing.run(word_count, ["why"]) == testing.run(word_count, ["why"])

    def test_the_command_line_is_handed_over(self):
        seen = []

        def setup(args):
            seen.extend(args)
            return word_count(args)

        testing.run(setup, [], args=["--in", "127.0.0.1:1", "--more"])
        assert seen == ["--in", "127.0.0.1:1", "--more"]


class TestAddresses:
    """An `application_setup` is given as many addresses as it asks for."""

    @staticmethod
    def application(inputs, outputs):
        ab = wallaroo.ApplicationBuilder("Addresses")
        for name, (host, port) in zip("abcdef", inputs, strict=False):
            ab.new_pipeline(name, wallaroo.TCPSourceConfig(host, port, decode))
            ab.to_sinks([wallaroo.TCPSinkConfig(*address, encode_word) for address in outputs])
        return ab.build()

    @pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (1, 3), (4, 1), (6, 6)])
    def test_programs_that_unpack_exactly_theirs(self, inputs, outputs):
        def setup(args):
            sources, sinks = wallaroo.tcp_parse_input_addrs(args), wallaroo.tcp_parse_output_addrs(args)
            if (len(sources), len(sinks)) != (inputs, outputs):
                raise ValueError("not enough values to unpack, or too many")
            return self.application(sources, sinks)

        assert len(testing.InMemory(setup).sinks) == inputs * outputs
        assert testing.run_all(setup, {"a": [("why", 1)]})["a" if outputs == 1 else "a[0]"] == [("why", 1)]

    def test_programs_that_look_at_the_last_of_theirs(self):
        def setup(args):
            return self.application(
                wallaroo.tcp_parse_input_addrs(args)[:1], [wallaroo.tcp_parse_output_addrs(args)[4]]
            )

        assert testing.InMemory(setup).sinks == ["a"]

    def test_another_error_is_the_one_that_is_raised(self):
        def setup(args):
            _one, _other = wallaroo.tcp_parse_input_addrs(args)
            return int("seven")

        with pytest.raises(ValueError, match="invalid literal for int"):
            testing.run(setup, [])

    def test_errors_unrelated_to_addresses_are_tried_once(self):
        calls = []

        def setup(args):
            calls.append(args)
            raise KeyError("model")

        with pytest.raises(KeyError, match="model"):
            testing.run(setup, [])
        assert len(calls) == 1


class TestInMemory:
    def test_states_can_be_looked_at(self):
        memory = testing.InMemory(word_count).send(["why hello why"])
        assert memory.state("totals", "w").totals == {"why": 2}
        assert memory.state("totals", "z") is None
        assert sorted(memory.states("totals")) == ["h", "w"]

    def test_messages_can_be_sent_in_several_calls(self):
        memory = testing.InMemory(two_pipelines())
        memory.send(["a"], to="one").send([b"a"], to="two")
        assert memory.outputs("two") == [("a", 2)]
        assert memory.outputs("one[1]", encoded=True) == [b"a"]

    @pytest.mark.parametrize(("given", "shown"), [(testing, "a module"), ("word_count", "'word_count'")])
    def test_a_module_is_refused_clearly(self, given, shown):
        with pytest.raises(wallaroo.WallarooError, match=rf"got .*{shown}.*: write word_count\.application_setup"):
            testing.run(given, [])

    def test_errors_can_be_kept_as_in_a_real_run(self):
        memory = testing.InMemory(word_count, keep_errors=True, strict_keys=True).send(["why bad", "zebra", "why"])
        assert memory.outputs() == [("why", 1), ("why", 2)]
        assert [record["step"] for record in memory.errors] == ["count", "count"]
        assert "a bad word" in memory.errors[0]["error"]
        assert "'z'" in memory.errors[1]["error"]
        assert memory.state("totals", "b").totals == {}

    def test_errors_say_where_their_messages_came_from(self):
        memory = testing.InMemory(two_pipelines(), keep_errors=True)
        memory.send(["a", "bad"], to="two").send(["bad"], to="one").send([b"\xff"], to="two")
        places = [(record["step"], record["source"], record["position"]) for record in memory.errors]
        assert places == [("count", "two", 1), ("count", "one", 0), ("decoder", "two", 2)]

    def test_what_another_branch_gives_is_recorded_once_when_a_state_fails(self):
        sink = {name: wallaroo.TCPSinkConfig("127.0.0.1", 7002, wallaroo.encoder(str), name=name) for name in "ab"}
        words = wallaroo.source("words", wallaroo.TCPSourceConfig("127.0.0.1", 7010, decode))
        copied, counted = words.to_sink(sink["a"]), words.key_by(first_letter).to(count_by_letter).to_sink(sink["b"])
        application = wallaroo.build_application("Branches", copied, counted)
        memory = testing.InMemory(application, keep_errors=True).send(["by", "bad", "why"])
        assert memory.outputs("words[a]") == ["by", "bad", "why"]
        assert [record["message"] for record in memory.errors] == ["'bad'"]

    def test_a_failed_step_leaves_the_states_as_they_were(self):
        memory = testing.InMemory(word_count).send(["why", "by"])
        with pytest.raises(testing.StepError):
            memory.send(["bad"])
        assert {key: state.totals for key, state in memory.states("totals").items()} == {
            "w": {"why": 1},
            "b": {"by": 1},
        }
        assert memory.send(["by"]).outputs() == [("why", 1), ("by", 1), ("by", 2)]

    def test_a_state_that_cannot_be_saved_goes_back_to_what_it_was(self):
        @wallaroo.state_computation("keep")
        def keep(word, state):
            state[word] = (lambda: word) if word == "bad" else word
            return list(state), True

        ab = wallaroo.ApplicationBuilder("Unsaved")
        ab.new_pipeline("words", wallaroo.TCPSourceConfig("127.0.0.1", "7010", decode))
        ab.to_stateful(keep, dict, "kept").to_sink(wallaroo.TCPSinkConfig("127.0.0.1", "7002", wallaroo.encoder(str)))
        memory = testing.InMemory(ab.build(), keep_errors=True).send(["one", "bad", "two"])
        assert memory.outputs() == [["one"], ["one", "bad"], ["one", "two"]]
        assert memory.state("kept") == {"one": "one", "two": "two"}
        (record,) = memory.errors
        assert "cannot be saved" in record["error"]

    def test_consecutive_states(self):
        @wallaroo.state_computation("most")
        def most(counted, state):
            state[counted[0]] = counted[1]
            return max(state.values()), True

        ab = wallaroo.ApplicationBuilder("Levels")
        ab.new_pipeline("words", wallaroo.TCPSourceConfig("127.0.0.1", "7010", decode)).to(split)
        ab.to_state_partition(count, Totals, "totals", first_letter).to_stateful(most, dict, "most")
        ab.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", "7002", wallaroo.encoder(str)))
        memory = testing.InMemory(ab.build()).send(["a a b", "a b"])
        assert sorted(memory.outputs()) == [1, 2, 2, 3, 3]
        assert memory.state("most") == {"a": 3, "b": 2}

    @pytest.mark.parametrize(
        ("ask", "words"),
        [
            (lambda memory: memory.send([], to="three"), "no pipeline 'three'. The application has: 'one', 'two'"),
            (lambda memory: memory.send([]), "Which pipeline? The application has: 'one', 'two'"),
            (lambda memory: memory.outputs("one"), "no sink 'one'. The application has: 'one[0]', 'one[1]', 'two'"),
            (lambda memory: memory.state("sums"), "no state 'sums'; there is: 'totals'"),
        ],
    )
    def test_a_wrong_name_is_reported_with_the_right_ones(self, ask, words):
        with pytest.raises(wallaroo.WallarooError) as raised:
            ask(testing.InMemory(two_pipelines()))
        assert words in str(raised.value)


class TestErrors:
    def test_a_failing_step_is_raised_with_its_message(self):
        with pytest.raises(testing.StepError) as raised:
            testing.run(word_count, ["why bad"])
        assert (raised.value.pipeline, raised.value.step, raised.value.message) == ("words", "count", "bad")
        assert "Pipeline 'words', step 'count' failed for the message 'bad': ValueError: a bad word" in str(
            raised.value
        )
        assert isinstance(raised.value.__cause__, ValueError)

    def test_a_forgotten_save_state(self):
        @wallaroo.state_computation("pair")
        def pair(word, state):
            return word, len(word)

        ab = wallaroo.ApplicationBuilder("Forgotten")
        ab.new_pipeline("words", wallaroo.TCPSourceConfig("127.0.0.1", "7010", decode)).to_stateful(pair, dict, "s")
        with pytest.raises(testing.StepError) as raised:
            testing.run(ab.build(), ["why"])
        assert str(raised.value) == (
            "Pipeline 'words', step 'pair' failed for the message 'why': ReturnShapeError: expected True or False for "
            "save_state, got an int: 3. Write `return output, True` to have the state saved, `return output, False` if "
            "not, and `return (a, b), True` for a pair"
        )

    def test_a_failing_decoder(self):
        with pytest.raises(testing.StepError, match="step 'decoder' failed"):
            testing.run(word_count, [b"\xff"])

    def test_a_step_that_would_end_the_process(self):
        @wallaroo.computation("exit")
        def leave(word):
            sys.exit(word)

        ab = wallaroo.ApplicationBuilder("Exits")
        ab.new_pipeline("words", wallaroo.TCPSourceConfig("127.0.0.1", "7010", decode)).to(leave)
        with pytest.raises(testing.StepError, match="step 'exit' failed for the message 'why': SystemExit: why"):
            testing.run(ab.build(), ["why"])

    def test_decoders_of_lines(self):
        class Lines:
            framing = "lines"

            def decode(self, bs):
                return bs.decode()

        for decoder in (Lines(), wallaroo.decoder(framing="lines")(bytes.decode)):
            ab = wallaroo.ApplicationBuilder("Lines")
            ab.new_pipeline("words", wallaroo.TCPSourceConfig("127.0.0.1", "7010", decoder))
            ab.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", "7002", encode))
            assert testing.run(ab.build(), [b"a line", "decoded"]) == ["a line", "decoded"]

    def test_a_key_that_is_not_listed(self):
        assert sorted(testing.run(word_count, ["zebra why zebra"])) == [("why", 1), ("zebra", 1), ("zebra", 2)]
        with pytest.raises(testing.StepError, match="'z'"):
            testing.InMemory(word_count, strict_keys=True).send(["zebra"])

    @pytest.mark.parametrize("key", [-1, "one", 1 << 64])
    def test_a_key_that_is_no_whole_number(self, key):
        @wallaroo.partition
        def of(word):
            return key

        ab = wallaroo.ApplicationBuilder("Numbers")
        ab.new_pipeline("words", wallaroo.TCPSourceConfig("127.0.0.1", "7010", decode))
        ab.to_state_partition_u64(count, Totals, "totals", of)
        with pytest.raises(testing.StepError, match="to_state_partition_u64 takes whole numbers from 0 to"):
            testing.run(ab.build(), ["why"])

    def test_a_message_that_is_pickled_but_does_not_come_back(self):
        ab = wallaroo.ApplicationBuilder("One way")
        ab.new_pipeline("words", wallaroo.TCPSourceConfig("127.0.0.1", "7010", decode))
        ab.to_stateful(count, Totals, "totals")
        memory = testing.InMemory(ab.build(), keep_errors=True).send(["why", OneWayError("a", "b"), "why"])
        assert memory.state("totals").totals == {"why": 2}
        (record,) = memory.errors
        assert "the message cannot be sent to the worker of its key" in record["error"]

    def test_a_message_that_no_worker_could_get(self):
        @wallaroo.computation("make")
        def make(word):
            return lambda: word

        ab = wallaroo.ApplicationBuilder("Unpicklable")
        ab.new_pipeline("words", wallaroo.TCPSourceConfig("127.0.0.1", "7010", decode))
        ab.to(make).to_stateful(count, Totals, "totals")
        with pytest.raises(testing.StepError, match="step 'count' failed"):
            testing.run(ab.build(), ["why"])


def test_printing_is_the_tests_own(capsys):
    @wallaroo.computation("print")
    def show(word):
        print(word)

    ab = wallaroo.ApplicationBuilder("Prints")
    ab.new_pipeline("words", wallaroo.TCPSourceConfig("127.0.0.1", "7010", decode)).to(show)
    assert testing.run(ab.build(), ["why"]) == []
    assert testing.run_all(ab.build(), ["why"]) == {}
    assert capsys.readouterr().out == "why\nwhy\n"


greeting = "not set yet"


def greeting_of_the_day(args):
    global greeting  # noqa: PLW0603 - as programs do
    greeting = "good morning"
    suffix = "!" * len(args)

    @wallaroo.computation("greet")
    def greet(word):
        return f"{greeting}, {word}"

    class Shout:
        def name(self):
            return "shout"

        def compute(self, text):
            return text.upper() + suffix

    @wallaroo.state_computation("number")
    def number(text, state):
        state.totals[text] = len(state.totals) + 1
        return f"{state.totals[text]} {text}{suffix}", True

    ab = wallaroo.ApplicationBuilder("Greetings")
    ab.new_pipeline("words", wallaroo.TCPSourceConfig("127.0.0.1", "7010", decode))
    ab.to(greet).to(Shout()).to_stateful(number, Totals, "totals")
    ab.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", "7002", wallaroo.encoder(str.encode)))
    return ab.build()


def test_what_application_setup_sets_and_defines_is_there(monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "greeting", "not set yet")
    outputs = testing.run(greeting_of_the_day, ["ann", "bob"], args=["one"])
    assert outputs == ["1 GOOD MORNING, ANN!!", "2 GOOD MORNING, BOB!!"]


def test_a_state_of_a_class_that_no_other_process_could_find():
    class Local(Totals):
        pass

    ab = wallaroo.ApplicationBuilder("Local")
    ab.new_pipeline("words", wallaroo.TCPSourceConfig("127.0.0.1", "7010", decode))
    ab.to_stateful(count, Local, "totals")
    with pytest.raises(testing.StepError, match=r"step 'count' failed .* cannot be saved: .*Local"):
        testing.run(ab.build(), ["why"])


@pytest.mark.parametrize("args", [None, ["--in", "127.0.0.1:7010"]])
@pytest.mark.parametrize("result", [None, wallaroo.ApplicationBuilder("app"), wallaroo.source("words", None)])
def test_the_error_for_what_is_no_application_says_what_to_return(result, args):
    with pytest.raises(wallaroo.WallarooError) as refused:
        testing.run(lambda _: result, ["why"], args=args)
    assert str(refused.value).startswith(
        f"application_setup returned {type(result).__name__} instead of an application: end it with `return ab.build()`"
    )


def test_an_error_of_a_step_has_the_hint_for_python_2():
    ab = wallaroo.ApplicationBuilder("Old")
    ab.new_pipeline("words", wallaroo.TCPSourceConfig("127.0.0.1", "7010", decode))
    ab.to(wallaroo.computation("look up")(lambda word: {word: 1}.has_key(word)))
    with pytest.raises(testing.StepError) as failed:
        testing.run(ab.build(), ["why"])
    assert str(failed.value).endswith("This looks like Python 2: `d.has_key(key)` is written `key in d` in Python 3.")


def test_python_reports_comparisons_of_bytes_with_text_on_request(tmp_path):
    (tmp_path / "test_old.py").write_text(
        "import wallaroo\n"
        "from wallaroo import testing\n"
        "@wallaroo.computation('is it a')\n"
        "def is_a(letter):\n"
        "    return letter == 'a'\n"
        "def test_it():\n"
        "    source = wallaroo.TCPSourceConfig('127.0.0.1', 0, wallaroo.decoder(lambda bs: bs[:1]))\n"
        "    testing.run(wallaroo.build_application('Old', wallaroo.source('texts', source).to(is_a)), [b'a'])\n"
    )
    done = run_python("-bb", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_old.py", cwd=tmp_path, code=1)
    assert (
        "step 'is it a' failed for the message b'a': BytesWarning: Comparison between bytes and string" in done.stdout
    )
    assert "This looks like Python 2: bytes do not equal text in Python 3" in done.stdout


def test_spark_is_not_needed():
    run_python("-c", "import sys, wallaroo.testing; sys.exit('pyspark' in sys.modules)")


@wallaroo.decoder
def decode_with_key(bs, message):
    return message.key, message.partition, bs.decode()


def test_decoders_for_kafka_get_what_the_test_sends():
    source = wallaroo.KafkaSourceConfig("words", [("127.0.0.1", "9092")], "Warn", decode_with_key)
    sink = wallaroo.TCPSinkConfig("127.0.0.1", 7002, wallaroo.encoder(str))
    application = wallaroo.build_application("Keys", wallaroo.source("words", source).to_sink(sink))
    sent = [b"why", (b"hello", wallaroo.KafkaMessage(key=b"k", partition=3)), ("decoded", 1)]
    assert testing.run(application, sent) == [(None, 0, "why"), (b"k", 3, "hello"), ("decoded", 1)]
