"""Decorated functions as classes, under the names under which the original offered them."""

import pickle
import sys

import cloudpickle
import pytest
from tests.processes import run_python

import wallaroo
from wallaroo import testing

PROGRAM = """
import wallaroo

@wallaroo.decoder(header_length=2, length_fmt=">H")
def decode_line(bs):
    return bs.decode()

@wallaroo.computation("upper case")
def upper(line):
    return line.upper()

@wallaroo.computation_multi("split")
def split(line):
    return line.split()

@wallaroo.state_computation("number")
def number(word, words):
    words.append(word)
    return (len(words), word), True

@wallaroo.state_computation_multi("repeat")
def repeat(numbered, seen):
    seen.append(numbered)
    return list(seen), True

@wallaroo.partition
def length(word):
    return len(word)

@wallaroo.key_extractor
def initial(word):
    return word[0]

@wallaroo.encoder
def encode_pair(pair):
    return repr(pair)

@wallaroo.state_computation("count", list)
def count(word, words):
    words.append(word)
    return len(words), word

def application_setup(args):
    ab = wallaroo.ApplicationBuilder("Classes")
    ab.new_pipeline("lines", wallaroo.TCPSourceConfig("127.0.0.1", "7010", wallaroo.Decoder__decode_line()))
    ab.to(wallaroo.Computation__upper).to_parallel(wallaroo.ComputationMulti__split)
    ab.to_state_partition(wallaroo.StateComputation__number, list, "words", wallaroo.Partition__length)
    ab.to_stateful(wallaroo.StateComputationMulti__repeat, list, "seen")
    ab.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", "7002", wallaroo.Encoder__encode_pair()))
    return ab.build()
"""
NAMES = [
    "Decoder__decode_line", "Computation__upper", "ComputationMulti__split", "StateComputation__number",
    "StateComputationMulti__repeat", "Partition__length", "KeyExtractor__initial", "Encoder__encode_pair",
    "StateComputation__count",
]  # fmt: skip


@pytest.fixture
def program(tmp_path, monkeypatch):
    (tmp_path / "with_classes.py").write_text(PROGRAM)
    monkeypatch.syspath_prepend(tmp_path)
    module = __import__("with_classes")
    yield module
    del sys.modules["with_classes"]


def test_a_builder_takes_the_classes(program):
    application = program.application_setup([])
    assert [step.name for step in application.pipelines[0].steps] == ["upper case", "split", "number", "repeat"]
    assert testing.run(application, [b"a bb", b"c"]) == [
        (1, "A"), (1, "A"), (1, "BB"), (1, "A"), (1, "BB"), (2, "C")
    ]  # fmt: skip


def test_chained_pipelines_take_the_classes(program):
    lines = wallaroo.source("lines", wallaroo.TCPSourceConfig("127.0.0.1", "7010", wallaroo.Decoder__decode_line()))
    counted = lines.key_by(wallaroo.KeyExtractor__initial).to(wallaroo.StateComputation__count)
    ended = counted.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", "7002", wallaroo.Encoder__encode_pair()))
    application = wallaroo.build_application("Classes", ended)
    assert testing.run(application, [b"ab", b"ac", b"b"]) == [(1, "ab"), (2, "ac"), (1, "b")]


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize("name", NAMES)
def test_it_is_a_class_of_the_package_that_stays_the_same(name):
    made = getattr(wallaroo, name)
    assert isinstance(made, type)
    assert (made.__module__, made.__qualname__) == ("wallaroo", name)
    assert getattr(wallaroo, name) is made


def test_instances_are_like_the_decorated_function(program):
    decoder = wallaroo.Decoder__decode_line()
    assert decoder.length_struct.format == ">H"
    assert (decoder.header_length(), decoder.payload_length(b"\0\5"), decoder.decode(b"a")) == (2, 5, "a")
    assert wallaroo.Computation__upper().compute is program.upper.compute
    assert wallaroo.Computation__upper()("a") == "A"


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps])
def test_instances_reach_a_process_that_has_imported_the_program(program, tmp_path, dumps):
    made = program.wallaroo.Computation__upper()
    script = "import pickle, sys, with_classes; print(pickle.load(sys.stdin.buffer).compute('there'))"
    finished = run_python("-c", script, input=dumps(made), cwd=tmp_path, text=False)
    assert finished.stdout == b"THERE\n"


def test_the_last_function_of_a_name_counts():
    wallaroo.partition(_first)
    earlier = wallaroo.Partition___first
    later = wallaroo.partition(_first)
    assert wallaroo.Partition___first is not earlier
    assert wallaroo.Partition___first.partition is later.partition


def _first(data):
    return data[0]


@pytest.mark.parametrize("name", ["Computation__no_such_function", "Computation__", "ApplicationBilder"])
def test_other_names_are_unknown(name):
    with pytest.raises(AttributeError, match=f"^module 'wallaroo' has no attribute '{name}'$"):
        getattr(wallaroo, name)
