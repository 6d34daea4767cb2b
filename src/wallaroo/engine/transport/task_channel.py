"""How a task talks to the driver: what a block has put out, what has been saved or has changed, what went wrong.

One connection for each task of a stage, for the time of an epoch. Frames have a kind, a block number and a length. The
driver answers a hello with where to begin and the heads of the task's buckets, and a `saved` when all is committed.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from struct import Struct
from typing import Any, NamedTuple

from wallaroo.channels import HELLO_SECONDS, dial, receive_exactly
from wallaroo.connectors.output_block import Body
from wallaroo.engine.failure import failure_of
from wallaroo.engine.state_heads import BucketName, StoredHead
from wallaroo.engine.transport.dead_letter_record import Letter
from wallaroo.engine.transport.worker_notes import NO_CARE, Care

FRAME = Struct("<BqI")
HELLO, OUTPUT, SAVED, FAILED, DONE, ENOUGH = range(6)
LONGEST_HELLO = 4096


class Welcome(NamedTuple):
    """The driver's answer to a task: the first block of the epoch, the heads of its buckets, what is dangerous."""

    start: int
    heads: dict[BucketName, StoredHead]
    care: Care = NO_CARE


class TaskChannel:
    """A task's line to the driver; `note` is the name of the process's file of notes, where it has one."""

    def __init__(  # noqa: PLR0913, PLR0917 - which task it is
        self, address: str, token: str, attempt: str, level: int, partition: int, note: str = ""
    ) -> None:
        self._socket = dial(address)
        self._stream = self._socket.makefile("rb")
        hello = {"token": token, "attempt": attempt, "level": level, "partition": partition, "note": note}
        try:
            self._send(HELLO, 0, json.dumps(hello).encode())
            answer = json.loads(self._line())
        except BaseException:
            self.close()
            raise
        heads = {(state, bucket): StoredHead.from_json(head) for state, bucket, head in answer["heads"]}
        self.welcome = Welcome(answer["start"], heads, Care.from_json(answer["care"]))

    def output(self, block: int, share: bytes) -> None:
        """Hand in what a partition has put out for a block."""
        self._send(OUTPUT, block, share)

    def saved(
        self,
        block: int,
        ends: Mapping[int, int],
        heads: Mapping[BucketName, StoredHead],
        letters: Sequence[Letter] = (),
    ) -> None:
        """Say that all before `block` is computed and on the disk: of each source, as far as this task has seen."""
        changed = [[*name, head.as_json()] for name, head in heads.items()]
        report = {"ends": list(ends.items()), "heads": changed, "letters": letters}
        self._send(SAVED, block, json.dumps(report).encode())

    def enough_changed(self, block: int) -> None:
        """Say that so much state has changed that the epoch of `block` is to end."""
        self._send(ENOUGH, block, b"")

    def failed(self, error: BaseException) -> None:
        """Say why this task cannot go on."""
        self._send(FAILED, 0, json.dumps(failure_of(error)._asdict()).encode())

    def done(self) -> None:
        """Say that this task ends well. A line that ends without a word is that of a process that has died."""
        with suppress(OSError):  # A driver that is gone does not need to know.
            self._socket.sendall(FRAME.pack(DONE, 0, 0))

    def _send(self, kind: int, block: int, body: Body) -> None:
        self._socket.sendall(FRAME.pack(kind, block, len(body)))
        self._socket.sendall(body)

    def _line(self) -> bytes:
        line = self._stream.readline()
        if not line.endswith(b"\n"):
            raise ConnectionError("the driver has closed the line")
        return line

    def close(self) -> None:
        """Close the line."""
        self._stream.close()
        self._socket.close()


def read_frame(stream: Any) -> tuple[int, int, bytes] | None:
    """Return the next frame, None at the end."""
    head = stream.read(FRAME.size)
    if len(head) < FRAME.size:
        return None
    kind, block, length = FRAME.unpack(head)
    body = stream.read(length)
    return (kind, block, body) if len(body) == length else None


def read_hello(connection: socket.socket) -> Any:
    """Return what somebody who has connected says first.

    Raises:
        ValueError: It is no hello, or longer than one can be.
        OSError: It has not come in time.
    """
    deadline = time.monotonic() + HELLO_SECONDS
    kind, _, length = FRAME.unpack(receive_exactly(connection, FRAME.size, deadline))
    if kind != HELLO or length > LONGEST_HELLO:
        raise ValueError("not a hello")
    hello = json.loads(receive_exactly(connection, length, deadline))
    connection.settimeout(None)
    return hello
