"""From the declarations that a builder wrote down to an application, or to the list of its mistakes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wallaroo.errors import WallarooParameterError
from wallaroo.topology import validate
from wallaroo.topology.endpoints import sink_list_mistakes, sink_mistakes, source_mistakes
from wallaroo.topology.inspection import MISSING, label
from wallaroo.topology.levels import order_mistakes
from wallaroo.topology.model import (
    Application,
    Computation,
    Pipeline,
    State,
    StateComputation,
    Step,
    instance_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


def assemble(name: Any, declarations: Sequence[tuple[Any, ...]], slips: Iterable[str] = ()) -> Application:
    """Return the application, or raise one WallarooParameterError that lists all mistakes.

    Args:
        name: The name of the application.
        declarations: The name and the arguments of each call of the builder, in order.
        slips: Mistakes that the declarations do not show.
    """
    assembly = _Assembly()
    for method, *arguments in declarations:
        assembly.take(method, arguments)
    pipelines = tuple(draft.finished() for draft in assembly.drafts)
    mistakes = [
        *validate.name_mistakes(name, "the name of the application"),
        *slips,
        *assembly.mistakes,
        *validate.pipeline_name_mistakes(pipelines),
        *validate.step_name_mistakes(pipelines),
        *validate.listening_mistakes(pipelines),
        *order_mistakes(pipelines),
    ]
    if mistakes:
        count = "a mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
        lines = "".join(f"\n  - {mistake}." for mistake in mistakes)
        raise WallarooParameterError(f"The application {name!r} has {count}:{lines}")
    return Application(name, pipelines, list(declarations))


@dataclass
class _Draft:
    """A pipeline that is being declared. Steps with mistakes are counted but not kept."""

    name: str
    source: Any
    steps: list[Step] = field(default_factory=list)
    sinks: list[Any] = field(default_factory=list)
    steps_declared: int = 0
    has_sink: bool = False

    def finished(self) -> Pipeline:
        return Pipeline(self.name, self.source, tuple(self.steps), tuple(self.sinks))


class _Assembly:
    """Takes declarations one by one; goes on after a mistake, so that the next ones are found as well."""

    def __init__(self) -> None:
        self.mistakes: list[str] = []
        self.drafts: list[_Draft] = []
        self._open: _Draft | None = None
        self._states: dict[str, tuple[State, str]] = {}

    def take(self, method: str, arguments: list[Any]) -> None:
        if method == "done":
            self._open = None
        elif method == "new_pipeline":
            self._new_pipeline(arguments)
        elif method in ("to_sink", "to_sinks"):
            self._sinks(method, arguments)
        else:
            self._step(method, arguments)

    def _new_pipeline(self, arguments: list[Any]) -> None:
        name, source = arguments
        position = f"pipeline {len(self.drafts) + 1}"
        where = f"pipeline {name!r}" if isinstance(name, str) and name else position
        self._note(where, validate.missing_arguments("new_pipeline", arguments))
        if name is not MISSING:
            self._note(where, validate.name_mistakes(name, "the name of the pipeline"))
        if source is not MISSING:
            self._note(where, source_mistakes(source))
        self._open = _Draft(name if isinstance(name, str) and name else position, source)
        self.drafts.append(self._open)

    def _sinks(self, method: str, arguments: list[Any]) -> None:
        where = self._where(method, arguments[0])
        self._note(where, validate.missing_arguments(method, arguments))
        self._note(where, self._place_mistakes(method))
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
        where = self._where(method, arguments[0])
        self._note(where, self._place_mistakes(method))
        mistakes = list(validate.missing_arguments(method, arguments))
        step = self._step_of(method, arguments, mistakes)
        self._note(where, mistakes)
        if self._open is not None and step is not None:
            self._open.steps.append(step)

    def _step_of(self, method: str, arguments: list[Any], mistakes: list[str]) -> Step | None:
        target, *about_state = arguments
        stateful = bool(about_state)
        instance = None if target is MISSING else _made(target, mistakes)
        if instance is not None:
            mistakes.extend(validate.computation_mistakes(instance, label(target), stateful=stateful))
        state = self._state_of(method, about_state, mistakes) if stateful else None
        if mistakes or instance is None:
            return None
        name, multi = instance.name(), callable(getattr(instance, "compute_multi", None))
        if state is None:
            return Computation(name, target, multi)
        partition = about_state[2] if state.partitioned else None
        return StateComputation(name, target, multi, state, partition)

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
        state = State(name, target, bool(partitioning), frozenset(keys) if keys else None)
        return self._shared(state, mistakes)

    def _shared(self, state: State, mistakes: list[str]) -> State:
        """Return the state that already has this name: all steps on one state hold the same object."""
        if self._open is None:
            return state
        earlier, pipeline = self._states.setdefault(state.name, (state, self._open.name))
        mistakes.extend(validate.shared_state_mistakes(state, earlier, pipeline))
        return earlier

    def _where(self, method: str, first_argument: Any) -> str:
        shown = "" if first_argument is MISSING else f" {label(first_argument)}"
        if self._open is None:
            return f"{method}{shown}"
        if method in ("to_sink", "to_sinks"):
            return f"pipeline {self._open.name!r}, {method}"
        return f"pipeline {self._open.name!r}, step {self._open.steps_declared} ({method}{shown})"

    def _place_mistakes(self, method: str) -> Iterator[str]:
        is_sink = method in ("to_sink", "to_sinks")
        if self._open is None:
            yield f"there is no open pipeline: write new_pipeline(name, source_config) before {method}"
        elif self._open.has_sink and is_sink:
            yield "the pipeline already has its sink: write to_sinks([one, another]) once for several"
        elif self._open.has_sink:
            yield "a step cannot come after the sink: put it before, or open another pipeline first"

    def _note(self, where: str, mistakes: Iterable[str]) -> None:
        self.mistakes.extend(f"{where}: {mistake}" for mistake in mistakes)


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
