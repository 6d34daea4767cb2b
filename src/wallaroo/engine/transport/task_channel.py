"""The channel from a task to the driver: outputs of blocks, reports of saved or changed state, and failures.

Each task has one connection. Frames have a kind, a block number and a length. The driver answers the hello with the
first block and the heads of the task's buckets, and a request for room, once there is some, with an empty line.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from struct import Struct
from typing import Any, NamedTuple

from wallaroo.connectors.output_block import Body
from wallaroo.engine.failure_kinds import failure_of
from wallaroo.engine.state_manifest import BucketName, StoredHead
from wallaroo.engine.transport.crash_notes import NO_CARE, Care
from wallaroo.engine.transport.dead_letter_record import Letter
from wallaroo.ingress.lanes import Lane, dump_ends
from wallaroo.internal_sockets import HELLO_TIMEOUT_SECONDS, dial, receive_exactly

FRAME = Struct("<BqI")
HELLO, OUTPUT, SAVED, FAILED, DONE, ENOUGH, ROOM = range(7)
ROOM_REQUEST = Struct("<qQ")
"""The last block that a request for room is about, and how many bytes; the frame has the first block."""
ROOM_GRANTED = b"\n"
MAX_HELLO_BYTES = 4096
_UNASKED_BYTES = 256 << 10
"""How much a task may pass on before it asks for room: asking takes a moment, in which the task does nothing."""


class Welcome(NamedTuple):
    """The driver's answer to a task: the first block, the heads of its buckets, and which calls are dangerous."""

    start: int
    heads: dict[BucketName, StoredHead]
    care: Care = NO_CARE


class TaskChannel:
    """A task's connection to the driver; `note` is the name of the file with the process's notes, if it has one."""

    def __init__(  # noqa: PLR0913, PLR0917 - the identity of the task
        self, address: str, token: str, attempt: str, level: int, partition: int, note: str = ""
    ) -> None:
        self._socket = dial(address)
        self._stream = self._socket.makefile("rb")
        self._unasked = 0
        """How much was passed on since the last request for room."""
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
        """Send the outputs of a partition for a block, once there is room for them."""
        self.wait_for_room(block, block, len(share))
        self._send(OUTPUT, block, share)

    def wait_for_room(self, first: int, last: int, size: int) -> None:
        """Wait until so many bytes, which the blocks from `first` to `last` have become, may be passed on."""
        self._unasked += size
        if self._unasked > _UNASKED_BYTES:
            self._send(ROOM, first, ROOM_REQUEST.pack(last, self._unasked))
            self._line()
            self._unasked = 0

    def saved(
        self,
        block: int,
        ends: Mapping[Lane[int], int],
        heads: Mapping[BucketName, StoredHead],
        letters: Sequence[Letter] = (),
    ) -> None:
        """Report that everything before `block` is computed and durable, with the ends of the lanes seen here."""
        changed = [[*name, head.as_json()] for name, head in heads.items()]
        report = {"ends": dump_ends(ends), "heads": changed, "letters": letters}
        self._send(SAVED, block, json.dumps(report).encode())

    def enough_changed(self, block: int) -> None:
        """Report that so much state has changed that the epoch of `block` should end."""
        self._send(ENOUGH, block, b"")

    def failed(self, error: BaseException) -> None:
        """Report why this task has failed."""
        self._send(FAILED, 0, json.dumps(failure_of(error)._asdict()).encode())

    def done(self) -> None:
        """Report that this task ends cleanly. If the connection closes without this, the process has died."""
        with suppress(OSError):  # The driver may already be gone.
            self._socket.sendall(FRAME.pack(DONE, 0, 0))

    def _send(self, kind: int, block: int, body: Body) -> None:
        self._socket.sendall(FRAME.pack(kind, block, len(body)))
        self._socket.sendall(body)

    def _line(self) -> bytes:
        line = self._stream.readline()
        if not line.endswith(b"\n"):
            raise ConnectionError("the driver has closed the connection")
        return line

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()
        self._socket.close()


def read_frame(stream: Any) -> tuple[int, int, bytes] | None:
    """Return the next frame, None at the end of the stream."""
    head = stream.read(FRAME.size)
    if len(head) < FRAME.size:
        return None
    kind, block, length = FRAME.unpack(head)
    body = stream.read(length)
    return (kind, block, body) if len(body) == length else None


def read_hello(connection: socket.socket) -> Any:
    """Return the hello of a new connection.

    Raises:
        ValueError: It is not a hello, or it is too long.
        OSError: It did not arrive in time.
    """
    deadline = time.monotonic() + HELLO_TIMEOUT_SECONDS
    kind, _, length = FRAME.unpack(receive_exactly(connection, FRAME.size, deadline))
    if kind != HELLO or length > MAX_HELLO_BYTES:
        raise ValueError("not a hello")
    hello = json.loads(receive_exactly(connection, length, deadline))
    connection.settimeout(None)
    return hello
