"""Checks of states for mistakes that would otherwise only appear when the application runs.

The checks create state objects: that runs user code, which may be slow. So it is done once, before an application is
started or when it is only checked, and not in every process that builds it.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

from wallaroo.topology.model import StateComputation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wallaroo.topology.model import Application, State


def unsavable_states(application: Application, *, own_serialize: bool = False) -> Iterator[str]:
    """Create an object of each state, try to save it, and yield a sentence for each that cannot be used.

    Args:
        application: The application.
        own_serialize: Whether the application has its own serialization function. It is not tried: it may expect states
            that have processed messages.

    Yields:
        What is wrong, and what to write instead.
    """
    steps = (step for pipeline in application.pipelines for step in pipeline.steps)
    states = {step.state.name: step.state for step in steps if isinstance(step, StateComputation)}
    for state in states.values():
        yield from _state_mistakes(state, own_serialize=own_serialize)


def _state_mistakes(state: State, *, own_serialize: bool) -> Iterator[str]:
    try:
        fresh = state.make()()
    except Exception as error:  # noqa: BLE001 - the user's code may raise anything, and it is reported
        yield f"the state {state.name!r} cannot be made: {type(error).__name__}: {error}"
        return
    if fresh is None:
        yield f"the state {state.name!r} is made as None: what makes it must return an object"
        return
    if own_serialize:
        return
    try:
        pickle.dumps(fresh, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001 - a user's object may raise anything when pickled
        yield (
            f"the state {state.name!r} cannot be saved ({error}). Keep in it only what can be pickled: no lambda "
            "(write a function of the module instead), no lock, no file, no connection"
        )
