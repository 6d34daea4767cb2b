"""What the tests of the engine share: small applications, made of the real parts."""

from types import SimpleNamespace

import pytest

import wallaroo
from wallaroo.engine.plan import Plan, new_layout
from wallaroo.engine.transport.dead_letter_record import load_records
from wallaroo.engine.transport.shuffle_format import DEAD_LETTERS
from wallaroo.topology.model import Application, Computation, Pipeline, State, StateComputation


def decode_text(bs):
    return bs.decode()


def encode_line(data):
    return f"{data}\n"


def itself(data):
    return data


def pipeline(name, *steps, decode=decode_text, encoders=(encode_line,), port=0):
    """Return a pipeline whose sinks, one for each encoder, have ports counted up from `port`."""
    source = wallaroo.TCPSourceConfig("127.0.0.1", 0, wallaroo.decoder(decode))
    sinks = tuple(
        wallaroo.TCPSinkConfig("127.0.0.1", port + number, wallaroo.encoder(encode))
        for number, encode in enumerate(encoders)
    )
    return Pipeline(name, source, steps, sinks)


def step(function, *, multi=False):
    kind = wallaroo.computation_multi if multi else wallaroo.computation
    return Computation(function.__name__, kind(function.__name__)(function), multi)


def state_step(function, *, state="state", make=dict, key=itself, keys=None, multi=False):
    """Return a step on the state of that name; `key` None makes it a state with a single object."""
    kind = wallaroo.state_computation_multi if multi else wallaroo.state_computation
    partition = None if key is None else wallaroo.partition(key)
    shared = State(state, make, partition is not None, None if keys is None else frozenset(keys))
    return StateComputation(function.__name__, kind(function.__name__)(function), multi, shared, partition)


def plan(*pipelines, buckets=4, **rest):
    return Plan(Application("test", pipelines), new_layout(pipelines, buckets), **rest)


def dead_letters(chunks):
    """Return the records of all dead letters among `chunks`."""
    return [record for chunk in chunks if chunk.route == DEAD_LETTERS for record in load_records(chunk.body)]


@pytest.fixture(scope="session")
def make():
    """Return the functions that make applications."""
    return SimpleNamespace(pipeline=pipeline, step=step, state_step=state_step, plan=plan)


@pytest.fixture(scope="session", name="dead_letters")
def dead_letters_fixture():
    return dead_letters
