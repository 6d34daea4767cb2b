"""The plan of a run: the topology with a numbered route to every destination of a chunk, the same in all processes."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypedDict

from wallaroo.connectors.registry import source_kind_called
from wallaroo.engine.transport.serializer import Serializer
from wallaroo.interfaces import SinkConfig, SourceConfig
from wallaroo.program import Program
from wallaroo.topology.model import Application, Pipeline, StateComputation
from wallaroo.topology.state_order import state_levels


@dataclass(frozen=True)
class StateLayout:
    """Where the keys of one state are: its level in the query, and its number of buckets."""

    level: int
    buckets: int


@dataclass(frozen=True)
class Layout:
    """How an application is partitioned. Recorded with the state, which keeps its number of buckets.

    `levels` names the states in the order in which messages can reach them; `singles` are those with one object only.
    `unused` are states that the application no longer has, and that are retained.
    """

    levels: tuple[tuple[str, ...], ...]
    singles: frozenset[str]
    buckets: int
    unused: frozenset[str] = frozenset()

    def as_json(self) -> dict[str, Any]:
        """Return data that can be written as JSON."""
        return {
            "levels": self.levels,
            "singles": sorted(self.singles),
            "buckets": self.buckets,
            "unused": sorted(self.unused),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Layout:
        """Return the layout that `as_json` was called on; other entries in `data` are ignored.

        >>> layout = Layout((("totals",),), frozenset(), buckets=8)
        >>> Layout.from_json(layout.as_json()) == layout
        True
        """
        return cls(
            levels=tuple(tuple(level) for level in data["levels"]),
            singles=frozenset(data["singles"]),
            buckets=data["buckets"],
            unused=frozenset(data.get("unused", ())),
        )

    @cached_property
    def states(self) -> dict[str, StateLayout]:
        """Return the layout of each state by its name."""
        return {
            name: StateLayout(level, 1 if name in self.singles else self.buckets)
            for level, names in enumerate(self.levels)
            for name in names
        }


def new_layout(pipelines: Sequence[Pipeline], buckets: int) -> Layout:
    """Return the layout of pipelines that have no state yet."""
    levels = state_levels(pipelines)
    return Layout(
        levels=tuple(tuple(state.name for state in level) for level in levels),
        singles=frozenset(state.name for level in levels for state in level if not state.partitioned),
        buckets=buckets,
    )


@dataclass(frozen=True, eq=False)
class StepRoute:
    """The route to a state step: its chunks go to the buckets of their keys."""

    number: int
    pipeline: Pipeline
    index: int
    step: StateComputation
    layout: StateLayout


@dataclass(frozen=True, eq=False)
class SinkRoute:
    """The route to one sink of one pipeline."""

    number: int
    pipeline: Pipeline
    sink: SinkConfig


class Input(TypedDict):
    """What the kind of a source needs in a worker; can be written as JSON."""

    kind: str
    place: Mapping[str, Any]
    log: str
    """The log's folder; empty on a cluster, where workers need not have access to it."""


@dataclass(eq=False)
class Plan:
    """Everything that driver and workers have to agree on in one run of an application."""

    application: Application
    layout: Layout
    serialize: Callable[[Any], bytes] | None = None
    deserialize: Callable[[bytes], Any] | None = None
    run_id: str = ""
    inputs: dict[str, Input] = field(default_factory=dict)
    """The sources that the application has, by name: those of its pipelines, and its own."""
    sources: list[str] = field(default_factory=list)
    """The names of the sources by their numbers in the sequence, which includes sources that no longer exist."""
    strict_keys: bool = False
    """Whether messages with a key that is not listed become dead letters, instead of making a state."""
    program: Program | None = None
    """What builds the application in every process; None if the plan is used in one process only."""
    routes: list[StepRoute | SinkRoute] = field(init=False)

    def __post_init__(self) -> None:
        self.routes = []
        for pipeline in self.application.pipelines:
            for index, step in enumerate(pipeline.steps):
                if isinstance(step, StateComputation):
                    layout = self.layout.states[step.state.name]
                    self.routes.append(StepRoute(len(self.routes), pipeline, index, step, layout))
            for sink in pipeline.sinks:
                self.routes.append(SinkRoute(len(self.routes), pipeline, sink))

    @property
    def serializer(self) -> Serializer:
        """Return the serializer of the application's messages and states."""
        return Serializer(self.serialize, self.deserialize)

    def source_config(self, source: str) -> SourceConfig | None:
        """Return the config of a pipeline's source, None for a source that belongs to no pipeline."""
        return next((pipeline.source for pipeline in self.application.pipelines if pipeline.name == source), None)

    def brings_letters(self, source: str) -> bool:
        """Return whether the messages of a source are replayed dead letters."""
        return source in self.inputs and source_kind_called(self.inputs[source]["kind"]).brings_letters

    def has_lanes(self, source: str) -> bool:
        """Return whether the messages of a source are in lanes, each with positions of its own."""
        return source in self.inputs and source_kind_called(self.inputs[source]["kind"]).has_lanes

    @property
    def has_memory_of_senders(self) -> bool:
        """Return whether the log of a source notes what it has of each sender."""
        return any(source_kind_called(each["kind"]).remembers_senders for each in self.inputs.values())

    def to_step(self, pipeline: Pipeline, index: int) -> StepRoute:
        """Return the route to a state step of `pipeline`."""
        return next(
            route
            for route in self.routes
            if isinstance(route, StepRoute) and route.pipeline is pipeline and route.index == index
        )

    def is_first(self, route: StepRoute) -> bool:
        """Return whether messages reach a state step directly from the first stage, through no other state."""
        pipeline = route.pipeline
        return not any(isinstance(pipeline.steps[each], StateComputation) for each in pipeline.before(route.index))

    def sinks_of(self, pipeline: Pipeline) -> list[SinkRoute]:
        """Return the routes to the sinks of `pipeline`."""
        return [r for r in self.routes if isinstance(r, SinkRoute) and r.pipeline is pipeline]

    def placement(self, state: str, partitions: int) -> Callable[[int], int]:
        """Return a function from a bucket of a state to the partition of its stage; adjacent buckets stay together."""
        buckets = self.layout.states[state].buckets
        alone = zlib.crc32(state.encode()) % partitions
        return lambda bucket: bucket * partitions // buckets if buckets > 1 else alone

    def level_of(self, route: int) -> int | None:
        """Return the level at which a chunk on `route` is processed, None if it is only forwarded to the driver."""
        if route < 0:
            return None
        found = self.routes[route]
        return found.layout.level if isinstance(found, StepRoute) else None
