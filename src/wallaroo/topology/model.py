"""An application as plain data.

What users declare with `wallaroo.api` is represented here: every pipeline is a source, its steps and its sinks. The
steps usually form a line; where a pipeline was continued several times from one place, they branch.
User code is kept as given (a decorated function, an instance or a class) in fields called `target`, and turned into a
plain callable by `bind` and `make` in the process that runs it: classes are instantiated there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from wallaroo.interfaces import SinkConfig, SourceConfig
from wallaroo.introspection import instance_of, key_method

REPLAYS = "(replayed dead letters)"
"""A source that every application has in addition to those of its pipelines, which may not use this name."""


@dataclass(frozen=True, eq=False)
class Computation:
    """A step without state: one message in, none, one or (if `multi`) several out."""

    name: str
    target: Any
    multi: bool

    def bind(self) -> Callable[[Any], Any]:
        """Return the user's function of a message."""
        instance = instance_of(self.target)
        function: Callable[[Any], Any] = instance.compute_multi if self.multi else instance.compute
        return function


@dataclass(frozen=True, eq=False)
class State:
    """A named state: one object, or one object for each partition key.

    `target` makes a fresh state object: a class, or an object (or a class of objects) with a `build` method.
    `keys` are the partition keys the application listed; None means that any key is valid.
    """

    name: str
    target: Any
    partitioned: bool
    keys: frozenset[Any] | None
    u64: bool = False
    """Whether keys must be whole numbers from 0 to 2**64 - 1."""

    def make(self) -> Callable[[], Any]:
        """Return the function that creates a new state object."""
        if hasattr(self.target, "build"):
            build: Callable[[], Any] = instance_of(self.target).build
            return build
        factory: Callable[[], Any] = self.target
        return factory


@dataclass(frozen=True, eq=False)
class KeyBy:
    """A step that gives each message its key for the following state computations; None: the same key for all."""

    name: str
    target: Any | None

    def bind(self) -> Callable[[Any], Any]:
        """Return the user's function from a message to its key."""
        if self.target is None:
            return lambda _: None
        return _key_function(self.target, "extract_key", "partition")


@dataclass(frozen=True, eq=False)
class StateComputation:
    """A step that reads and changes a state.

    `partition` picks the key of a message; if it is None, a partitioned state uses the key that the message got from
    the last `KeyBy`, and any other state has only one object. The result is `(output, save_state)`, or, with
    `output_only`, the output alone, and the state is always saved.
    """

    name: str
    target: Any
    multi: bool
    state: State
    partition: Any | None
    output_only: bool = False

    def bind(self) -> Callable[[Any, Any], Any]:
        """Return the user's function of a message and a state."""
        instance = instance_of(self.target)
        function: Callable[[Any, Any], Any] = instance.compute_multi if self.multi else instance.compute
        if self.output_only:
            return lambda data, state: (function(data, state), True)
        return function

    def bind_partition(self) -> Callable[[Any], Any] | None:
        """Return the user's function from a message to its key, or None if the step has none."""
        if self.partition is None:
            return None
        return _key_function(self.partition, "partition", "extract_key")


def _key_function(target: Any, *methods: str) -> Callable[[Any], Any]:
    """Return the first of the `methods` that exists: the names of both API generations are accepted."""
    function: Callable[[Any], Any] = getattr(instance_of(target), key_method(target, *methods) or methods[0])
    return function


Step = Computation | KeyBy | StateComputation


@dataclass(frozen=True, eq=False)
class SinkGroup:
    """Sinks that get the same outputs: each gets every output, or, with `choose`, those for which it is named."""

    sinks: tuple[int, ...]
    """Their numbers among the sinks of the pipeline."""
    choose: Callable[[Any], Any] | None = None
    """The user's function from an output to the names of sinks."""


Target = int | SinkGroup
"""Where messages go next: to the step with this index, or to a group of sinks."""

DECODER = -1
"""Stands for the decoder in place of the index of a step."""


@dataclass(frozen=True, eq=False)
class Pipeline:
    """A source, the steps for its messages, and the sinks of its outputs (there may be none).

    `ways` lists where messages go from the decoder, and then from each step: to all of these targets, in this order. A
    step has a higher index than its predecessors. If `ways` is omitted, the steps form a line, and each sink gets every
    output.
    """

    name: str
    source: SourceConfig
    steps: tuple[Step, ...]
    sinks: tuple[SinkConfig, ...]
    ways: tuple[tuple[Target, ...], ...] = ()

    def __post_init__(self) -> None:
        if not self.ways:
            ends = [SinkGroup(tuple(range(len(self.sinks))))] if self.sinks else []
            object.__setattr__(self, "ways", line_of(len(self.steps), *ends))

    def after(self, index: int) -> tuple[Target, ...]:
        """Return where messages go from a step, or from the `DECODER`."""
        return self.ways[index + 1]

    def before(self, target: Target) -> list[int]:
        """Return the steps that messages may have passed before a step or a group of sinks."""
        found: set[Target] = {target}
        for index in reversed(range(len(self.steps))):
            if not found.isdisjoint(self.after(index)):
                found.add(index)
        return sorted(index for index in found - {target} if isinstance(index, int))

    def is_joint(self, target: Target) -> bool:
        """Return whether more than one way leads to a step or a group of sinks."""
        return target in self._joints

    @cached_property
    def _joints(self) -> frozenset[Target]:
        count = Counter(target for targets in self.ways for target in targets)
        return frozenset(target for target, ways in count.items() if ways > 1)

    def is_keyed(self, target: Target) -> bool:
        """Return whether messages may have a key when they reach a step or a group of sinks."""
        return any(isinstance(self.steps[index], KeyBy | StateComputation) for index in self.before(target))

    @property
    def is_branched(self) -> bool:
        """Return whether the pipeline has a branch."""
        return any(len(targets) > 1 for targets in self.ways)

    @cached_property
    def sink_groups(self) -> list[SinkGroup]:
        """Return the groups of sinks, in the order of their sinks."""
        groups = dict.fromkeys(each for targets in self.ways for each in targets if isinstance(each, SinkGroup))
        return sorted(groups, key=lambda group: group.sinks)

    @property
    def choosers(self) -> list[SinkGroup]:
        """Return the groups of sinks that have a `choose`."""
        return [group for group in self.sink_groups if group.choose is not None]

    def group_of(self, sink: int) -> SinkGroup:
        """Return the group of a sink, by its number."""
        return next(group for group in self.sink_groups if sink in group.sinks)


def line_of(steps: int, *ends: Target) -> tuple[tuple[Target, ...], ...]:
    """Return the ways of a pipeline with this number of steps in a line, leading to these ends."""
    return (*((index,) for index in range(steps)), ends)


def sink_name(sink: Any) -> str | None:
    """Return the name of a sink, or None if it has none or its kind does not support names."""
    name = getattr(sink, "name", None)
    return name if isinstance(name, str) else None


class Application(list[tuple[Any, ...]]):
    """A built application: its name, its pipelines, and, as a list, the tuples in the order they were declared.

    It is made by `wallaroo.ApplicationBuilder.build` or `wallaroo.build_application`.

    >>> import wallaroo
    >>> source = wallaroo.TCPSourceConfig("127.0.0.1", "7010", wallaroo.decoder(bytes.decode))
    >>> application = wallaroo.build_application("Ignore", wallaroo.source("lines", source))
    >>> application.name, [pipeline.name for pipeline in application.pipelines]
    ('Ignore', ['lines'])
    """

    def __init__(
        self, name: str, pipelines: tuple[Pipeline, ...], declarations: list[tuple[Any, ...]] | None = None
    ) -> None:
        super().__init__(declarations or [])
        self.name = name
        self.pipelines = pipelines

    def __repr__(self) -> str:
        return f"<Application {self.name!r}: {', '.join(repr(p.name) for p in self.pipelines)}>"
