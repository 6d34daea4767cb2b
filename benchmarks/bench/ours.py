"""The throughput of an application of ours: out of a filled log, and from socket to socket."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import NamedTuple

from bench.inputs import Input
from bench.machida import Machida
from bench.wires import Receiver, Sender
from bench.workloads import Workload

_PATIENCE = 900.0


class Caught(NamedTuple):
    """A backlog that was worked off."""

    seconds: float
    """From the moment in which the engine could continue to the last byte of the last output."""
    accepting_seconds: float
    """How long the ingress had taken to accept it, while the engine waited."""
    output: Path


def out_of_the_log(
    workload: Workload,
    given: Input,
    folder: Path,
    expected_size: int,
    *,
    watching: Callable[[Machida], AbstractContextManager[object]] = nullcontext,
) -> Caught:
    """Measure how fast a backlog is worked off.

    The engine is up and warm when all its processes that compute are stopped, by a signal. Senders fill the log with
    the main section of the input. Then the clock starts and the processes continue. `watching` is entered for the time
    that is measured, by those who look closer.
    """
    output = folder / "wallaroo"
    with (
        Receiver(output) as receiver,
        Sender() as sender,
        _application(workload, given, folder, receiver) as application,
    ):
        _warm_up(application, receiver, sender, given)
        with ExitStack() as pause:
            pause.enter_context(application.paused())
            accepting = sum(
                sender.send(application.address(pipeline), frames, frames.main)
                for pipeline, frames in given.frames.items()
            )
            with watching(application):
                started = time.monotonic_ns()
                pause.close()
                last = receiver.wait_for(expected_size, _PATIENCE)
    return Caught((last - started) / 1e9, accepting, output)


def socket_to_socket(workload: Workload, given: Input, folder: Path, expected_size: int) -> tuple[float, Path]:
    """Return the seconds from the first byte that is sent to the last one that is received, and the output.

    Only for applications with one pipeline.
    """
    output = folder / "wallaroo-sockets"
    with (
        Receiver(output) as receiver,
        Sender() as sender,
        _application(workload, given, folder, receiver) as application,
    ):
        _warm_up(application, receiver, sender, given)
        ((pipeline, frames),) = given.frames.items()
        address = application.address(pipeline)
        sender.start_sending(address, frames, frames.main)
        last = receiver.wait_for(expected_size, _PATIENCE)
        started, _ = sender.finish()
    return (last - started) / 1e9, output


def _application(workload: Workload, given: Input, folder: Path, receiver: Receiver) -> Machida:
    return Machida(workload.app, folder / "home", receiver.address, workload.arguments, sources=len(given.frames))


def _warm_up(application: Machida, receiver: Receiver, sender: Sender, given: Input) -> None:
    """Send the first section in slices, each of which is at least one block."""
    for slices in zip(*(frames.warm_up for frames in given.frames.values()), strict=True):
        before = receiver.total
        for (pipeline, frames), part in zip(given.frames.items(), slices, strict=True):
            sender.send(application.address(pipeline), frames, part)
        receiver.wait_until_quiet(before, 0.3, _PATIENCE)
