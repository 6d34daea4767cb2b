"""The in-memory runner: the engine's own worker, fed by hand."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from wallaroo.connectors.base import Piece
from wallaroo.engine.plan import Layout, Plan
from wallaroo.engine.stages.current_message import Origin
from wallaroo.engine.stages.outbox import AT_HAND, Outbox
from wallaroo.engine.stages.state_store import MemoryStores
from wallaroo.engine.stages.worker import Worker
from wallaroo.engine.transport.chunks import DEAD_LETTERS
from wallaroo.engine.transport.dead_letter_record import Letter, Place, load_records
from wallaroo.engine.transport.plan_file import own_serializers
from wallaroo.errors import WallarooError
from wallaroo.ingress.sequence import Range, SequencedBlock
from wallaroo.protocols import LINES, Decoder, Encoder
from wallaroo.topology.levels import state_levels
from wallaroo.topology.model import Application, Pipeline

_ONLY_BUCKET = 0
_ANY_ADDRESSES = ("--in", "127.0.0.1:7010,127.0.0.1:7011,127.0.0.1:7012", "--out", "127.0.0.1:7002,127.0.0.1:7003")


class StepError(WallarooError):
    """User code failed on a message; the error that it raised is the `__cause__`."""

    def __init__(self, pipeline: str, step: str, message: Any, error: BaseException) -> None:
        super().__init__(
            f"Pipeline {pipeline!r}, step {step!r} failed for the message {message!r}: {type(error).__name__}: {error}"
        )
        self.pipeline = pipeline
        self.step = step
        self.message = message


def run(
    application: Application | Callable[[list[str]], Application],
    inputs: Iterable[Any] | Mapping[str, Iterable[Any]],
    *,
    encoded: bool = False,
    args: Iterable[str] = _ANY_ADDRESSES,
) -> Any:
    """Run an application on `inputs` and return what its sinks got.

    Args:
        application: A built application, or its `application_setup`.
        inputs: The messages for its only source, or, by name of the pipeline, for several. Bytes go through the
            decoder; anything else is taken for an already decoded message.
        encoded: Return what the encoders made of the outputs, instead of the outputs.
        args: The command line for `application_setup`; addresses are never opened.

    Returns: The list of outputs if there is only one sink; otherwise a dictionary of such lists, by name of the
    pipeline, or, for the sinks of a pipeline that has several, `"pipeline[0]"`, `"pipeline[1]"` and so on.

    Raises:
        StepError: User code failed on one of the messages.
    """
    memory = InMemory(application, args=args)
    if isinstance(inputs, Mapping):
        for pipeline, messages in inputs.items():
            memory.send(messages, to=pipeline)
    else:
        memory.send(inputs)
    outputs = {name: memory.outputs(name, encoded=encoded) for name in memory.sinks}
    return next(iter(outputs.values())) if len(outputs) == 1 else outputs


class InMemory:
    """An application in memory, to be sent messages and looked at step by step.

    With `keep_errors`, messages on which user code fails are collected in `errors`, as in a real run, instead of being
    raised. With `strict_keys`, keys that are not in a step's `partition_keys` are errors, as with that option of
    `machida`.
    """

    def __init__(
        self,
        application: Application | Callable[[list[str]], Application],
        *,
        args: Iterable[str] = _ANY_ADDRESSES,
        keep_errors: bool = False,
        strict_keys: bool = False,
    ) -> None:
        built = application if isinstance(application, Application) else application(list(args))
        self._recorders: dict[str, _Recorder] = {}
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
        self._at_hand = _AtHand()
        self._worker = Worker(plan, self._at_hand, _Direct(plan) if keep_errors else _Raising(plan))
        self._levels = len(plan.layout.levels)
        self._states = {state for level in plan.layout.levels for state in level}
        self._stores = MemoryStores()
        self._sent: dict[str, int] = dict.fromkeys(names, 0)
        self._blocks = 0
        self.errors: list[dict[str, Any]] = []
        """The records of messages that failed, with `keep_errors`."""

    def _with_recorders(self, pipeline: Pipeline) -> Pipeline:
        """Return the pipeline with a source that also takes messages, and sinks that note what they get."""
        several = len(pipeline.sinks) > 1
        recorders = []
        for number, sink in enumerate(pipeline.sinks):
            name = f"{pipeline.name}[{number}]" if several else pipeline.name
            self._recorders[name] = _Recorder(sink.encoder)
            recorders.append(_Sink(self._recorders[name]))
        return replace(pipeline, source=_Source(_Feed(pipeline.source.decoder)), sinks=tuple(recorders))

    @property
    def sinks(self) -> list[str]:
        """Return the names of the sinks: those of their pipelines, with a number where there are several."""
        return list(self._recorders)

    def send(self, messages: Iterable[Any], to: str | None = None) -> InMemory:
        """Send messages to a pipeline, which need not be named if there is only one."""
        name = self._only(list(self._sent), to, "pipeline")
        for message in messages:
            try:
                self._run(self._block_of(name, message))
            except _Raised as raised:
                raise raised.error from raised.error.__cause__
        return self

    def _block_of(self, pipeline: str, message: Any) -> SequencedBlock:
        """Return the next block, which has nothing but this message."""
        position = self._sent[pipeline]
        self._sent[pipeline] += 1
        self._at_hand.put(position, message)
        block = SequencedBlock(self._blocks, 0, 0, (Range(list(self._sent).index(pipeline), position, position + 1),))
        self._blocks += 1
        return block

    def _run(self, block: SequencedBlock) -> None:
        """Take a block through all stages; behind each, the states are committed, so that mistakes are soon found."""
        (chunks,) = self._worker.run_first(block, 1)
        unsaved: list[Letter] = []
        for level in range(self._levels):
            stage = self._worker.open_stage(level, 0, 1, self._stores)
            (chunks,) = stage.run([chunks])
            unsaved += stage.end()
            stage.keep()
        for chunk in chunks:
            if chunk.route == DEAD_LETTERS:
                self.errors += load_records(chunk.body)
        self.errors += unsaved

    def outputs(self, sink: str | None = None, *, encoded: bool = False) -> list[Any]:
        """Return what a sink got so far: the outputs, or what the encoder made of them."""
        recorder = self._recorders[self._only(self.sinks, sink, "sink")]
        return list(recorder.encoded if encoded else recorder.outputs)

    def state(self, name: str, key: Any = None) -> Any:
        """Return the state object `name`, or that of a key of a partitioned state; None if there is none yet."""
        return self.states(name).get(key)

    def states(self, name: str) -> dict[Any, Any]:
        """Return all objects of the state `name` by key."""
        if name not in self._states:
            raise WallarooError(f"There is no state {name!r}; there is: {', '.join(map(repr, sorted(self._states)))}.")
        return dict(self._worker.states((name, _ONLY_BUCKET), self._stores))

    def _only(self, names: list[str], given: str | None, kind: str) -> str:
        if given is None and len(names) == 1:
            return names[0]
        if given in names:
            return given
        what = f"There is no {kind} {given!r}." if given is not None else f"Which {kind}?"
        raise WallarooError(f"{what} The application has: {', '.join(map(repr, names)) or 'none'}.")


def _layout(pipelines: tuple[Pipeline, ...]) -> Layout:
    levels = tuple(tuple(state.name for state in level) for level in state_levels(pipelines))
    return Layout(levels, frozenset(), buckets=1)


class _Raised(BaseException):
    """Carries a StepError past everything that handles the exceptions of user code."""

    def __init__(self, error: StepError) -> None:
        super().__init__(error)
        self.error = error


class _Direct(Outbox):
    """An outbox that leaves printing alone."""

    def capturing(self) -> contextlib.AbstractContextManager[object]:
        """Print where the test prints."""
        return contextlib.nullcontext()


class _Raising(_Direct):
    """An outbox that takes no dead letters."""

    def fail(  # noqa: PLR0913 - as `Outbox` has it
        self,
        place: Place,
        message: Any,
        error: BaseException,
        key: Any = AT_HAND,  # noqa: ARG002
        *,
        origin: Origin | None = None,  # noqa: ARG002
        encoding: str | None = None,  # noqa: ARG002
    ) -> None:
        """Raise the error."""
        failure = StepError(place.pipeline, place.step, message, error)
        failure.__cause__ = error
        raise _Raised(failure)


class _AtHand:
    """The message that is being run (`Messages`); it may be decoded already."""

    def __init__(self) -> None:
        self._piece: Piece = (0, [])

    def put(self, position: int, message: Any) -> None:
        self._piece = (position, [message])

    def read(self, source: str, first: int, end: int) -> Iterator[Piece]:  # noqa: ARG002 - there is only this one
        yield self._piece


@dataclass
class _Source:
    decoder: Decoder


@dataclass
class _Sink:
    encoder: Encoder


class _Feed:
    """A decoder that lets messages pass which are decoded already."""

    framing = LINES
    """Nothing is framed in memory, so it does not matter how."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder

    def decode(self, bs: Any) -> Any:
        return self._decoder.decode(bs) if isinstance(bs, bytes) else bs


class _Recorder:
    """An encoder that notes what it was given and what it made of it."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self.outputs: list[Any] = []
        self.encoded: list[Any] = []

    def encode(self, data: Any) -> Any:
        self.outputs.append(data)
        encoded = self._encoder.encode(data)
        if encoded is not None:
            self.encoded.append(encoded.encode() if isinstance(encoded, str) else encoded)
        return encoded
