"""From the declarations that a builder or a pipeline wrote down to an application, or to the list of its mistakes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wallaroo.errors import WallarooParameterError
from wallaroo.introspection import MISSING, instance_of, label
from wallaroo.topology import validate
from wallaroo.topology.branches import SINK_METHODS, Line, one_line_for_each_source
from wallaroo.topology.levels import order_mistakes
from wallaroo.topology.model import Application, Computation, KeyBy, Pipeline, State, StateComputation, Step
from wallaroo.topology.validate_endpoints import listening_mistakes, sink_list_mistakes, sink_mistakes, source_mistakes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


def assemble(name: Any, declarations: Sequence[tuple[Any, ...]], slips: Iterable[str] = ()) -> Application:
    """Return the application of a builder, or raise one WallarooParameterError that lists all mistakes.

    Args:
        name: The name of the application.
        declarations: The name and the arguments of each call of the builder, in order.
        slips: Mistakes that the declarations do not show.
    """
    assembly = _Assembly()
    for method, *arguments in declarations:
        assembly.take(method, arguments)
    return _application(name, assembly, declarations, slips)


def assemble_lines(name: Any, lines: Iterable[Line], slips: Iterable[str] = ()) -> Application:
    """Return the application of chained pipelines, or raise one WallarooParameterError that lists all mistakes.

    Args:
        name: The name of the application.
        lines: What was declared from each source on; the same source may be there several times.
        slips: Mistakes that the lines do not show; without lines there must be one.
    """
    assembly = _Assembly()
    kept, mistakes = one_line_for_each_source(lines)
    declarations: list[tuple[Any, ...]] = []
    for line in kept:
        for declaration in (line.source, *line.declarations):
            assembly.take(declaration.method, list(declaration.arguments), declaration)
        for declaration in line.more_sinks:
            assembly.take_sinks(declaration.method, list(declaration.arguments), declaration)
        taken = (line.source, *line.declarations, *line.more_sinks)
        declarations += [(declaration.method, *declaration.arguments) for declaration in taken]
    if not kept:
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
        *listening_mistakes(pipelines),
        *order_mistakes(pipelines),
    ]
    if mistakes:
        raise WallarooParameterError(mistakes_text(name, mistakes))
    return Application(name, pipelines, list(declarations))


def mistakes_text(name: Any, mistakes: Sequence[str]) -> str:
    """Return the list of an application's mistakes as users read it."""
    count = "a mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
    lines = "".join(f"\n  - {mistake}." for mistake in mistakes)
    return f"The application {name!r} has {count}:{lines}"


@dataclass
class _Draft:
    """A pipeline that is being declared. Steps with mistakes are counted but not kept."""

    name: str
    source: Any
    steps: list[Step] = field(default_factory=list)
    sinks: list[Any] = field(default_factory=list)
    steps_declared: int = 0
    has_sink: bool = False
    chained: bool = False
    """Whether it was started with `wallaroo.source` and not with a builder."""

    def finished(self) -> Pipeline:
        return Pipeline(self.name, self.source, tuple(self.steps), tuple(self.sinks))


class _Assembly:
    """Takes declarations one by one; goes on after a mistake, so that the next ones are found as well."""

    def __init__(self) -> None:
        self.mistakes: list[str] = []
        self.drafts: list[_Draft] = []
        self._open: _Draft | None = None
        self._states: dict[str, tuple[State, str]] = {}
        self._mark: object = None
        self._noted: set[tuple[int, str]] = set()

    def take(self, method: str, arguments: list[Any], mark: object = None) -> None:
        """Take one declaration. What is wrong with one that several lines share is told once: `mark` identifies it."""
        self._mark = mark
        if method == "done":
            self._open = None
        elif method in ("new_pipeline", "source"):
            self._new_pipeline(method, arguments)
        elif method in SINK_METHODS:
            self._note(self._where(method, arguments), self._place_mistakes(method))
            self.take_sinks(method, arguments, mark)
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
        self._open = _Draft(called, source, chained=method == "source")
        self.drafts.append(self._open)

    def take_sinks(self, method: str, arguments: list[Any], mark: object = None) -> None:
        """Take the sinks of a declaration, also behind those of another one."""
        self._mark = mark
        where = self._where(method, arguments)
        self._note(where, validate.missing_arguments(method, arguments))
        given = arguments[0]
        if method == "to_sinks" and given is not MISSING:
            self._note(where, sink_list_mistakes(given))
            sinks = list(given) if isinstance(given, list | tuple) else []
        else:
            sinks = [] if given is MISSING else [given]
        for sink in sinks:
            self._note(where, sink_mistakes(sink))
        if self._open is not None:
            self._open.sinks.extend(sinks)
            self._open.has_sink = True

    def _step(self, method: str, arguments: list[Any]) -> None:
        if self._open is not None:
            self._open.steps_declared += 1
        where = self._where(method, arguments)
        self._note(where, self._place_mistakes(method))
        mistakes = list(validate.missing_arguments(method, arguments))
        step = self._step_of(method, arguments, mistakes)
        self._note(where, mistakes)
        if self._open is not None and step is not None:
            self._open.steps.append(step)

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
        mistakes.extend(validate.own_state_mistakes(label(target), instance.own_state, method))
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
        # No keys at all would drop every message, so an empty list says the keys are not known yet.
        u64 = method == "to_state_partition_u64"
        state = State(name, target, bool(partitioning), frozenset(keys) if keys else None, u64)
        return self._shared(state, mistakes)

    def _shared(self, state: State, mistakes: list[str]) -> State:
        """Return the state that already has this name: all steps on one state hold the same object."""
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
    """Return the object that `target` is or makes; only an object can tell its name."""
    found = list(validate.making_mistakes(target))
    mistakes.extend(found)
    if found:
        return None
    try:
        return instance_of(target)
    except Exception as error:  # noqa: BLE001 - it is the user's code, and whatever it raises is the user's to read
        mistakes.append(f"{label(target)}() failed with {type(error).__name__}: {error}")
        return None
