"""Decorated functions are pickled, to be sent to other processes."""

import copy
import pickle

import cloudpickle
import pytest
from tests.processes import run_python

import wallaroo


@wallaroo.computation("double")
def double(data):
    return data * 2


@wallaroo.decoder(header_length=2, length_fmt=">H")
def decode(bs):
    return bs.decode()


@wallaroo.partition
def parity(data):
    return data % 2


@wallaroo.key_extractor
def sign(data):
    return data < 0


@wallaroo.state_computation("collect", list)
def collected(data, state):
    state.append(data)
    return len(state)


@wallaroo.state_computation_multi("collect all", list)
def all_collected(data, state):
    state.append(data)
    return state


@wallaroo.encoder
def encode(data):
    return str(data).encode()


class Holder:
    @wallaroo.computation("inside a class")
    @staticmethod
    def inside(data):
        return data


def plain(data):
    return data + 1


renamed = wallaroo.computation("renamed")(plain)


class Numbers:
    def initial_value(self):
        return 0

    def apply(self, v):
        return v + 1


@pytest.mark.parametrize("part", [double, decode, parity, sign, collected, all_collected, encode])
@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps])
def test_module_level_parts_are_pickled_by_reference(part, dumps):
    assert pickle.loads(dumps(part)) is part


def test_parts_inside_classes_are_pickled_by_reference():
    # A static method knows its function's qualified name, which leads through the class.
    assert pickle.loads(pickle.dumps(Holder.inside)) is Holder.inside


def test_a_copy_of_a_module_level_part_is_the_part():
    assert copy.deepcopy(double) is double


def test_a_part_whose_name_leads_to_something_else_is_pickled_by_value():
    found = pickle.loads(pickle.dumps(renamed))
    assert found is not renamed
    assert found(1) == 2
    assert found.name() == "renamed"
    assert found.compute is plain


def test_local_functions_travel_with_cloudpickle():
    factor = 3

    @wallaroo.computation("triple")
    def triple(data):
        """Three times."""
        return data * factor

    found = pickle.loads(cloudpickle.dumps(triple))
    assert found is not triple
    assert (found(2), found.compute(2), found.name(), found.__doc__) == (6, 6, "triple", "Three times.")
    assert found.compute is found.__wrapped__
    assert found.stateful is False


def test_lambdas_travel_with_cloudpickle():
    add = wallaroo.state_computation("add")(lambda data, state: (data + state, True))
    found = pickle.loads(cloudpickle.dumps(add))
    assert found(1, 2) == (3, True)
    assert found.stateful is True
    assert not hasattr(found, "own_state")


def test_local_states_travel_with_their_computation():
    class Seen(list):
        pass

    found = pickle.loads(cloudpickle.dumps(wallaroo.state_computation("see", Seen)(lambda data, state: len(state))))
    assert found(1, found.own_state([1, 2])) == 2
    assert found.stateful is True


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps])
def test_configs_travel_whole(dumps):
    source = pickle.loads(dumps(wallaroo.TCPSourceConfig("n", "h", "1", decode, False, 2, 3, 4)))
    assert vars(source) == {
        "name": "n", "host": "h", "port": "1", "decoder": decode, "valid": False, "parallelism": 2, "max_size": 3,
        "max_received_count": 4,
    }  # fmt: skip
    sink = pickle.loads(dumps(wallaroo.TCPSinkConfig("h", "1", encode)))
    assert vars(sink) == {"host": "h", "port": "1", "encoder": encode, "name": None}
    generated = pickle.loads(dumps(wallaroo.GenSourceConfig("n", Numbers)))
    assert (generated.name, generated.generator) == ("n", Numbers)
    assert generated.decoder.decode(pickle.dumps(5)) == 5


def test_local_decoders_keep_their_framing():
    @wallaroo.decoder(header_length=8, length_fmt="<Q")
    def local(bs):
        return len(bs)

    found = pickle.loads(cloudpickle.dumps(local))
    assert found.header_length() == 8
    assert found.payload_length(b"\x05" + bytes(7)) == 5
    assert found.length_struct.format == "<Q"
    assert found.decode(b"abc") == 3


def test_a_recursive_local_function_travels():
    @wallaroo.computation("count down")
    def count_down(data):
        return data if data == 0 else count_down(data - 1)

    assert pickle.loads(cloudpickle.dumps(count_down))(3) == 0


def test_what_a_script_defines_reaches_a_process_with_another_main(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, cloudpickle, wallaroo\n"
        "offset = 40\n"
        "@wallaroo.computation('shift')\n"
        "def shift(data):\n"
        "    return data + offset\n"
        "sys.stdout.buffer.write(cloudpickle.dumps(shift))\n"
    )
    pickled = run_python(script, text=False).stdout
    assert pickle.loads(pickled)(2) == 42


def test_an_application_travels_whole():
    builder = wallaroo.ApplicationBuilder("travels")
    builder.new_pipeline("p", wallaroo.TCPSourceConfig("127.0.0.1", "7010", decode)).to(double)
    builder.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", "7002", encode))
    found = pickle.loads(pickle.dumps(builder.build()))
    assert found.name == "travels"
    assert [entry[0] for entry in found] == ["new_pipeline", "to", "to_sink"]
    assert found.pipelines[0].steps[0].bind() is double.compute


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps, copy.deepcopy])
def test_a_pipeline_can_be_pickled_and_continued(dumps):
    numbers = wallaroo.source("numbers", wallaroo.GenSourceConfig(Numbers())).to(double)
    others = wallaroo.source("others", wallaroo.TCPSourceConfig("127.0.0.1", "0", decode))
    merged = numbers.merge(others).key_by(sign)
    copied = dumps(merged)
    found = pickle.loads(copied) if isinstance(copied, bytes) else copied
    assert repr(found) == "<Pipeline 'numbers' and 'others'>"
    ended = found.to(collected).to_sink(wallaroo.TCPSinkConfig("127.0.0.1", "7002", encode))
    application = pickle.loads(pickle.dumps(wallaroo.build_application("travels", ended)))
    assert [[step.name for step in line.steps] for line in application.pipelines] == [
        ["double", "key_by sign", "collect"],
        ["key_by sign", "collect"],
    ]
    one, other = (line.steps[-1].state for line in application.pipelines)
    assert one is other
    assert application.pipelines[1].steps[1].bind()(1, []) == (1, True)
