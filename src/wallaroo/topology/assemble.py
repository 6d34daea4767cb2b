"""Turns the declarations of a builder or a pipeline into an application, or into the list of its mistakes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wallaroo.class_changes import renaming_mistakes
from wallaroo.errors import WallarooParameterError
from wallaroo.introspection import MISSING, decoration_mistakes, instance_of, label, making_mistakes
from wallaroo.topology import validate
from wallaroo.topology.branches import SINK_METHODS, Declaration, Ends, SourceGraph, graphs_of
from wallaroo.topology.model import (
    Application,
    Computation,
    KeyBy,
    Pipeline,
    SinkGroup,
    State,
    StateComputation,
    Step,
    Target,
    line_of,
)
from wallaroo.topology.state_order import order_mistakes
from wallaroo.topology.validate_endpoints import (
    choose_mistakes,
    listening_mistakes,
    shared_sink_mistakes,
    sink_list_mistakes,
    sink_mistakes,
    sink_name_mistakes,
    source_mistakes,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


def assemble(name: Any, declarations: Sequence[tuple[Any, ...]], slips: Iterable[str] = ()) -> Application:
    """Return the application of a builder, or raise one WallarooParameterError that lists all mistakes.

    Args:
        name: The name of the application.
        declarations: The name and the arguments of each call of the builder, in order.
        slips: Mistakes that are not visible in the declarations.
    """
    assembly = _Assembly()
    for method, *arguments in declarations:
        assembly.take(method, arguments)
    return _application(name, assembly, declarations, slips)


def assemble_ends(name: Any, ends: Ends, slips: Iterable[str] = ()) -> Application:
    """Return the application of chained pipelines, or raise one WallarooParameterError that lists all mistakes.

    Args:
        name: The name of the application.
        ends: The last declarations of the pipelines, which lead back to their sources.
        slips: Mistakes that are not visible in the declarations; if there are no ends, there must be one.
    """
    assembly = _Assembly()
    graphs, mistakes = graphs_of(ends)
    declarations: list[tuple[Any, ...]] = []
    for graph in graphs:
        assembly.take_graph(graph)
        taken = (graph.source, *graph.declarations)
        declarations += [(declaration.method, *declaration.arguments) for declaration in taken]
    if not graphs:
        named = validate.name_mistakes(name, "the name of the application")
        raise WallarooParameterError(mistakes_text(name, [*named, *slips]))
    return _application(name, assembly, declarations, [*slips, *mistakes])


def _application(
    name: Any, assembly: _Assembly, declarations: Sequence[tuple[Any, ...]], slips: Iterable[str]
) -> Application:
    pipelines = tuple(draft.finished() for draft in assembly.drafts)
    mistakes = [
        *validate.name_mistakes(name, "the name of the application"),
        *slips,
        *assembly.mistakes,
        *validate.pipeline_name_mistakes(pipelines),
        *validate.step_name_mistakes(pipelines),
        *sink_name_mistakes(pipelines),
        *shared_sink_mistakes(pipelines),
        *listening_mistakes(pipelines),
        *order_mistakes(pipelines),
        *renaming_mistakes(),
    ]
    if mistakes:
        raise WallarooParameterError(mistakes_text(name, mistakes))
    return Application(name, pipelines, list(declarations))


def mistakes_text(name: Any, mistakes: Sequence[str]) -> str:
    """Return the list of an application's mistakes, as shown to users."""
    count = "a mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
    lines = "".join(f"\n  - {mistake}." for mistake in mistakes)
    return f"The application {name!r} has {count}:{lines}"


@dataclass
class _Draft:
    """A pipeline being declared. Steps with mistakes are counted but not kept."""

    name: str
    source: Any
    steps: list[Step] = field(default_factory=list)
    sinks: list[Any] = field(default_factory=list)
    groups: list[SinkGroup] = field(default_factory=list)
    steps_declared: int = 0
    has_sink: bool = False
    graph: SourceGraph | None = None
    """How the declarations are connected, if the pipeline was started with `wallaroo.source` instead of a builder."""
    targets: dict[Declaration, Target] = field(default_factory=dict)
    """The steps and sinks kept for the declarations of the graph."""

    @property
    def chained(self) -> bool:
        return self.graph is not None

    def finished(self) -> Pipeline:
        ways = line_of(len(self.steps), *self.groups) if self.graph is None else self._ways(self.graph)
        return Pipeline(self.name, self.source, tuple(self.steps), tuple(self.sinks), ways)

    def _ways(self, graph: SourceGraph) -> tuple[tuple[Target, ...], ...]:
        """Return where messages go from the source and from each step, skipping declarations that were not kept."""
        onward: dict[Declaration, tuple[Target, ...]] = {}
        for here in (*reversed(graph.declarations), graph.source):
            ways = [(self.targets[each],) if each in self.targets else onward[each] for each in graph.after[here]]
            onward[here] = tuple(dict.fromkeys(target for way in ways for target in way))
        kept = [each for each in graph.declarations if isinstance(self.targets.get(each), int)]
        return tuple(onward[each] for each in (graph.source, *kept))


class _Assembly:
    """Takes declarations one by one; continues after a mistake, so that later mistakes are found as well."""

    def __init__(self) -> None:
        self.mistakes: list[str] = []
        self.drafts: list[_Draft] = []
        self._open: _Draft | None = None
        self._states: dict[str, tuple[State, str]] = {}
        self._mark: Declaration | None = None
        self._noted: set[tuple[int, str]] = set()

    def take_graph(self, graph: SourceGraph) -> None:
        """Take a source and everything declared after it."""
        self._take_marked(graph.source)
        assert self._open is not None
        self._open.graph = graph
        for declaration in graph.declarations:
            self._open.has_sink = any(each.method in SINK_METHODS for each in graph.before(declaration))
            self._take_marked(declaration)

    def _take_marked(self, declaration: Declaration) -> None:
        # A mistake in a declaration that several sources share is reported once.
        self._mark = declaration
        self.take(declaration.method, list(declaration.arguments))

    def take(self, method: str, arguments: list[Any]) -> None:
        """Take one declaration."""
        if method == "done":
            self._open = None
        elif method in ("new_pipeline", "source"):
            self._new_pipeline(method, arguments)
        elif method in SINK_METHODS:
            self._sinks(method, *arguments)
        else:
            self._step(method, arguments)

    def _new_pipeline(self, method: str, arguments: list[Any]) -> None:
        name, source = arguments
        position = f"pipeline {len(self.drafts) + 1}"
        where = f"pipeline {name!r}" if isinstance(name, str) and name else position
        self._note(where, validate.missing_arguments(method, arguments))
        if name is not MISSING:
            what = "source" if method == "source" else "pipeline"
            self._note(where, validate.name_mistakes(name, f"the name of the {what}"))
        if source is not MISSING:
            self._note(where, source_mistakes(source))
        called = name if isinstance(name, str) and name else position
        self._open = _Draft(called, source)
        self.drafts.append(self._open)

    def _sinks(self, method: str, given: Any, choose: Any = None) -> None:
        where = self._where(method, [given])
        self._note(where, self._place_mistakes(method))
        self._note(where, validate.missing_arguments(method, [given]))
        if method == "to_sinks" and given is not MISSING:
            self._note(where, sink_list_mistakes(given))
            sinks = list(given) if isinstance(given, list | tuple) else []
        else:
            sinks = [] if given is MISSING else [given]
        for sink in sinks:
            self._note(where, sink_mistakes(sink))
        if choose is not None:
            self._note(where, choose_mistakes(choose, sinks))
        if self._open is not None:
            first = len(self._open.sinks)
            group = SinkGroup(tuple(range(first, first + len(sinks))), choose)
            self._open.sinks.extend(sinks)
            self._open.groups.append(group)
            self._open.has_sink = True
            self._keep(group)

    def _step(self, method: str, arguments: list[Any]) -> None:
        if self._open is not None:
            self._open.steps_declared += 1
        where = self._where(method, arguments)
        self._note(where, self._place_mistakes(method))
        mistakes = list(validate.missing_arguments(method, arguments))
        step = self._step_of(method, arguments, mistakes)
        self._note(where, mistakes)
        if self._open is not None and step is not None:
            self._keep(len(self._open.steps))
            self._open.steps.append(step)

    def _keep(self, target: Target) -> None:
        """Record the step or sinks of the current declaration, if it belongs to a graph."""
        if self._open is not None and self._mark is not None:
            self._open.targets[self._mark] = target

    def _step_of(self, method: str, arguments: list[Any], mistakes: list[str]) -> Step | None:
        if method == "collect":
            return KeyBy("collect", None)
        if method == "key_by":
            return _key_by(arguments[0], mistakes)
        target, *about_state = arguments
        instance = None if target is MISSING else _made(target, mistakes)
        if hasattr(instance, "own_state"):
            return self._step_with_own_state(method, target, instance, mistakes)
        stateful = bool(about_state)
        if instance is not None:
            chained = self._open is not None and self._open.chained
            found = validate.computation_mistakes(instance, label(target), stateful=stateful, chained=chained)
            mistakes.extend(found)
        state = self._state_of(method, about_state, mistakes) if stateful else None
        if mistakes or instance is None:
            return None
        name, multi = instance.name(), callable(getattr(instance, "compute_multi", None))
        if state is None:
            return Computation(name, target, multi)
        partition = about_state[2] if state.partitioned else None
        return StateComputation(name, target, multi, state, partition)

    def _step_with_own_state(
        self, method: str, target: Any, instance: Any, mistakes: list[str]
    ) -> StateComputation | None:
        mistakes.extend(decoration_mistakes(instance))
        mistakes.extend(validate.own_state_mistakes(label(target), instance.own_state, method))
        mistakes.extend(validate.returning_mistakes(instance, label(target), pair=False))
        if mistakes:
            return None
        name, multi = instance.name(), callable(getattr(instance, "compute_multi", None))
        state = self._shared(State(name, instance.own_state, partitioned=True, keys=None), mistakes)
        return None if mistakes else StateComputation(name, target, multi, state, None, output_only=True)

    def _state_of(self, method: str, about_state: list[Any], mistakes: list[str]) -> State | None:
        target, name, *partitioning = about_state
        if target is not MISSING:
            mistakes.extend(validate.state_mistakes(target))
        if name is not MISSING:
            mistakes.extend(validate.name_mistakes(name, "the name of the state"))
        keys = None
        if partitioning:
            partition, keys = partitioning
            if partition is not MISSING:
                mistakes.extend(validate.partition_mistakes(partition))
            mistakes.extend(validate.key_mistakes(keys, u64=method == "to_state_partition_u64"))
        if mistakes:
            return None
        # No keys at all would drop every message, so an empty list means that the keys are not known yet.
        u64 = method == "to_state_partition_u64"
        state = State(name, target, bool(partitioning), frozenset(keys) if keys else None, u64)
        return self._shared(state, mistakes)

    def _shared(self, state: State, mistakes: list[str]) -> State:
        """Return the state already declared under this name: all steps on one state hold the same object."""
        if self._open is None:
            return state
        earlier, pipeline = self._states.setdefault(state.name, (state, self._open.name))
        mistakes.extend(validate.shared_state_mistakes(state, earlier, pipeline))
        return earlier

    def _where(self, method: str, arguments: list[Any]) -> str:
        shown = f" {label(arguments[0])}" if arguments and arguments[0] is not MISSING else ""
        if self._open is None:
            return f"{method}{shown}"
        if method in SINK_METHODS:
            return f"pipeline {self._open.name!r}, {method}"
        return f"pipeline {self._open.name!r}, step {self._open.steps_declared} ({method}{shown})"

    def _place_mistakes(self, method: str) -> Iterator[str]:
        is_sink = method in SINK_METHODS
        if self._open is None:
            yield f"there is no open pipeline: write new_pipeline(name, source_config) before {method}"
        elif self._open.has_sink and is_sink:
            yield "the pipeline already has its sink: write to_sinks([one, another]) once for several"
        elif self._open.has_sink and self._open.chained:
            yield (
                "a step cannot come after the sink: put it before, and where it is for several pipelines, merge them "
                "before their sinks"
            )
        elif self._open.has_sink:
            yield "a step cannot come after the sink: put it before, or open another pipeline first"

    def _note(self, where: str, mistakes: Iterable[str]) -> None:
        for mistake in mistakes:
            if self._mark is None or (id(self._mark), mistake) not in self._noted:
                self._noted.add((id(self._mark), mistake))
                self.mistakes.append(f"{where}: {mistake}")


def _key_by(target: Any, mistakes: list[str]) -> KeyBy | None:
    if target is not MISSING:
        mistakes.extend(validate.partition_mistakes(target, "key_extractor"))
    return None if mistakes else KeyBy(f"key_by {label(target)}", target)


def _made(target: Any, mistakes: list[str]) -> Any | None:
    """Return `target`, or an instance of it if it is a class; only an object can return its name."""
    found = list(making_mistakes(target))
    mistakes.extend(found)
    if found:
        return None
    try:
        return instance_of(target)
    except Exception as error:  # noqa: BLE001 - the user's code may raise anything, and it is reported
        mistakes.append(f"{label(target)}() failed with {type(error).__name__}: {error}")
        return None
