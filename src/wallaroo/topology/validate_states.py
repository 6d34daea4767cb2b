"""What is wrong with states that would only be noticed when the application runs.

To find it, states are made: that is the user's code, and may take its time. So it is done once, before an application
is started or where it is only checked, and not in every process that builds it.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

from wallaroo.topology.model import StateComputation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wallaroo.topology.model import Application, State


def unsavable_states(application: Application, *, own_serialize: bool = False) -> Iterator[str]:
    """Make an object of each state, try to save it, and yield a sentence for each that cannot be used.

    Args:
        application: The application.
        own_serialize: Whether the application has a function of its own for that. It is not tried: it may be made for
            states that have seen messages.

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
    except Exception as error:  # noqa: BLE001 - it is the user's code, and whatever it raises is the user's to read
        yield f"the state {state.name!r} cannot be made: {type(error).__name__}: {error}"
        return
    if fresh is None:
        yield f"the state {state.name!r} is made as None: what makes it must return an object"
        return
    if own_serialize:
        return
    try:
        pickle.dumps(fresh, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001 - whatever a user's object raises when pickled
        yield (
            f"the state {state.name!r} cannot be saved ({error}). Keep in it only what can be pickled: no lambda "
            "(write a function of the module instead), no lock, no file, no connection"
        )
