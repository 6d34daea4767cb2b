"""The in-memory runner: the engine's own worker, without Spark."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal, Self, overload

from wallaroo.engine.plan import Layout, Plan
from wallaroo.engine.stages.state_files import MemoryStores
from wallaroo.engine.stages.worker import Stage, Worker
from wallaroo.engine.transport.dead_letter_record import Letter, load_records
from wallaroo.engine.transport.plan_file import own_serializers
from wallaroo.engine.transport.shuffle_format import DEAD_LETTERS
from wallaroo.errors import WallarooError
from wallaroo.ingress.block_sequence import Range, SequencedBlock
from wallaroo.introspection import a_kind_of
from wallaroo.program import require_application
from wallaroo.setup_arguments import call_setup, call_with_addresses
from wallaroo.testing.doubles import CurrentInput, Direct, Feed, Raised, Raising, Recorder, Sink, Source
from wallaroo.topology.model import Application, Pipeline, sink_name
from wallaroo.topology.state_order import state_levels

_ONLY_BUCKET = 0

Testable = Application | Callable[[list[str]], Application]
"""What can be run: a built application, or its `application_setup`."""
Inputs = Iterable[Any] | Mapping[str, Iterable[Any]]
"""The messages for the only source, or, by name of the pipeline, for several."""


@overload
def run(
    application: Testable, inputs: Inputs, *, encoded: Literal[False] = False, args: Iterable[str] | None = None
) -> list[Any]: ...
@overload
def run(
    application: Testable, inputs: Inputs, *, encoded: Literal[True], args: Iterable[str] | None = None
) -> list[bytes]: ...
@overload
def run(application: Testable, inputs: Inputs, *, encoded: bool, args: Iterable[str] | None = None) -> list[Any]: ...
def run(
    application: Testable, inputs: Inputs, *, encoded: bool = False, args: Iterable[str] | None = None
) -> list[Any]:
    r"""Run an application with one sink on `inputs`, and return what the sink got.

    Args:
        application: A built application, or its `application_setup`.
        inputs: The messages for its only source, or, by name of the pipeline, for several. Bytes go through the
            decoder, and so do pairs of bytes and a `wallaroo.KafkaMessage`, where the decoder takes both; anything
            else is treated as an already decoded message.
        encoded: Return the encoded outputs instead of the outputs.
        args: The command line for `application_setup`. If omitted, `application_setup` gets as many made-up addresses
            as it needs. Addresses are never opened.

    Returns:
        The list of outputs; it is empty for an application without a sink.

    Raises:
        StepError: User code failed on one of the messages.
        WallarooError: The application has several sinks: `run_all` returns what each of them got.

    >>> import wallaroo
    >>> source = wallaroo.TCPSourceConfig("127.0.0.1", "7010", wallaroo.decoder(bytes.decode))
    >>> sink = wallaroo.TCPSinkConfig("127.0.0.1", "7002", wallaroo.encoder(lambda text: text + "\n"))
    >>> application = wallaroo.ApplicationBuilder("Copy").new_pipeline("lines", source).to_sink(sink).build()
    >>> run(application, [b"why", "hello"])
    ['why', 'hello']
    >>> run(application, [b"why"], encoded=True)
    [b'why\n']
    """
    memory = InMemory(application, args=args)
    if len(memory.sinks) > 1:
        raise WallarooError(
            f"The application has {len(memory.sinks)} sinks ({', '.join(memory.sinks)}), and testing.run returns the "
            "outputs of one: call testing.run_all, which returns those of each by its name."
        )
    _send(memory, inputs)
    return memory.outputs(encoded=encoded) if memory.sinks else []


@overload
def run_all(
    application: Testable, inputs: Inputs, *, encoded: Literal[False] = False, args: Iterable[str] | None = None
) -> dict[str, list[Any]]: ...
@overload
def run_all(
    application: Testable, inputs: Inputs, *, encoded: Literal[True], args: Iterable[str] | None = None
) -> dict[str, list[bytes]]: ...
@overload
def run_all(
    application: Testable, inputs: Inputs, *, encoded: bool, args: Iterable[str] | None = None
) -> dict[str, list[Any]]: ...
def run_all(
    application: Testable, inputs: Inputs, *, encoded: bool = False, args: Iterable[str] | None = None
) -> dict[str, list[Any]]:
    """Run an application on `inputs`, and return what each of its sinks got.

    Args:
        application: As for `run`.
        inputs: As for `run`.
        encoded: As for `run`.
        args: As for `run`.

    Returns:
        The lists of outputs by name of the pipeline, or, for the sinks of a pipeline that has several,
        `"pipeline[sink name]"`, or, for those without a name, `"pipeline[0]"`, `"pipeline[1]"` and so on.

    Raises:
        StepError: User code failed on one of the messages.

    >>> import wallaroo
    >>> source = wallaroo.TCPSourceConfig("127.0.0.1", "7010", wallaroo.decoder(bytes.decode))
    >>> one, other = (wallaroo.TCPSinkConfig("127.0.0.1", port, wallaroo.encoder(str)) for port in (7002, 7003))
    >>> builder = wallaroo.ApplicationBuilder("Copies").new_pipeline("lines", source)
    >>> run_all(builder.to_sinks([one, other]).build(), ["why"])
    {'lines[0]': ['why'], 'lines[1]': ['why']}
    """
    memory = InMemory(application, args=args)
    _send(memory, inputs)
    return {name: memory.outputs(name, encoded=encoded) for name in memory.sinks}


def _send(memory: InMemory, inputs: Inputs) -> None:
    if isinstance(inputs, Mapping):
        for pipeline, messages in inputs.items():
            memory.send(messages, to=pipeline)
    else:
        memory.send(inputs)


class InMemory:
    """An application in memory, to which a test sends messages and whose outputs and states it can inspect.

    Args:
        application: A built application, or its `application_setup`.
        args: The command line for `application_setup`, as for `run`.
        strict_keys: Treat keys that are not in a step's `partition_keys` as errors, like that option of `machida`.
        keep_errors: Collect messages on which user code fails in `errors`, as in a real run, instead of raising a
            `StepError`.

    >>> import wallaroo
    >>> @wallaroo.state_computation("number")
    ... def number(line, seen):
    ...     seen.append(line.upper())
    ...     return len(seen), True
    >>> source = wallaroo.TCPSourceConfig("127.0.0.1", "7010", wallaroo.decoder(bytes.decode))
    >>> sink = wallaroo.TCPSinkConfig("127.0.0.1", "7002", wallaroo.encoder(str))
    >>> builder = wallaroo.ApplicationBuilder("Numbers").new_pipeline("lines", source)
    >>> application = builder.to_stateful(number, list, "lines").to_sink(sink).build()
    >>> memory = InMemory(application, keep_errors=True).send(["why", 5, b"hello"])
    >>> memory.outputs(), memory.state("lines")
    ([1, 2], ['WHY', 'HELLO'])
    >>> [error["message"] for error in memory.errors]
    ['5']
    """

    def __init__(
        self,
        application: Testable,
        *,
        args: Iterable[str] | None = None,
        keep_errors: bool = False,
        strict_keys: bool = False,
    ) -> None:
        built = application if isinstance(application, Application) else _built(application, args)
        self._recorders: dict[str, Recorder] = {}
        pipelines = tuple(self._with_recorders(pipeline) for pipeline in built.pipelines)
        module = None if built is application else sys.modules.get(application.__module__)
        serializers = own_serializers(module)
        names = [pipeline.name for pipeline in pipelines]
        plan = Plan(
            Application(built.name, pipelines),
            _layout(pipelines),
            *serializers,
            run_id="memory",
            sources=names,
            strict_keys=strict_keys,
        )
        self._input = CurrentInput()
        self._worker = Worker(plan, self._input, Direct(plan) if keep_errors else Raising(plan))
        self._levels = len(plan.layout.levels)
        self._level_of = {state: layout.level for state, layout in plan.layout.states.items()}
        self._stores = MemoryStores()
        self._stages: dict[int, Stage] = {}
        self._sent: dict[str, int] = dict.fromkeys(names, 0)
        self._blocks = 0
        self.errors: list[dict[str, Any]] = []
        """The records of messages that failed, with `keep_errors`."""

    def _with_recorders(self, pipeline: Pipeline) -> Pipeline:
        """Return the pipeline with a source that also accepts decoded messages, and sinks that record their outputs."""
        several = len(pipeline.sinks) > 1
        recorders = []
        for number, sink in enumerate(pipeline.sinks):
            name = sink_name(sink)
            shown = number if name is None or name.isdecimal() else name
            label = f"{pipeline.name}[{shown}]" if several else pipeline.name
            # Several branches may end in one sink.
            recorders.append(Sink(self._recorders.setdefault(label, Recorder(sink)), name))
        return replace(pipeline, source=Source(Feed(pipeline.source.decoder)), sinks=tuple(recorders))

    @property
    def sinks(self) -> list[str]:
        """The names of the sinks: the pipeline's name, with the sink's name or number if it has several.

        >>> import wallaroo
        >>> source = wallaroo.TCPSourceConfig("127.0.0.1", 7010, wallaroo.decoder(bytes.decode))
        >>> sink = wallaroo.TCPSinkConfig("127.0.0.1", 7002, wallaroo.encoder(str))
        >>> builder = wallaroo.ApplicationBuilder("Copies").new_pipeline("lines", source)
        >>> InMemory(builder.to_sinks([sink, sink]).build()).sinks
        ['lines[0]', 'lines[1]']
        """
        return list(self._recorders)

    def send(self, messages: Iterable[Any], to: str | None = None) -> Self:
        """Send messages to a pipeline.

        Args:
            messages: Bytes, which go through the decoder, or already decoded messages.
            to: The name of the pipeline; optional if there is only one.

        Returns:
            This application in memory.

        Raises:
            StepError: User code failed on one of the messages, and errors are not kept.

        >>> import wallaroo
        >>> source = wallaroo.TCPSourceConfig("127.0.0.1", 7010, wallaroo.decoder(bytes.decode))
        >>> sink = wallaroo.TCPSinkConfig("127.0.0.1", 7002, wallaroo.encoder(str))
        >>> builder = wallaroo.ApplicationBuilder("Copy").new_pipeline("lines", source).to_sink(sink)
        >>> InMemory(builder.build()).send([b"why"]).send(["hello"], to="lines").outputs()
        ['why', 'hello']
        """
        name = self._only(list(self._sent), to, "pipeline")
        for message in messages:
            try:
                self._run(self._block_of(name, message))
            except Raised as raised:
                raise raised.error from raised.error.__cause__
        return self

    def _block_of(self, pipeline: str, message: Any) -> SequencedBlock:
        """Return the next block, which contains only this message."""
        position = self._sent[pipeline]
        self._sent[pipeline] += 1
        self._input.put(position, message)
        block = SequencedBlock(self._blocks, 0, 0, (Range(list(self._sent).index(pipeline), position, position + 1),))
        self._blocks += 1
        return block

    def _run(self, block: SequencedBlock) -> None:
        """Run a block through all stages; states are committed after each, so that their mistakes surface early."""
        (chunks,) = self._worker.run_first(block, 1)
        unsaved: list[Letter] = []
        try:
            for level in range(self._levels):
                stage = self._stage(level)
                (chunks,) = stage.run([chunks])
                unsaved += stage.end()
        except BaseException:
            # Some states may have been changed in part; they are made again from what was committed.
            self._stages.clear()
            raise
        for chunk in chunks:
            if chunk.route == DEAD_LETTERS:
                self.errors += load_records(chunk.body)
        self.errors += unsaved

    def _stage(self, level: int) -> Stage:
        if level not in self._stages:
            self._stages[level] = self._worker.open_stage(level, 0, 1, self._stores)
        return self._stages[level]

    @overload
    def outputs(self, sink: str | None = None, *, encoded: Literal[False] = False) -> list[Any]: ...
    @overload
    def outputs(self, sink: str | None = None, *, encoded: Literal[True]) -> list[bytes]: ...
    @overload
    def outputs(self, sink: str | None = None, *, encoded: bool) -> list[Any]: ...
    def outputs(self, sink: str | None = None, *, encoded: bool = False) -> list[Any]:
        """Return what a sink has received so far.

        Args:
            sink: The name of the sink, one of `sinks`; optional if there is only one.
            encoded: Return the encoded outputs instead of the outputs.

        Returns:
            The list, in the order of the outputs.

        >>> import wallaroo
        >>> source = wallaroo.TCPSourceConfig("127.0.0.1", 7010, wallaroo.decoder(bytes.decode))
        >>> sink = wallaroo.TCPSinkConfig("127.0.0.1", 7002, wallaroo.encoder(str))
        >>> builder = wallaroo.ApplicationBuilder("Copy").new_pipeline("lines", source).to_sink(sink)
        >>> memory = InMemory(builder.build()).send(["why"])
        >>> memory.outputs(), memory.outputs("lines", encoded=True)
        (['why'], [b'why'])
        """
        recorder = self._recorders[self._only(self.sinks, sink, "sink")]
        return list(recorder.encoded if encoded else recorder.outputs)

    def state(self, name: str, key: Any = None) -> Any:
        """Return one state object.

        Args:
            name: The name of the state.
            key: The key, if the state has one object for each.

        Returns:
            The object; None if there is none yet.

        >>> import wallaroo
        >>> source = wallaroo.TCPSourceConfig("127.0.0.1", 7010, wallaroo.decoder(bytes.decode))
        >>> sink = wallaroo.TCPSinkConfig("127.0.0.1", 7002, wallaroo.encoder(str))
        >>> @wallaroo.state_computation("count")
        ... def count(word, seen):
        ...     seen.append(word)
        ...     return len(seen), True
        >>> builder = wallaroo.ApplicationBuilder("Count").new_pipeline("words", source)
        >>> InMemory(builder.to_stateful(count, list, "words so far").build()).send(["why"]).state("words so far")
        ['why']
        """
        return self.states(name).get(key)

    def states(self, name: str) -> dict[Any, Any]:
        """Return all objects of a state.

        Args:
            name: The name of the state.

        Returns:
            The objects by key.

        >>> import wallaroo
        >>> source = wallaroo.TCPSourceConfig("127.0.0.1", 7010, wallaroo.decoder(bytes.decode))
        >>> sink = wallaroo.TCPSinkConfig("127.0.0.1", 7002, wallaroo.encoder(str))
        >>> @wallaroo.state_computation("count")
        ... def count(word, seen):
        ...     seen.append(word)
        ...     return len(seen), True
        >>> @wallaroo.partition
        ... def first_letter(word):
        ...     return word[0]
        >>> builder = wallaroo.ApplicationBuilder("Count").new_pipeline("words", source)
        >>> application = builder.to_state_partition(count, list, "by letter", first_letter).build()
        >>> InMemory(application).send(["why", "hello", "who"]).states("by letter")
        {'w': ['why', 'who'], 'h': ['hello']}
        """
        if name not in self._level_of:
            known = ", ".join(map(repr, sorted(self._level_of)))
            raise WallarooError(f"There is no state {name!r}; there is: {known}.")
        return dict(self._stage(self._level_of[name]).states((name, _ONLY_BUCKET)))

    def _only(self, names: list[str], given: str | None, kind: str) -> str:
        if given is None and len(names) == 1:
            return names[0]
        if given in names:
            return given
        what = f"There is no {kind} {given!r}." if given is not None else f"Which {kind}?"
        raise WallarooError(f"{what} The application has: {', '.join(map(repr, names)) or 'none'}.")


def _built(setup: Callable[[list[str]], Application], args: Iterable[str] | None) -> Application:
    if not callable(setup):
        raise WallarooError(
            f"A test needs a built application, or the application_setup of its module; got {a_kind_of(setup)}: write "
            "word_count.application_setup, for example."
        )
    return require_application(call_with_addresses(setup, []) if args is None else call_setup(setup, list(args)))


def _layout(pipelines: tuple[Pipeline, ...]) -> Layout:
    levels = tuple(tuple(state.name for state in level) for level in state_levels(pipelines))
    return Layout(levels, frozenset(), buckets=1)
