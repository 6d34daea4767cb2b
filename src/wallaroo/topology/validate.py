"""Checks of steps and pipelines. Each check yields one sentence for each mistake it finds."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from wallaroo.introspection import (
    MISSING,
    a_kind_of,
    accepts,
    call_text,
    decoration_mistakes,
    deferred_mistakes,
    key_method,
    label,
    making_mistakes,
)
from wallaroo.topology.model import REPLAYS, KeyBy

if TYPE_CHECKING:
    from wallaroo.topology.model import Pipeline, State

_ABOVE_U64 = 2**64

_STATE_CALL = (
    ("computation", "computation"),
    ("state", "StateClass"),
    ("state_partition_name", '"state name"'),
    ("partition_function", "partition_function"),
)

CALLS: dict[str, tuple[tuple[str, str], ...]] = {
    "new_pipeline": (
        ("name", '"pipeline name"'),
        ("source_config", "wallaroo.TCPSourceConfig(host, port, decoder)"),
    ),
    "source": (
        ("name", '"source name"'),
        ("source_config", "wallaroo.TCPSourceConfig(host, port, decoder)"),
    ),
    "key_by": (("key_extractor", "key_extractor"),),
    "collect": (),
    "to": (("computation", "computation"),),
    "to_parallel": (("computation", "computation"),),
    "to_stateful": (
        ("computation", "computation"),
        ("state_class", "StateClass"),
        ("state_name", '"state name"'),
    ),
    "to_state_partition": _STATE_CALL,
    "to_state_partition_u64": (
        _STATE_CALL[0],
        ("state_builder", "StateClass"),
        *_STATE_CALL[2:],
    ),
    "to_sink": (("sink_config", "wallaroo.TCPSinkConfig(host, port, encoder)"),),
    "to_sinks": (("sink_configs", "[wallaroo.TCPSinkConfig(host, port, encoder)]"),),
}
"""The arguments that each method of builders and pipelines requires, each with what to write for it."""


def missing_arguments(method: str, arguments: Sequence[Any]) -> Iterator[str]:
    """Check that no argument is missing; if one is, yield the whole call as it should be written."""
    needed = list(zip(CALLS[method], arguments, strict=False))
    missing = [name for (name, _), given in needed if given is MISSING]
    if missing:
        call = ", ".join(sample if given is MISSING else label(given) for (_, sample), given in needed)
        yield (f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing: write {method}({call})")


def name_mistakes(name: Any, what: str) -> Iterator[str]:
    """Check a name given by the user."""
    if not isinstance(name, str):
        yield f"{what} must be a string; got {a_kind_of(name)}"
    elif not name:
        yield f"{what} is empty: give it a name"


def computation_mistakes(computation: Any, shown: str, *, stateful: bool, chained: bool = False) -> Iterator[str]:
    """Check a computation (an object, not a class), shown as `shown`, for a step with or without state.

    In a chained pipeline, made with `wallaroo.source`, a computation brings its state or has none.
    """
    decorator = "@wallaroo.state_computation" if stateful else "@wallaroo.computation"
    methods = [each for each in ("compute", "compute_multi") if callable(getattr(computation, each, None))]
    decorated = list(decoration_mistakes(computation))
    yield from decorated
    if decorated and not methods:
        return
    if inspect.isroutine(computation) or isinstance(computation, functools.partial):
        yield (
            f'{shown} is a plain function: write {decorator}("{shown}") above it, or '
            f'{decorator}_multi("{shown}") if it returns a list of outputs'
        )
    elif not methods and callable(getattr(computation, "initial_accumulator", None)):
        yield (
            f"{shown} is an aggregation, which is for windows, and windows come in a later release: until then gather "
            'the messages in the state of a @wallaroo.state_computation("step name", StateClass)'
        )
    elif not methods:
        arguments = "data, state" if stateful else "data"
        yield (
            f"{shown} is not a computation: it has neither compute({arguments}) nor "
            f"compute_multi({arguments}). Write a function with {decorator}(name) above it, or a class with "
            "name() and one of those methods"
        )
    elif len(methods) == 2:
        yield (
            f"{shown} has both compute and compute_multi: keep compute if it returns one output, or "
            "compute_multi if it returns a list of them"
        )
    else:
        if not decorated:
            yield from _computation_name_mistakes(computation, shown)
        yield from _kind_mistakes(computation, shown, methods[0], stateful=stateful, chained=chained)
        yield from returning_mistakes(computation, shown, pair=stateful)


def returning_mistakes(computation: Any, shown: str, *, pair: bool) -> Iterator[str]:
    """Check that a computation returns its outputs directly; with `pair`, it returns `save_state` too."""
    multi = callable(getattr(computation, "compute_multi", None))
    decorator = getattr(computation, "decorator", None)
    if isinstance(decorator, str):
        where, change = shown, f'write {decorator}_multi("step name") above it, '
    else:
        where, change = f"{'compute_multi' if multi else 'compute'} of {shown}", "write a method compute_multi, "
    result = "`return outputs, True`" if pair else "`return outputs`"
    instead = f"{'' if multi else change}gather the outputs in a list and end with {result}"
    yield from deferred_mistakes(computation.compute_multi if multi else computation.compute, where, instead)


def _computation_name_mistakes(computation: Any, shown: str) -> Iterator[str]:
    method = getattr(computation, "name", None)
    if not callable(method):
        yield f'{shown} has no method name: add `def name(self): return "what this step does"` to its class'
        return
    try:
        name = method()
    except Exception as error:  # noqa: BLE001 - the user's code may raise anything, and it is reported
        yield f"name() of {shown} failed with {type(error).__name__}: {error}"
        return
    yield from name_mistakes(name, f"what name() of {shown} returns")


def _kind_mistakes(computation: Any, shown: str, method: str, *, stateful: bool, chained: bool) -> Iterator[str]:
    """Check that a computation with state is used with a state, and one without is used without."""
    function = getattr(computation, method)
    wanted, other = (2, 1) if stateful else (1, 2)
    # Decorated functions declare their kind, even if their parameters would allow both.
    says = getattr(computation, "stateful", None)
    if says is stateful if isinstance(says, bool) else accepts(function, wanted):
        return
    if not isinstance(says, bool) and not accepts(function, other):
        expected = f"2 arguments, as in {method}(data, state)" if stateful else f"1 argument, as in {method}(data)"
        yield f"{method} of {shown} must allow {expected}; it is written as {call_text(function, method)}"
    elif stateful:
        yield f"{shown} is a computation without state: write to({shown}) or to_parallel({shown})"
    elif chained:
        decorator = "state_computation_multi" if method == "compute_multi" else "state_computation"
        yield (
            f"{shown} is a state computation that does not bring its state: write a function with "
            f'@wallaroo.{decorator}("step name", StateClass) above it that returns the output alone, without '
            "save_state; or use it as it is with wallaroo.ApplicationBuilder"
        )
    else:
        yield (
            f'{shown} is a state computation: write to_stateful({shown}, StateClass, "state name") or '
            f'to_state_partition({shown}, StateClass, "state name", partition_function, partition_keys)'
        )


def own_state_mistakes(shown: str, state: Any, method: str) -> Iterator[str]:
    """Check the use of a state computation, shown as `shown`, that brings its own `state`: it takes no other."""
    if method == "to":
        return
    brings = f"{shown} is a state computation that brings its state, {label(state)}: write to({shown})"
    if method == "to_parallel":
        yield brings
    else:
        yield (
            f"{brings}, after key_by(key_extractor) in a pipeline made with wallaroo.source if each key has a state of "
            f"its own; or leave the state out of its decorator, return (output, save_state), and keep {method}"
        )


def state_mistakes(state: Any) -> Iterator[str]:
    """Check what creates the state objects: a class, or an object (or a class of objects) with `build`."""
    build = getattr(state, "build", None)
    if build is not None:
        yield from making_mistakes(state)
        # A function taken from the class still has `self` as its first parameter.
        expected = 1 if inspect.isclass(state) and inspect.isfunction(build) else 0
        if not callable(build) or not accepts(build, expected):
            yield f"build of the state builder {label(state)} must be a method without arguments"
        yield from deferred_mistakes(build, f"build of the state builder {label(state)}", "write `return`")
    elif not callable(state):
        kind = type(state)
        wanted = "a class of yours" if kind.__module__ == "builtins" else kind.__name__
        yield (
            f"the state must be a class, or an object with a build() method; got {a_kind_of(state)}: "
            f"give the class itself, {wanted}"
        )
    elif not accepts(state, 0):
        name = label(state)
        yield (
            f"the state {name} cannot be made without arguments ({call_text(state, name)}): give its "
            f"arguments defaults, or give an object whose build() method returns a {name}"
        )
    else:
        yield from deferred_mistakes(state, f"the state {label(state)}", "write `return`")


def partition_mistakes(partition: Any, kind: str = "partition") -> Iterator[str]:
    """Check what picks the key of a message: a `partition`, or, for `key_by`, a `key_extractor`."""
    shown = label(partition)
    role = {"partition": "partition function", "key_extractor": "key extractor"}[kind]
    wanted = {"partition": "partition", "key_extractor": "extract_key"}[kind]
    decorated = list(decoration_mistakes(partition))
    method = key_method(partition, wanted, "partition", "extract_key")
    if decorated:
        yield from decorated
    elif inspect.isroutine(partition):
        yield f"the {role} {shown} is a plain function: write @wallaroo.{kind} above it"
    elif method is None:
        yield (
            f"the {role} {shown} has no method {wanted}: write a function with @wallaroo.{kind} above it, or a class "
            f"with {wanted}(data)"
        )
    elif inspect.isclass(partition):
        yield from making_mistakes(partition)
    elif not accepts(getattr(partition, method), 1):
        yield (
            f"{method} of {shown} must allow 1 argument, as in {method}(data); it is written as "
            f"{call_text(getattr(partition, method), method)}"
        )
    if method is not None:
        yield from deferred_mistakes(getattr(partition, method), f"the {role} {shown}", "write `return`")


def key_mistakes(keys: Any, *, u64: bool) -> Iterator[str]:
    """Check the listed partition keys; None means any key."""
    if keys is None:
        return
    if not isinstance(keys, list):
        got = a_kind_of(keys)
        letters = f"list({label(keys)}) where each letter is a key" if isinstance(keys, str) else "a list"
        yield f"partition_keys must be a list of keys; got {got}: write {letters}, or leave it out for any key"
        return
    seen: set[Any] = set()
    for key in keys:
        if u64 and not (isinstance(key, int) and not isinstance(key, bool) and 0 <= key < _ABOVE_U64):
            yield (
                "the partition keys of to_state_partition_u64 must be whole numbers from 0 to 2**64 - 1; got "
                f"{a_kind_of(key)}: use to_state_partition for other keys"
            )
        elif not _is_hashable(key):
            yield (
                f"the partition key {label(key)} cannot be hashed: use strings, numbers, tuples of those, or "
                "objects with __hash__ and __eq__"
            )
        elif key in seen:
            yield f"the partition key {label(key)} is in partition_keys more than once: keep one"
        else:
            seen.add(key)


def _is_hashable(key: Any) -> bool:
    # A tuple that contains a list looks hashable to `isinstance` but is not.
    try:
        hash(key)
    except Exception:  # noqa: BLE001 - a user's __hash__ may raise anything
        return False
    return True


def shared_state_mistakes(state: State, earlier: State, pipeline: str) -> Iterator[str]:
    """Check that a state with the name of an `earlier` one, first used by `pipeline`, is the same state."""
    where = f"the state name {state.name!r} is already used in pipeline {pipeline!r}"
    way_out = "Use the same in both to share the state, or another name to keep them apart"
    if _state_class(state.target) is not _state_class(earlier.target):
        yield f"{where} with {label(earlier.target)}, here with {label(state.target)}. {way_out}"
    if state.partitioned != earlier.partitioned:
        one, other = ("with", "without") if earlier.partitioned else ("without", "with")
        yield f"{where} {one} partitions, here {other}. {way_out}"
    elif state.keys != earlier.keys:
        yield f"{where} with other partition_keys. {way_out}"


def _state_class(target: Any) -> Any:
    """Return what identifies a state across its uses: builders are often created anew for each."""
    return type(target) if hasattr(target, "build") and not inspect.isclass(target) else target


def pipeline_name_mistakes(pipelines: Sequence[Pipeline]) -> Iterator[str]:
    """Check that there are pipelines and that no two have the same name."""
    if not pipelines:
        yield "there is no pipeline: write new_pipeline(name, source_config), then its steps and its sink"
    names = [pipeline.name for pipeline in pipelines]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            yield f"{names.count(name)} pipelines are called {name!r}: give each pipeline a name of its own"
    if REPLAYS in names:
        yield f"a pipeline is called {REPLAYS!r}, which is the name of an internal source: give it another name"


def step_name_mistakes(pipelines: Sequence[Pipeline]) -> Iterator[str]:
    """Check that steps of one pipeline with the same name are the same computation."""
    for pipeline in pipelines:
        first: dict[str, Any] = {}
        # Steps that only pick a key have no name of their own: they are named after the function that picks it.
        for step in (step for step in pipeline.steps if not isinstance(step, KeyBy)):
            if first.setdefault(step.name, step.target) is not step.target:
                yield (
                    f"pipeline {pipeline.name!r}: two different steps are called {step.name!r}: give each a "
                    "name of its own"
                )
