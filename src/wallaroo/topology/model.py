"""An application as plain data.

The words users write (`wallaroo.api`) end up here: every pipeline is a source, a line of steps and its sinks.
User code is kept as it was given (a decorated function, an instance or a class) in fields called `target`, and
turned into a plain callable by `bind` and `make` where it is run: a class is instantiated there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wallaroo.introspection import instance_of
from wallaroo.protocols import SinkConfig, SourceConfig

REPLAYS = "(replayed dead letters)"
"""The source that every application has besides those of its pipelines, which may not have its name."""


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
    `keys` are the partition keys the application listed; None means that any key may come.
    """

    name: str
    target: Any
    partitioned: bool
    keys: frozenset[Any] | None
    u64: bool = False
    """Whether keys have to be whole numbers from 0 to 2**64 - 1."""

    def make(self) -> Callable[[], Any]:
        """Return the function that makes a fresh state object."""
        if hasattr(self.target, "build"):
            build: Callable[[], Any] = instance_of(self.target).build
            return build
        factory: Callable[[], Any] = self.target
        return factory


@dataclass(frozen=True, eq=False)
class KeyBy:
    """A step that gives each message its key, for the state computations after it; None: all the same key."""

    name: str
    target: Any | None

    def bind(self) -> Callable[[Any], Any]:
        """Return the user's function from a message to its key."""
        if self.target is None:
            return lambda _: None
        function: Callable[[Any], Any] = instance_of(self.target).partition
        return function


@dataclass(frozen=True, eq=False)
class StateComputation:
    """A step that reads and changes a state.

    `partition` picks the key of a message; where it is None, a partitioned state takes the key that the message
    got from the last `KeyBy`, and any other state has only one object. The result is `(output, save_state)`, or,
    with `output_only`, the output alone, and the state is always saved.
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
        """Return the user's function from a message to its key, or None where the step has none."""
        if self.partition is None:
            return None
        function: Callable[[Any], Any] = instance_of(self.partition).partition
        return function


Step = Computation | KeyBy | StateComputation


@dataclass(frozen=True, eq=False)
class Pipeline:
    """A source, the steps its messages take, and the sinks that each get all of the output (there may be none)."""

    name: str
    source: SourceConfig
    steps: tuple[Step, ...]
    sinks: tuple[SinkConfig, ...]


class Application(list[tuple[Any, ...]]):
    """A built application: its name, its pipelines, and, as a list, the tuples in the order they were declared."""

    def __init__(
        self, name: str, pipelines: tuple[Pipeline, ...], declarations: list[tuple[Any, ...]] | None = None
    ) -> None:
        super().__init__(declarations or [])
        self.name = name
        self.pipelines = pipelines

    def __repr__(self) -> str:
        return f"<Application {self.name!r}: {', '.join(repr(p.name) for p in self.pipelines)}>"
