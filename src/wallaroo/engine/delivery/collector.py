"""The driver's side of what tasks hand in: outputs block by block, states that have been saved, failures."""

from __future__ import annotations

import hmac
import json
import socket
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from wallaroo.channels import MOST_STRANGERS, host_and_port, joined, listen, without_delay
from wallaroo.engine.delivery.worker_deaths import Death, WorkerDeaths
from wallaroo.engine.directory.commit import Commits
from wallaroo.engine.failure import Failure, Kind
from wallaroo.engine.state_heads import BucketName, StoredHead
from wallaroo.engine.transport.dead_letter_record import Letter
from wallaroo.engine.transport.task_channel import DONE, ENOUGH, FAILED, OUTPUT, SAVED, read_frame, read_hello
from wallaroo.engine.transport.worker_notes import Note, take_note


class Expected(NamedTuple):
    """What makes a block, or an epoch, complete."""

    outputs: int
    """How many tasks hand in outputs for each block."""
    saves: int
    """How many tasks say at the end of an epoch that they have saved everything."""
    owner: Callable[[BucketName], tuple[int, int] | None]
    """Says which task, by level and partition, has a bucket; None for a state that nobody uses now."""


_MORE_THAN_COME = Expected(sys.maxsize, sys.maxsize, lambda _: None)
"""Before the first attempt: nothing is complete."""


class Epoch(NamedTuple):
    """All tasks have computed everything before a block, and saved it."""

    attempt: str
    block: int
    ends: dict[int, int]
    """Up to which message of each source that is, of those that have had any in this life of the query."""
    heads: dict[BucketName, StoredHead]
    letters: list[Letter]


class TaskEnd(NamedTuple):
    """How a task has ended that did not end well."""

    level: int
    partition: int
    failure: Failure | None
    """What it has said; None where its process was gone before it could say anything."""
    note: Note | None
    """What the process was at, where it was gone and has left a note."""

    @property
    def death(self) -> Death | None:
        """Return the death of the process, if it was one, and left a note."""
        return None if self.note is None else Death(self.level, self.partition, self.note)


class _Task(NamedTuple):
    attempt: str
    level: int
    partition: int
    connection: socket.socket
    note: str


class Collector:
    """Listens for tasks, and puts together what belongs to a block; `notes` is the folder of the workers' notes."""

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
        """Which life of the query is listened to."""
        self._outputs: defaultdict[int, dict[int, bytes]] = defaultdict(dict)
        self._saved: defaultdict[int, dict[tuple[int, int], Any]] = defaultdict(dict)
        """By the end of an epoch, what each task has reported of it."""
        self.on_enough_changed: Callable[[int], None] = lambda _: None
        """Called with a block in whose epoch much state has changed, by each task that says so; must not wait."""
        self._deaths = deaths or WorkerDeaths()
        self._notes = notes
        self._ends: list[TaskEnd] = []
        """Of the tasks of this attempt, those that did not end well, in this order."""
        self._greeted: set[tuple[int, int]] = set()
        self._strangers: dict[socket.socket, None] = {}
        self._listener = listen(address)
        self.address = address
        if not address.startswith("/"):
            self.address = joined(host_and_port(address)[0], self._listener.getsockname()[1])
        threading.Thread(target=self._accept, name="wallaroo-hand-ins", daemon=True).start()

    def begin(self, attempt: str, expected: Expected) -> None:
        """Start over from the last commit; what tasks of an earlier attempt hand in is no longer taken."""
        with self._changed:
            self.attempt = attempt
            self._expected = expected
            self._greeted.clear()
            self._outputs.clear()
            self._saved.clear()
            self._ends.clear()
            self._changed.notify_all()

    def next(self, attempt: str, block: int, timeout: float) -> list[bytes] | Epoch | None:
        """Return the outputs of a block in the order of the partitions, or an epoch that has ended before it.

        None where neither comes in time, or where another attempt is listened to.
        """

        def is_there() -> bool:
            return attempt != self.attempt or self._is_complete(block) or self._saved_before(block) is not None

        with self._changed:
            if not self._changed.wait_for(is_there, timeout) or attempt != self.attempt:
                return None
            # Tasks go on behind the end of an epoch, and the last of them may save when others are well behind it.
            if (end := self._saved_before(block)) is not None:
                return self._epoch(end)
            outputs = self._outputs.pop(block)
            return [outputs[partition] for partition in sorted(outputs)]

    def _is_complete(self, block: int) -> bool:
        return len(self._outputs.get(block, ())) == self._expected.outputs

    def _saved_before(self, block: int) -> int | None:
        """Return the end of the first epoch that all tasks have saved, and that is not behind `block`."""
        ends = (end for end, tasks in self._saved.items() if end <= block and len(tasks) == self._expected.saves)
        return min(ends, default=None)

    def _epoch(self, block: int) -> Epoch:
        reports = self._saved[block].values()
        # The furthest counts: without states, a task has seen only some of the blocks.
        ends = dict(sorted(end for report in reports for end in report["ends"]))
        heads = {
            (state, bucket): StoredHead.from_json(head) for report in reports for state, bucket, head in report["heads"]
        }
        return Epoch(self.attempt, block, ends, heads, [letter for report in reports for letter in report["letters"]])

    def first_end(self, timeout: float) -> TaskEnd | None:
        """Return how the first task ended that did not end well: the others have been ended for it.

        None where all have, or where none does in time.
        """
        with self._changed:
            self._changed.wait_for(lambda: bool(self._ends), timeout)
            return self._ends[0] if self._ends else None

    def release(self, block: int) -> None:
        """Forget what belongs to an epoch: it is committed."""
        self._deaths.forget_before(block)
        with self._changed:
            self._saved.pop(block, None)

    def wake(self) -> None:
        """Let whoever waits look around."""
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """Stop to listen."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._make_room()
            self._strangers[connection] = None
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _make_room(self) -> None:
        """Let the stranger go that has taken longest, if there are too many: a task of ours speaks at once."""
        with suppress(OSError, StopIteration, RuntimeError):  # It may have spoken, or gone, at this very moment.
            if len(self._strangers) >= MOST_STRANGERS:
                next(iter(self._strangers)).shutdown(socket.SHUT_RDWR)

    def _serve(self, connection: socket.socket) -> None:
        with (
            connection,
            connection.makefile("rb", buffering=1 << 18) as stream,
            suppress(OSError, ValueError, KeyError, TypeError),
        ):
            try:
                task = self._greet(connection)
            finally:
                self._strangers.pop(connection, None)
            if task is not None:
                self._listen(task, stream)

    def _listen(self, task: _Task, stream: Any) -> None:
        """Take what a task hands in, until it ends, or its process does."""
        with suppress(OSError):  # A line may also break.
            while (frame := read_frame(stream)) is not None:
                if frame[0] == DONE:
                    return
                self._take(task, *frame)
                if frame[0] == FAILED:
                    return
        with self._changed:
            # Nobody comes in between: whoever was gone first is the first to be here.
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
                # One that Spark runs a second time within an epoch would get only the rest of what it needs. Without
                # an answer it fails, and the query with it, which then starts over as a whole.
                return None
            self._greeted.add(mine)
            heads = {name: head for name, head in self._commits.heads.items() if self._expected.owner(name) == mine}
            start = self._commits.block
        without_delay(connection)
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
            elif kind == FAILED:
                report = json.loads(body)
                failure = Failure(Kind(report["kind"]), report["text"])
                self._ends.append(TaskEnd(task.level, task.partition, failure, None))
            self._changed.notify_all()
