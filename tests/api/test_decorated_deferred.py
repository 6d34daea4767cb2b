"""Functions that do not return their result directly: `async def`, and `yield`."""

import functools

import pytest

import wallaroo


async def coroutine(data, state=None):
    return data


def generator(data, state=None):
    yield data


async def async_generator(data, state=None):
    yield data


class Called:
    """An object that is called like a function."""

    async def __call__(self, data, state=None):
        return data


ASYNC = "write `def`, and asyncio.run(...) around what has to be awaited."
KINDS = [
    (coroutine, "is an async function: " + ASYNC),
    (functools.partial(coroutine), "is an async function: " + ASYNC),
    (staticmethod(coroutine), "is an async function: " + ASYNC),
    (Called(), "is an async function: " + ASYNC),
    (generator, "is a generator function, with `yield` in it: "),
    (async_generator, "is an async generator function: write `def` without `async`, and "),
]


def mistake_in(*steps, decoder=None, encoder=None):
    source = wallaroo.TCPSourceConfig("127.0.0.1", "0", decoder or wallaroo.decoder(bytes.decode))
    sink = wallaroo.TCPSinkConfig("127.0.0.1", "7002", encoder or wallaroo.encoder(str))
    builder = wallaroo.ApplicationBuilder("app").new_pipeline("p", source)
    for method, *arguments in steps:
        getattr(builder, method)(*arguments)
    with pytest.raises(wallaroo.WallarooParameterError) as refused:
        builder.to_sink(sink).build()
    heading, mistake = str(refused.value).split("\n  - ")
    assert heading == "The application 'app' has a mistake:"
    return mistake


def stateless(function, decorator):
    return mistake_in(("to", decorator("step")(function)))


def stateful(function, decorator):
    return mistake_in(("to_stateful", decorator("step")(function), list, "state"))


def own_state(function, decorator):
    return mistake_in(("to", decorator("step", list)(function)))


LIST = "gather the outputs in a list and end with `return outputs"


@pytest.mark.parametrize(("function", "kind"), KINDS)
@pytest.mark.parametrize(
    ("place", "decorator", "end"),
    [
        (stateless, wallaroo.computation, f'write @wallaroo.computation_multi("step name") above it, {LIST}`.'),
        (stateless, wallaroo.computation_multi, f"{LIST}`."),
        (
            stateful,
            wallaroo.state_computation,
            f'write @wallaroo.state_computation_multi("step name") above it, {LIST}, True`.',
        ),
        (stateful, wallaroo.state_computation_multi, f"{LIST}, True`."),
        (own_state, wallaroo.state_computation, f"above it, {LIST}`."),
        (own_state, wallaroo.state_computation_multi, f"{LIST}`."),
    ],
)
def test_computations(place, decorator, end, function, kind):
    mistake = place(function, decorator)
    assert kind in mistake
    assert mistake.endswith(ASYNC if kind.endswith(ASYNC) else end)


@pytest.mark.parametrize(("function", "kind"), KINDS)
def test_methods_of_a_class(function, kind):
    class Step:
        def name(self):
            return "step"

    class Multi(Step):
        pass

    Step.compute = staticmethod(function)
    Multi.compute = None
    Multi.compute_multi = staticmethod(function)
    one = mistake_in(("to", Step))
    assert f"pipeline 'p', step 1 (to Step): compute of Step {kind}" in one
    assert "async function" in one or f"write a method compute_multi, {LIST}`." in one
    many = mistake_in(("to", Multi()))
    assert f"compute_multi of Multi(...) {kind}" in many


@pytest.mark.parametrize(("function", "kind"), KINDS)
def test_decoders_encoders_and_partitions(function, kind):
    assert f"pipeline 'p': the decoder {name(function)} {kind}" in mistake_in(decoder=wallaroo.decoder(function))
    assert f"pipeline 'p', to_sink: the encoder {name(function)} {kind}" in mistake_in(
        encoder=wallaroo.encoder(function)
    )
    count = wallaroo.state_computation("count")(lambda data, state: (data, True))
    partition = wallaroo.partition(function)
    assert f"the partition function {name(function)} {kind}" in mistake_in(
        ("to_state_partition", count, list, "state", partition)
    )


def name(function):
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__name__", type(function).__name__)


def test_key_extractors():
    source = wallaroo.source("p", wallaroo.TCPSourceConfig("127.0.0.1", "0", wallaroo.decoder(bytes.decode)))
    with pytest.raises(wallaroo.WallarooParameterError, match="the key extractor generator is a generator function"):
        wallaroo.build_application("app", source.key_by(wallaroo.key_extractor(generator)))


class AsyncBuilder:
    async def build(self):
        return []


class Answering(list):
    """A state may have any methods."""

    async def __call__(self):
        return self


def test_states():
    count = wallaroo.state_computation("count")(lambda data, state: (data, True))
    assert "build of the state builder AsyncBuilder(...) is an async function" in mistake_in(
        ("to_stateful", count, AsyncBuilder(), "state")
    )
    builder = wallaroo.ApplicationBuilder("app").new_pipeline(
        "p", wallaroo.TCPSourceConfig("127.0.0.1", "0", wallaroo.decoder(bytes.decode))
    )
    assert builder.to_stateful(count, Answering, "state").build().name == "app"
