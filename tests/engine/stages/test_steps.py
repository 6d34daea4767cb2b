"""What happens to a message on its way through decoders, computations, partitions and encoders."""

from dataclasses import dataclass

import pytest
from tests.engine.outbox_chunks import taken

from wallaroo.engine.stages.outbox import Outbox
from wallaroo.engine.stages.steps import source_line
from wallaroo.engine.transport.shuffle_format import DEAD_LETTERS
from wallaroo.introspection import a_type_of


@dataclass
class Result:
    """What came out of a pipeline without state."""

    sinks: dict
    dead: list


@pytest.fixture
def run(make, dead_letters):
    """Return a function that takes payloads through a pipeline and returns what came out."""

    def run_payloads(payloads, *steps, **options):
        plan = make.plan(make.pipeline("p", *steps, **options))
        outbox = Outbox(plan)
        run = source_line(plan, outbox, plan.application.pipelines[0])
        run(payloads)
        chunks = taken(outbox)
        sinks = {chunk.route: (chunk.number, chunk.body) for chunk in chunks if chunk.route != DEAD_LETTERS}
        return Result(sinks, dead_letters(chunks))

    return run_payloads


def upper(data):
    return data.upper()


def drop_b(data):
    return None if data == "b" else data


def test_messages_go_from_step_to_step_and_out_in_order(make, run):
    result = run([b"a", b"c", b"b"], make.step(upper), make.step(lambda data: data * 2))
    assert result.sinks == {0: (3, b"AA\nCC\nBB\n")}
    assert result.dead == []


def test_none_is_dropped(make, run):
    assert run([b"a", b"b", b"c"], make.step(drop_b), make.step(upper)).sinks == {0: (2, b"A\nC\n")}


def test_a_decoder_drops_messages_with_none(run):
    assert run([b"a", b"", b"c"], decode=lambda bs: bs.decode() or None).sinks == {0: (2, b"a\nc\n")}


def test_falsy_results_are_results(make, run):
    values = {"zero": 0, "empty": "", "no": False, "list": []}
    payloads = [key.encode() for key in values]
    assert run(payloads, make.step(values.get), encoders=[repr]).sinks == {0: (4, b"0''False[]")}


@pytest.mark.parametrize(
    ("results", "sent"),
    [
        (["x", "y"], b"x\ny\n"),
        (("x", "y"), b"x\ny\n"),
        (["x", None, "y", None], b"x\ny\n"),
        ([["x"]], b"['x']\n"),
    ],
)
def test_multi_steps_give_many_messages(make, run, results, sent):
    result = run([b"any"], make.step(lambda data: results, multi=True))
    assert result.sinks[0][1] == sent
    assert result.dead == []


@pytest.mark.parametrize("results", [None, [], (), [None]])
def test_multi_steps_may_give_nothing(make, run, results):
    result = run([b"any"], make.step(lambda data: results, multi=True))
    assert (result.sinks, result.dead) == ({}, [])


@pytest.mark.parametrize("results", ["text", 7, {"a"}, {"a": 1}, (item for item in "ab")])
def test_multi_steps_that_give_something_else_fail(make, run, results):
    def split(data):
        return results if data == "bad" else [data]

    result = run([b"a", b"bad", b"b"], make.step(split, multi=True))
    assert result.sinks == {0: (2, b"a\nb\n")}
    (record,) = result.dead
    assert (record["pipeline"], record["step"], record["message"]) == ("p", "split", "'bad'")
    assert f"expected a list of results or None, got {a_type_of(results)}" in record["error"]


@pytest.mark.parametrize(
    ("encoded", "sent"),
    [
        (b"bytes", b"bytes"),
        ("text é €", "text é €".encode()),
        (bytearray(b"array"), b"array"),
        (memoryview(b"view"), b"view"),
        (b"", b""),
        ("", b""),
    ],
)
def test_encoders_give_bytes_or_text(run, encoded, sent):
    assert run([b"any"], encoders=[lambda data: encoded]).sinks == {0: (1, sent)}


def test_an_encoder_that_gives_none_sends_nothing(run):
    result = run([b"any"], encoders=[lambda data: None])
    assert (result.sinks, result.dead) == ({}, [])


@pytest.mark.parametrize("encoded", [7, ["a"], ("a", "b"), 1.5, {"a": 1}])
def test_other_results_of_encoders_fail(run, encoded):
    result = run([b"a", b"b"], encoders=[lambda data: encoded if data == "a" else data])
    assert result.sinks == {0: (1, b"b")}
    (record,) = result.dead
    assert (record["step"], record["message"]) == ("encoder", "'a'")
    assert f"expected bytes (or text, sent as UTF-8), got {a_type_of(encoded)}" in record["error"]


def test_text_that_is_not_utf8_fails_alone(run):
    result = run([b"a", b"b"], encoders=[lambda data: "\udc80" if data == "a" else data])
    assert result.sinks == {0: (1, b"b")}
    assert "UnicodeEncodeError" in result.dead[0]["error"]


def test_each_sink_gets_everything_with_its_own_encoder(run):
    def picky(data):
        if data == "b":
            raise ValueError("not this one")
        return data * 2

    result = run([b"a", b"b", b"c"], encoders=[str.upper, picky])
    assert result.sinks == {0: (3, b"ABC"), 1: (2, b"aacc")}
    assert [record["message"] for record in result.dead] == ["'b'"]


def test_a_pipeline_without_sinks_still_runs(make, run):
    seen = []
    assert run([b"a"], make.step(seen.append), encoders=[]).sinks == {}
    assert seen == ["a"]


def test_a_step_that_raises_loses_only_its_message(make, run):
    def invert(data):
        return 1 / int(data)

    result = run([b"1", b"0", b"2", b"x"], make.step(invert))
    assert result.sinks == {0: (2, b"1.0\n0.5\n")}
    zero, word = result.dead
    assert (zero["step"], zero["error"]) == ("invert", "ZeroDivisionError: division by zero")
    assert word["error"] == "ValueError: invalid literal for int() with base 10: 'x'"


def test_the_traceback_shows_the_users_code_and_not_ours(make, run):
    def deep(data):
        raise KeyError(data)

    def invert(data):
        return deep(data)

    (record,) = run([b"a"], make.step(invert)).dead
    lines = record["traceback"].splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1] == "KeyError: 'a'"
    assert [line.rpartition(" ")[2] for line in lines if line.startswith("  File")] == ["invert", "deep"]


def test_a_decoder_that_raises_keeps_the_bytes(run):
    result = run([b"a", b"\xff", b"b"])
    assert result.sinks == {0: (2, b"a\nb\n")}
    (record,) = result.dead
    assert (record["step"], record["encoding"], record["payload"]) == ("decoder", "bytes", "/w==")
    assert record["error"].startswith("UnicodeDecodeError: ")


@pytest.mark.parametrize("many", [20, 150])
@pytest.mark.parametrize("multi", [False, True])
def test_a_line_may_have_any_number_of_steps(make, run, many, multi):
    def longer(data):
        return [f"{data}x"] if multi else f"{data}x"

    def refuse(data):
        raise ValueError(data[:1])

    steps = [make.step(longer, multi=multi)] * many
    assert run([b"a", b"b"], *steps).sinks == {0: (2, f"a{'x' * many}\nb{'x' * many}\n".encode())}
    failed = run([b"a", b"b"], *steps, make.step(refuse))
    assert [record["error"] for record in failed.dead] == ["ValueError: a", "ValueError: b"]
