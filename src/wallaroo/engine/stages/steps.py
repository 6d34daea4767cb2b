"""The steps of a pipeline as generated loops: the only place where user code is called.

A line of steps becomes one loop, `run(messages)`, that processes each message to the end: through the computations up
to the next state (where it is queued by its key) or to the sinks (where it is encoded). Branches are processed one
after the other; what several of them lead to is a function of its own, which they call. An error in user code is passed
to the outbox with the step and the message, and the loop continues with the next message. This module does not depend
on Spark.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from wallaroo.connectors.registry import packer_of
from wallaroo.engine.loop_codegen import GeneratedLoop
from wallaroo.engine.plan import Plan, StepRoute
from wallaroo.engine.stages.inlining import Result, Write, inline
from wallaroo.engine.stages.outbox import USER_ERRORS, Outbox
from wallaroo.engine.stages.result_checks import (
    checked_bytes,
    checked_list,
    checked_names,
    checked_pair,
    checked_save,
)
from wallaroo.engine.transport.dead_letter_record import Place
from wallaroo.interfaces import takes_message
from wallaroo.topology.model import (
    DECODER,
    Computation,
    KeyBy,
    Pipeline,
    SinkGroup,
    StateComputation,
    Target,
    sink_name,
)

Run = Callable[[Iterable[Any]], None]
RunState = Callable[[Iterable[Any], Any], tuple[bool, BaseException | None]]
RunOne = Callable[[Any], None]


def source_line(plan: Plan, outbox: Outbox, pipeline: Pipeline) -> Run:
    """Return the loop over payloads of the pipeline's source, which decodes them and runs the first steps.

    It ends early when the outbox is full.
    """
    loop = GeneratedLoop("payloads")
    line = _Line(loop, plan, outbox, pipeline)
    place = Place.of_decoder(pipeline)
    decode = outbox.watched(_decode_of(pipeline.source.decoder), place.label)
    with loop.block("for payload in payloads:"):
        with line.called(decode, "payload", place):
            line.write_after(DECODER, line.result)
        if any(isinstance(step, Computation) and step.multi for step in pipeline.steps):
            loop.line(f"if {loop.name(outbox, 'outbox')}.fanout_budget <= 0: break")
    return loop.compiled()


def _decode_of(decoder: Any) -> Callable[[Any], Any]:
    """Return the decoder's function of a payload; a payload may be a pair of the bytes and what else is known."""
    decode: Callable[..., Any] = decoder.decode
    return (lambda payload: decode(*payload)) if takes_message(decoder) else decode


def line_from(plan: Plan, outbox: Outbox, pipeline: Pipeline, index: int) -> Run:
    """Return the loop over messages that are about to enter step `index` of `pipeline`."""
    line = _Line(GeneratedLoop("messages"), plan, outbox, pipeline)
    with line.loop.block("for message in messages:"):
        line.write(index, "message")
    return line.loop.compiled()


def line_after(plan: Plan, outbox: Outbox, pipeline: Pipeline, index: int) -> Run:
    """Return the loop over outputs of step `index` of `pipeline`."""
    line = _Line(GeneratedLoop("messages"), plan, outbox, pipeline)
    with line.loop.block("for message in messages:"):
        line.write_after(index, "message")
    return line.loop.compiled()


def to_chooser(plan: Plan, outbox: Outbox, pipeline: Pipeline, group: SinkGroup) -> Run:
    """Return the loop over outputs that a group's `choose` is about to send to some of its sinks."""
    line = _Line(GeneratedLoop("messages"), plan, outbox, pipeline)
    with line.loop.block("for message in messages:"):
        line.write_sinks(group, "message")
    return line.loop.compiled()


def to_sink(plan: Plan, outbox: Outbox, pipeline: Pipeline, number: int) -> Run:
    """Return the loop over outputs that are about to be encoded for one sink, the pipeline's `number`-th."""
    line = _Line(GeneratedLoop("messages"), plan, outbox, pipeline)
    with line.loop.block("for message in messages:"):
        line.write_sink(number, "message")
    return line.loop.compiled()


def state_loop(plan: Plan, outbox: Outbox, route: StepRoute) -> RunState:
    """Return the loop over messages of one key through a state step and on to the next state or the sinks.

    It returns whether any message asked for the state to be saved, and the error that ended the loop, if any: the
    message at fault is the last one taken.
    """
    loop = GeneratedLoop("messages, state")
    line = _Line(loop, plan, outbox, route.pipeline)
    place = Place.of_step(route.pipeline, route.index)
    compute = outbox.watched(route.step.bind(), place.label)
    loop.line("save_any = False")
    with loop.block("try:"), loop.block("for message in messages:"):
        if not line.inlines(compute, ["message", "state"], partial(_write_pair, loop)):
            loop.line(f"result = {loop.name(compute, 'compute')}(message, state)")
            _write_unpacking(loop)
        if route.step.multi:
            line.write_list_check("output")
        loop.line("if save is True: save_any = True")
        loop.line(f"elif save is not False and {loop.name(checked_save, 'checked')}(save): save_any = True")
        if route.step.multi:
            with loop.block("for each in output:"), loop.block("if each is not None:"):
                line.write_after(route.index, "each")
        else:
            with loop.block("if output is not None:"):
                line.write_after(route.index, "output")
    with loop.block(f"except {loop.name(USER_ERRORS, 'errors')} as error:"):
        loop.line("return save_any, error")
    loop.line("return save_any, None")
    return loop.compiled()


def _write_pair(loop: GeneratedLoop, result: ast.expr, write: Write) -> None:
    """Generate the code that takes an output and whether to save apart; usually they are written as a pair."""
    match result:
        case ast.Tuple(elts=[output, save]) if not isinstance(output, ast.Starred) and not isinstance(
            save, ast.Starred
        ):
            write("output = ", output)
            write("save = ", save)
        case _:
            write("result = ", result)
            _write_unpacking(loop)


def _write_unpacking(loop: GeneratedLoop) -> None:
    # A str of two characters could be unpacked as well.
    is_tuple = f"{loop.builtin(type)}(result) is {loop.builtin(tuple)}"
    loop.line(f"output, save = result if {is_tuple} else {loop.name(checked_pair, 'checked')}(result)")


class _Line:
    """Generates the code of a pipeline's steps into a loop, each step once."""

    def __init__(
        self,
        loop: GeneratedLoop,
        plan: Plan,
        outbox: Outbox,
        pipeline: Pipeline,
        joints: dict[Target, RunOne] | None = None,
    ) -> None:
        self.loop = loop
        self._joints = {} if joints is None else joints
        """The functions of the steps and sinks to which several ways lead, shared by all loops of the line."""
        self._plan = plan
        self._outbox = outbox
        self._pipeline = pipeline
        self._errors = loop.name(USER_ERRORS, "errors")
        self.result = ""
        """The variable that holds the result of the last call."""

    def write_after(self, index: int, message: str) -> None:
        """Generate the code for a message, in the variable `message`, that step `index` has output."""
        loop = self.loop
        if loop.is_deep:
            self._write_call(self._function(partial(_Line.write_after, index=index, message="message")), message)
            return
        targets = self._pipeline.after(index)
        for target in targets:
            if self._pipeline.is_joint(target):
                self._write_call(self._joint(target), message)
            else:
                self._write_target(target, message)
        if not targets:
            loop.line("pass")

    def _write_target(self, target: Target, message: str) -> None:
        if isinstance(target, SinkGroup):
            self.write_sinks(target, message)
        else:
            self.write(target, message)

    def _write_call(self, function: RunOne, message: str) -> None:
        self.loop.line(f"{self.loop.name(function, 'rest')}({message})")

    def _joint(self, target: Target) -> RunOne:
        """Return the function of a message at a step or at sinks to which several ways lead."""
        if target not in self._joints:
            # Those behind it come first: if each made the next one, a long line would exceed Python's recursion limit.
            for each in self._joints_behind(target):
                self._joints[each] = self._function(partial(_Line._write_target, target=each, message="message"))
        return self._joints[target]

    def _joints_behind(self, target: Target) -> list[Target]:
        """Return the joints that messages at `target`, itself one, may reach in this line, the last ones first."""
        if isinstance(target, SinkGroup):
            return [target]
        reached: set[Target] = {target}
        for index in range(target, len(self._pipeline.steps)):
            if index in reached and not isinstance(self._pipeline.steps[index], StateComputation):
                reached.update(self._pipeline.after(index))
        joints = [each for each in reached if self._pipeline.is_joint(each) and each not in self._joints]
        return sorted(joints, key=lambda each: -each if isinstance(each, int) else -len(self._pipeline.steps))

    def _function(self, write: Callable[[_Line], None]) -> RunOne:
        """Return a function of one message, with what `write` generates for the variable `message`."""
        line = _Line(GeneratedLoop("message"), self._plan, self._outbox, self._pipeline, self._joints)
        write(line)
        return line.loop.compiled()

    def write(self, index: int, message: str) -> None:
        """Generate the code for a message, in the variable `message`, from step `index` on."""
        step = self._pipeline.steps[index]
        place = Place.of_step(self._pipeline, index)
        if isinstance(step, Computation) and step.multi:
            with self._called_multi(step, message, place):
                self.write_after(index, self.result)
        elif isinstance(step, Computation):
            with self.called(self._outbox.watched(step.bind(), place.label), message, place):
                self.write_after(index, self.result)
        elif isinstance(step, KeyBy):
            self._write_key_by(step, index, message, place)
        else:
            self._write_to_state(self._plan.to_step(self._pipeline, index), message, place)

    @contextlib.contextmanager
    def _attempt(self, message: str, place: Place) -> Iterator[None]:
        """Attribute errors in the code generated inside this context to the step."""
        outbox = self._outbox

        def fail(failed: Any, error: BaseException) -> None:
            outbox.fail(place, failed, error)

        loop = self.loop
        with loop.block("try:"):
            yield
        with loop.block(f"except {self._errors} as error:"):
            loop.line(f"{loop.name(fail, 'fail')}({message}, error)")

    def inlines(self, function: Callable[..., Any], arguments: Sequence[str], result: Result) -> bool:
        """Write a user's function into the loop; return whether that was possible, otherwise it has to be called."""
        return self._outbox.inlines and inline(self.loop, function, arguments, result)

    def _write_value(
        self, before: str, function: Callable[[Any], Any], message: str, hint: str, after: str = ""
    ) -> None:
        """Generate a line with a user's function of a message: its code, or else a call."""
        if not self.inlines(function, [message], lambda found, write: write(before, found, after)):
            self.loop.line(f"{before}{self.loop.name(function, hint)}({message}){after}")

    def write_list_check(self, results: str) -> None:
        """Generate the code for the list, in the variable `results`, that a multi-output step has returned."""
        loop = self.loop
        is_list = f"{loop.builtin(type)}({results}) is {loop.builtin(list)}"
        loop.line(f"if not {is_list}: {results} = {loop.name(checked_list, 'checked')}({results})")
        loop.line(f"{loop.name(self._outbox, 'outbox')}.fanout_budget -= {loop.builtin(len)}({results})")

    @contextlib.contextmanager
    def called(self, function: Callable[[Any], Any], message: str, place: Place) -> Iterator[None]:
        """Generate a user's function of a message; code generated inside this context runs if it gives a result."""
        loop = self.loop
        self.result = result = loop.variable("message")
        with self._attempt(message, place):
            self._write_value(f"{result} = ", function, message, "function")
        with loop.block("else:"), loop.block(f"if {result} is not None:"):
            yield

    @contextlib.contextmanager
    def _called_multi(self, step: Computation, message: str, place: Place) -> Iterator[None]:
        loop = self.loop
        results = loop.variable("messages")
        self.result = result = loop.variable("message")
        function = self._outbox.watched(step.bind(), place.label)
        with self._attempt(message, place):
            self._write_value(f"{results} = ", function, message, "function")
            self.write_list_check(results)
        with loop.block("else:"), loop.block(f"for {result} in {results}:"), loop.block(f"if {result} is not None:"):
            yield

    def _write_key_by(self, step: KeyBy, index: int, message: str, place: Place) -> None:
        """Set the key where the next state finds it: a message is processed to the end before the next one."""
        loop = self.loop
        current, before = loop.name(self._outbox.current, "current"), loop.variable("key")
        # The next message, or this one on another branch, has its own key or none, and must not see this one.
        is_restored = place.keyed or self._pipeline.is_branched
        if is_restored:
            loop.line(f"{before} = {current}.key")
        with self._attempt(message, place):
            key_of = self._outbox.watched(step.bind(), place.label)
            self._write_value(f"{current}.key = ", key_of, message, "key_of")
        with loop.block("else:"):
            self.write_after(index, message)
        if is_restored:
            loop.line(f"{current}.key = {before}")

    def _write_to_state(self, route: StepRoute, message: str, place: Place) -> None:
        loop = self.loop
        groups = loop.name(self._outbox.keyed(route), "groups")
        partition = route.step.bind_partition()
        if partition is not None:
            partition = self._outbox.watched(partition, place.label)
            # The message's earlier key is not the one it would have here.
            with self._attempt(message, replace(place, keyed=False)):
                self._write_value(f"{groups}[", partition, message, "partition", f"].append({message})")
            return
        key = f"{loop.name(self._outbox.current, 'current')}.key" if route.step.state.partitioned else "None"
        with self._attempt(message, place):
            loop.line(f"{groups}[{key}].append({message})")

    def write_sinks(self, group: SinkGroup, message: str) -> None:
        """Generate the code for an output, in the variable `message`, at a group of the pipeline's sinks."""
        if group.choose is not None:
            self._write_chosen(group, group.choose, message)
            return
        self.loop.line("pass")  # There may be no sinks.
        for number in group.sinks:
            self.write_sink(number, message)

    def _write_chosen(self, group: SinkGroup, choose: Callable[[Any], Any], message: str) -> None:
        loop = self.loop
        place = Place.of_chooser(self._pipeline, group)
        names = {sink_name(self._pipeline.sinks[number]): number for number in group.sinks}
        chosen, known = loop.variable("chosen"), loop.name({name: (name,) for name in names}, "known")
        with self._attempt(message, place):
            loop.line(f"{chosen} = {loop.name(self._outbox.watched(choose, place.label), 'choose')}({message})")
            # The result is usually a single name.
            is_name = f"{loop.builtin(type)}({chosen}) is {loop.builtin(str)}"
            loop.line(f"if {is_name} and {chosen} in {known}: {chosen} = {known}[{chosen}]")
            loop.line(f"else: {chosen} = {loop.name(checked_names, 'checked')}({chosen}, {known})")
        with loop.block("else:"):
            for name, number in names.items():
                with loop.block(f"if {name!r} in {chosen}:"):
                    self.write_sink(number, message)

    def write_sink(self, number: int, message: str) -> None:
        """Generate the code for an output, in the variable `message`, at one of the pipeline's sinks."""
        loop = self.loop
        route = self._plan.sinks_of(self._pipeline)[number]
        append = loop.name(self._outbox.sink(route).append, "append")
        place = Place.of_encoder(self._pipeline, number)
        encode = self._outbox.watched(route.sink.encoder.encode, place.label)
        with self._attempt(message, place):
            self._write_value("encoded = ", encode, message, "encode")
            if (pack := packer_of(route.sink)) is not None:
                loop.line(f"if encoded is not None: {append}({loop.name(pack, 'pack')}(encoded))")
            else:
                loop.line(f"if {loop.builtin(type)}(encoded) is {loop.builtin(bytes)}: {append}(encoded)")
                loop.line(f"elif encoded is not None: {append}({loop.name(checked_bytes, 'checked')}(encoded))")
