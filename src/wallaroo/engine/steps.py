"""What a step does to a message: the one place where user code is called.

A line of steps becomes one function, `push(message)`, that takes a message as far as it goes: through the
computations up to the next state (where it is put with its key) or to the sinks (where it is encoded). An error in user
code is handed to the outbox together with the step and the message, and the next message goes on.
Nothing here knows of Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wallaroo.engine.outbox import USER_ERRORS, Outbox
from wallaroo.engine.plan import Plan, SinkRoute, StepRoute
from wallaroo.topology.model import Computation, KeyBy, Pipeline

Push = Callable[[Any], None]
Fail = Callable[[Any, BaseException], None]


class ReturnShapeError(Exception):
    """User code returned something other than its kind of step has to return."""


def source_line(plan: Plan, outbox: Outbox, pipeline: Pipeline) -> Push:
    """Return the function for a payload of the pipeline's source: decode it and take it through the first steps."""
    onward = line_from(plan, outbox, pipeline, 0)
    decode = pipeline.source.decoder.decode
    fail = _failing(outbox, pipeline, "decoder")

    def push(payload: bytes) -> None:
        try:
            message = decode(payload)
        except USER_ERRORS as error:
            fail(payload, error)
            return
        if message is not None:
            onward(message)

    return push


def line_from(plan: Plan, outbox: Outbox, pipeline: Pipeline, index: int) -> Push:
    """Return the function for a message that is about to enter step `index` of `pipeline`."""
    if index == len(pipeline.steps):
        return _to_sinks(plan, outbox, pipeline)
    step = pipeline.steps[index]
    if isinstance(step, Computation):
        onward = line_from(plan, outbox, pipeline, index + 1)
        fail = _failing(outbox, pipeline, step.name)
        return _multi(step, onward, fail) if step.multi else _single(step, onward, fail)
    if isinstance(step, KeyBy):
        onward = line_from(plan, outbox, pipeline, index + 1)
        return _key_by(step, outbox, onward, _failing(outbox, pipeline, step.name))
    route = plan.after(pipeline, index)
    assert route is not None
    return _to_state(outbox, route)


def _failing(outbox: Outbox, pipeline: Pipeline, step: str) -> Fail:
    def fail(message: Any, error: BaseException) -> None:
        outbox.fail(pipeline.name, step, message, error)

    return fail


def _single(step: Computation, onward: Push, fail: Fail) -> Push:
    compute = step.bind()

    def push(message: Any) -> None:
        try:
            result = compute(message)
        except USER_ERRORS as error:
            fail(message, error)
            return
        if result is not None:
            onward(result)

    return push


def _multi(step: Computation, onward: Push, fail: Fail) -> Push:
    compute = step.bind()

    def push(message: Any) -> None:
        try:
            results = compute(message)
            if type(results) is not list:
                results = checked_list(results)
        except USER_ERRORS as error:
            fail(message, error)
            return
        for result in results:
            if result is not None:
                onward(result)

    return push


def _key_by(step: KeyBy, outbox: Outbox, onward: Push, fail: Fail) -> Push:
    """Leave the key where the next state finds it: a message goes all the way before the next one comes."""
    extract = step.bind()

    def push(message: Any) -> None:
        try:
            outbox.key = extract(message)
        except USER_ERRORS as error:
            fail(message, error)
            return
        onward(message)

    return push


def checked_list(results: Any) -> list[Any]:
    """Return the results of a multi step as a list; None means that there are none.

    >>> checked_list(None), checked_list((1, 2))
    ([], [1, 2])
    >>> checked_list("a b")
    Traceback (most recent call last):
        ...
    wallaroo.engine.steps.ReturnShapeError: expected a list of results or None, got a str: 'a b'
    """
    if results is None:
        return []
    if isinstance(results, list | tuple):
        return list(results)
    raise ReturnShapeError(f"expected a list of results or None, got a {type(results).__name__}: {results!r:.80}")


def checked_pair(result: Any) -> tuple[Any, Any]:
    """Return the result of a state computation as (output, save_state).

    >>> checked_pair(("out", True))
    ('out', True)
    >>> checked_pair("out")
    Traceback (most recent call last):
        ...
    wallaroo.engine.steps.ReturnShapeError: expected a tuple (output, save_state), got a str: 'out'
    """
    if isinstance(result, tuple) and len(result) == 2:
        return result
    raise ReturnShapeError(f"expected a tuple (output, save_state), got a {type(result).__name__}: {result!r:.80}")


def _to_state(outbox: Outbox, route: StepRoute) -> Push:
    groups = outbox.keyed(route)
    partition = route.step.bind_partition()
    if partition is None and not route.step.state.partitioned:

        def push_single(message: Any) -> None:
            groups[None].append(message)

        return push_single
    fail = _failing(outbox, route.pipeline, route.step.name)
    if partition is None:

        def push_keyed(message: Any) -> None:
            try:
                groups[outbox.key].append(message)
            except TypeError as error:  # The key cannot be hashed.
                fail(message, error)

        return push_keyed

    def push(message: Any) -> None:
        try:
            groups[partition(message)].append(message)
        except USER_ERRORS as error:
            fail(message, error)

    return push


def _to_sinks(plan: Plan, outbox: Outbox, pipeline: Pipeline) -> Push:
    pushes = [_to_sink(outbox, route) for route in plan.sinks_of(pipeline)]
    if len(pushes) == 1:
        return pushes[0]

    def push(message: Any) -> None:
        for push_one in pushes:
            push_one(message)

    return push


def _to_sink(outbox: Outbox, route: SinkRoute) -> Push:
    encode = route.sink.encoder.encode
    append = outbox.sink(route).append
    fail = _failing(outbox, route.pipeline, "encoder")

    def push(message: Any) -> None:
        try:
            encoded = encode(message)
            if type(encoded) is bytes:
                append(encoded)
            elif encoded is not None:
                append(checked_bytes(encoded))
        except USER_ERRORS as error:
            fail(message, error)

    return push


def checked_bytes(encoded: Any) -> bytes:
    r"""Return what an encoder gave as bytes; text is sent as UTF-8.

    >>> checked_bytes("é")
    b'\xc3\xa9'
    >>> checked_bytes(7)
    Traceback (most recent call last):
        ...
    wallaroo.engine.steps.ReturnShapeError: expected bytes (or text, sent as UTF-8), got a int: 7
    """
    if isinstance(encoded, str):
        return encoded.encode()
    if isinstance(encoded, bytes | bytearray | memoryview):
        return bytes(encoded)
    raise ReturnShapeError(f"expected bytes (or text, sent as UTF-8), got a {type(encoded).__name__}: {encoded!r:.80}")
