"""The driver's side of the task channels: collects outputs by block, reports of saved state, and failures."""

from __future__ import annotations

import hmac
import json
import socket
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from wallaroo.addresses import Address, parse_address
from wallaroo.engine.delivery.output_budget import OutputBudget
from wallaroo.engine.delivery.worker_deaths import Death, WorkerDeaths
from wallaroo.engine.directory.commit import Commits
from wallaroo.engine.failure_kinds import Failure, Kind
from wallaroo.engine.state_manifest import BucketName, StoredHead
from wallaroo.engine.transport.crash_notes import Note, take_note
from wallaroo.engine.transport.dead_letter_record import Letter
from wallaroo.engine.transport.task_channel import (
    DONE,
    ENOUGH,
    FAILED,
    OUTPUT,
    ROOM,
    ROOM_GRANTED,
    ROOM_REQUEST,
    SAVED,
    read_frame,
    read_hello,
)
from wallaroo.ingress.lanes import Lane, load_ends
from wallaroo.internal_sockets import MAX_UNAUTHENTICATED, listen, set_no_delay


class Expected(NamedTuple):
    """What makes a block, or an epoch, complete."""

    outputs: int
    """How many tasks send outputs for each block."""
    saves: int
    """How many tasks report at the end of an epoch that they have saved their state."""
    owner: Callable[[BucketName], tuple[int, int] | None]
    """Returns which task, by level and partition, owns a bucket; None for a state that is not used now."""


_MORE_THAN_COME = Expected(sys.maxsize, sys.maxsize, lambda _: None)
"""Before the first attempt: nothing is complete."""


class Epoch(NamedTuple):
    """The end of an epoch: all tasks have computed everything before a block, and saved their state."""

    attempt: str
    block: int
    ends: dict[Lane[int], int]
    """Up to which message of each lane that is, for the lanes that had messages in this attempt."""
    heads: dict[BucketName, StoredHead]
    letters: list[Letter]


class TaskEnd(NamedTuple):
    """The end of a task that has failed."""

    level: int
    partition: int
    failure: Failure | None
    """The failure that it has reported; None if its process died before it could."""
    note: Note | None
    """What the process was doing, if it died and has left a note."""

    @property
    def death(self) -> Death | None:
        """Return the death of the process, if it died and left a note."""
        return None if self.note is None else Death(self.level, self.partition, self.note)


class _Task(NamedTuple):
    attempt: str
    level: int
    partition: int
    connection: socket.socket
    note: str


class Collector:
    """Listens for tasks, and assembles their outputs by block; `notes` is the folder of the workers' notes."""

    def __init__(
        self,
        address: str,
        token: str,
        commits: Commits,
        deaths: WorkerDeaths | None = None,
        notes: Path | None = None,
    ) -> None:
        self._token = token
        self._commits = commits
        self._expected = _MORE_THAN_COME
        self._changed = threading.Condition()
        self.attempt = ""
        """The current attempt; others are ignored."""
        self._outputs: defaultdict[int, dict[int, bytes]] = defaultdict(dict)
        self._window = OutputBudget()
        self._saved: defaultdict[int, dict[tuple[int, int], Any]] = defaultdict(dict)
        """What each task has reported about an epoch, by the end of the epoch."""
        self.on_enough_changed: Callable[[int], None] = lambda _: None
        """Called with a block in whose epoch much state has changed, for each task that reports it; must not block."""
        self._deaths = deaths or WorkerDeaths()
        self._notes = notes
        self._ends: list[TaskEnd] = []
        """The tasks of this attempt that have failed, in order."""
        self._greeted: dict[tuple[int, int], socket.socket] = {}
        """The connections of the tasks of this attempt, by level and partition."""
        self._unauthenticated: dict[socket.socket, None] = {}
        self._listener = listen(address)
        self.address = address
        if not address.startswith("/"):
            self.address = str(Address(parse_address(address).host, self._listener.getsockname()[1]))
        threading.Thread(target=self._accept, name="wallaroo-hand-ins", daemon=True).start()

    def begin(self, attempt: str, expected: Expected) -> None:
        """Start a new attempt from the last commit; what tasks of earlier attempts send is ignored."""
        with self._changed:
            self.attempt = attempt
            self._expected = expected
            for connection in self._greeted.values():
                # A task that waits for room would wait forever, and its process live as long as the run.
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self._greeted.clear()
            self._outputs.clear()
            self._window.begin(self._commits.block)
            self._saved.clear()
            self._ends.clear()
            self._changed.notify_all()

    def next(
        self, attempt: str, block: int, timeout: float, is_woken: Callable[[], bool] = lambda: False
    ) -> list[bytes] | Epoch | None:
        """Return the outputs of a block in the order of the partitions, or an epoch that has ended before it.

        Each is returned once. None if neither arrives in time, if another attempt has started, or if `wake` was called
        and `is_woken` is true.
        """

        def is_there() -> bool:
            return self._is_complete(block) or self._saved_before(block) is not None

        with self._changed:
            self._changed.wait_for(lambda: attempt != self.attempt or is_there() or is_woken(), timeout)
            if attempt != self.attempt or not is_there():
                return None
            # Tasks do not stop at the end of an epoch; the last one may save when others are already beyond it.
            if (end := self._saved_before(block)) is not None:
                return self._epoch(end)
            outputs = self._outputs.pop(block)
            return [outputs[partition] for partition in sorted(outputs)]

    def _is_complete(self, block: int) -> bool:
        return len(self._outputs.get(block, ())) == self._expected.outputs

    def _saved_before(self, block: int) -> int | None:
        """Return the end of the first epoch that all tasks have saved, if it is not after `block`."""
        ends = (end for end, tasks in self._saved.items() if end <= block and len(tasks) == self._expected.saves)
        return min(ends, default=None)

    def _epoch(self, block: int) -> Epoch:
        reports = self._saved.pop(block).values()
        # The greatest end counts: without states, a task sees only some of the blocks.
        ends = load_ends(sorted(end for report in reports for end in report["ends"]))
        heads = {
            (state, bucket): StoredHead.from_json(head) for report in reports for state, bucket, head in report["heads"]
        }
        return Epoch(self.attempt, block, ends, heads, [letter for report in reports for letter in report["letters"]])

    def delivered(self, attempt: str, block: int) -> None:
        """Record that all blocks before `block` are delivered: there is room for others."""
        with self._changed:
            if attempt == self.attempt:
                self._window.delivered(block)

    def first_end(self, timeout: float) -> TaskEnd | None:
        """Return the end of the task that failed first: the others were killed because of it.

        None if none has failed within the timeout.
        """
        with self._changed:
            self._changed.wait_for(lambda: bool(self._ends), timeout)
            return self._ends[0] if self._ends else None

    def release(self, block: int) -> None:
        """Discard what belongs to an epoch that is committed."""
        self._deaths.forget_before(block)

    def wake(self) -> None:
        """Wake up waiting threads."""
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._make_room()
            self._unauthenticated[connection] = None
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _make_room(self) -> None:
        """Close the oldest unauthenticated connection if there are too many: our own tasks authenticate immediately."""
        with suppress(OSError, StopIteration, RuntimeError):  # It may have authenticated, or closed, just now.
            if len(self._unauthenticated) >= MAX_UNAUTHENTICATED:
                next(iter(self._unauthenticated)).shutdown(socket.SHUT_RDWR)

    def _serve(self, connection: socket.socket) -> None:
        with (
            connection,
            connection.makefile("rb", buffering=1 << 18) as stream,
            suppress(OSError, ValueError, KeyError, TypeError),
        ):
            try:
                task = self._greet(connection)
            finally:
                self._unauthenticated.pop(connection, None)
            if task is not None:
                self._listen(task, stream)

    def _listen(self, task: _Task, stream: Any) -> None:
        """Receive what a task sends, until the task or its process ends."""
        with suppress(OSError):  # The connection may break.
            while (frame := read_frame(stream)) is not None:
                if frame[0] == DONE:
                    return
                self._take(task, *frame)
                if frame[0] == FAILED:
                    return
        with self._changed:
            # Under the lock, so that failures are in the order in which the connections ended.
            note = take_note(self._notes, task.note) if self._notes is not None else None
            if task.attempt == self.attempt:
                self._ends.append(TaskEnd(task.level, task.partition, None, note))
                self._changed.notify_all()

    def _greet(self, connection: socket.socket) -> _Task | None:
        hello = read_hello(connection)
        if not hmac.compare_digest(str(hello["token"]).encode(), self._token.encode()):
            return None
        task = _Task(hello["attempt"], hello["level"], hello["partition"], connection, hello["note"])
        mine = (task.level, task.partition)
        with self._changed:
            if task.attempt != self.attempt or mine in self._greeted:
                # A task that Spark retries within an attempt would get only some of its blocks. Without an answer it
                # fails, and the query with it, which is then restarted as a whole.
                return None
            self._greeted[mine] = connection
            heads = {name: head for name, head in self._commits.heads.items() if self._expected.owner(name) == mine}
            start = self._commits.block
        set_no_delay(connection)
        care = self._deaths.care(*mine).as_json()
        welcome = {"start": start, "heads": [[*name, head.as_json()] for name, head in heads.items()], "care": care}
        connection.sendall(json.dumps(welcome).encode() + b"\n")
        return task

    def _take(self, task: _Task, kind: int, block: int, body: bytes) -> None:
        with self._changed:
            if task.attempt != self.attempt:
                return
            if kind == OUTPUT:
                self._outputs[block][task.partition] = body
            elif kind == SAVED:
                self._saved[block][task.level, task.partition] = json.loads(body)
            elif kind == ENOUGH:
                self.on_enough_changed(block)
            elif kind == ROOM:
                last, size = ROOM_REQUEST.unpack(body)
                self._window.ask(task.level, block, last, size, partial(_grant_room, task.connection))
            elif kind == FAILED:
                report = json.loads(body)
                failure = Failure(Kind(report["kind"]), report["text"])
                self._ends.append(TaskEnd(task.level, task.partition, failure, None))
            self._changed.notify_all()


def _grant_room(connection: socket.socket) -> None:
    with suppress(OSError):  # The task may be gone.
        connection.sendall(ROOM_GRANTED)
