"""The contracts of connectors: what the rest of the system asks a kind of source or sink, and the parts that run.

A connector has a package beside this module, with everything specific to it. `SourceKind` and `SinkKind` answer
questions about its configs, the classes that users write. They are used in every process, including those where no part
of the connector runs, so their modules import little. They create the parts that run: an `Intake`, in the ingress,
receives messages; a `SourceReader`, in the workers, reads the messages of a block; a `SinkConnection`, in the driver,
delivers outputs.

Most sources keep their messages in our own log (`LoggedKind`). If an external system stores them durably, and can read
them again by position, they stay there, and only their order is kept (`ReplayableKind`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from wallaroo.connectors.output_block import OutputBlock

if TYPE_CHECKING:
    import threading
    from pathlib import Path

    from wallaroo.ingress.limits import Limits
    from wallaroo.ingress.partial_frames import PartialFrames
    from wallaroo.notices import Notice


Piece = tuple[int, list[bytes]]
"""The position of the first message, and the payloads from it on."""


Packer = Callable[[Any], bytes]
"""Packs the result of an encoder into one message of a block."""


class StoppedError(Exception):
    """The application is being stopped; the next run will deliver what was not delivered."""


class SourceSide(Protocol):
    """What every intake can use of its source."""

    name: str
    """The pipeline's."""

    @property
    def directory(self) -> Path:
        """Return the source's folder, where an intake may keep its own files."""

    @property
    def held_back(self) -> bool:
        """Return whether the intake has to pause; what is added nevertheless waits in memory."""

    @property
    def backlog_bytes(self) -> int:
        """Return how many bytes are added and not processed yet."""


class SourceLog(SourceSide, Protocol):
    """A source with its own durable log, to which messages are appended."""

    @property
    def end(self) -> int:
        """Return the position after the last message in the log."""

    @property
    def has_written_all(self) -> bool:
        """Return whether everything that was received is in the log."""

    def received(self, payloads: list[bytes]) -> None:
        """Append messages, which the decoder of the source's config decodes later, in a worker."""

    def advance(self, index: int) -> None:
        """Make sure that no further message gets an index below `index`."""

    async def force(self) -> None:
        """Sync what is in the log to disk; raise an OSError if that fails."""

    def before_each_segment(self, keep: Callable[[int], None], needed: Callable[[], int | None]) -> None:
        """Have `keep` called with the log's end each time before a new segment is started.

        All messages before that end are on the disk by then; later they may be deleted at any time, while those after
        it can still be read. If `keep` raises an OSError, the append fails, and is tried again. When the log is opened,
        messages from `needed()` on are kept until the intake has been started.
        """


class SourceRanges(SourceSide, Protocol):
    """A source whose messages stay in an external system: only their order is kept here.

    A *lane* is a part of the source that has an order, and positions, of its own, such as a partition of a topic. Lanes
    are numbered from zero, without large gaps, and keep their numbers forever; new ones may appear at any time. Only a
    kind that says so has several (`SourceKind.has_lanes`); for any other, the lane can be left out everywhere.

    After a restart a lane ends where the sequence of the application does: what was announced after that, and was not
    in a block yet, has to be announced again.
    """

    @property
    def lanes(self) -> Sequence[int]:
        """Return the lanes of which anything was ever announced, in order."""

    def end_of(self, lane: int = 0) -> int | None:
        """Return the position after the last announced message; None if nothing of the lane was ever announced."""

    def committed_of(self, lane: int = 0) -> int | None:
        """Return the position before which messages are no longer read; None if nothing of the lane is committed.

        Messages from there on must be retained.
        """

    def announced(self, first: int, end: int, size: int, lane: int = 0) -> None:
        """Add the messages from `first` to `end`, without `end`, which have `size` bytes.

        They follow all others of their lane: `first` is the lane's end, or greater if some positions have no message.
        A range is never split, so it should not be much larger than a block, half a MiB.
        """


@dataclass(frozen=True)
class IntakeContext:
    """What the intakes of all sources share."""

    limits: Limits
    unfinished: PartialFrames
    """The memory for incomplete messages, for intakes that receive messages in pieces."""
    notice: Notice


class Intake(Protocol):
    """The part of a source that runs in the ingress, in its event loop, and adds messages to its `SourceSide`.

    Its constructor only inspects its arguments. After a restart it resumes at the source's end, or that of each of its
    lanes: no message before it is added again, and no message that was acknowledged elsewhere is missing.
    """

    @property
    def connections(self) -> int:
        """Return how many senders are connected."""

    async def start(self) -> tuple[str, int] | None:
        """Start; return the host and port, if it listens for senders."""

    def hold(self) -> None:
        """Pause until `release`. What is added nevertheless is kept in memory."""

    def release(self) -> None:
        """Resume after `hold`."""

    async def drain(self) -> None:
        """Add what has already arrived, without waiting for more, and nothing after that."""

    def close(self) -> None:
        """Stop immediately, whether drained or not, started or not."""


class SourceReader(Protocol):
    """The part of a source that runs in workers, and reads the messages of blocks."""

    def read(self, first: int, end: int, lane: int = 0) -> Iterator[Piece]:
        """Yield the messages of a lane from `first` to `end`, without `end`, piece by piece; positions may be missing.

        A range yields the same pieces whenever it is read, in any worker, until it is committed. It may be read again
        while it is being read, and the caller need not read it to its end.
        """


class SourceKind(ABC):
    """Describes sources whose configs are of one class; each kind is a `LoggedKind` or a `ReplayableKind`."""

    name: ClassVar[str]
    """Identifies the kind to the ingress process."""
    config_class: ClassVar[type]
    """The class of its configs. They have a `decoder`, which decodes the payloads that its reader reads."""
    nature: ClassVar[str]
    """What must be the same wherever the application is built, as text that completes "a source that"."""
    brings_letters: ClassVar[bool] = False
    """Whether its messages are dead letters, not payloads for a decoder: each names its own step and origin."""
    has_lanes: ClassVar[bool] = False
    """Whether its sources have lanes. Users know these as partitions: dead letters name them beside the position."""
    remembers_senders: ClassVar[bool] = False
    """Whether its log records what it has received from each sender: nothing is committed before that is on the disk.

    Otherwise a power failure could lose a record whose messages are in the states, and the sender's repeats of them
    would be processed again.
    """

    @abstractmethod
    def mistakes(self, config: Any) -> Iterator[str]:
        """Yield a sentence for each mistake in a config: what is wrong, the given value, what to write instead."""

    @abstractmethod
    def shown(self, config: Any) -> Sequence[str]:
        """Return where the messages come from, as the lines of a box in the drawing."""

    def listens_on(self, config: Any) -> tuple[str, int] | None:  # noqa: ARG002
        """Return the address that the source listens on, None if it does not listen, or the address is invalid."""
        return None

    def preflight(self, pipeline: str, config: Any) -> None:  # noqa: B027 - most have nothing to check.
        """Check, before anything is started, what is known not to work; raise an error that names `pipeline`."""

    def place(self, config: Any) -> dict[str, Any]:  # noqa: ARG002
        """Return what the other processes need besides the config, which they have from building the application.

        It can be written as JSON. The application is built in each process, and may have different addresses in each:
        these are taken from here. A source that listens has a `port` in here; when the ingress is restarted, it is the
        port that was in use.
        """
        return {}

    @abstractmethod
    def reader(self, config: Any, place: Mapping[str, Any], log: SourceReader) -> SourceReader:
        """Return the reader for a worker; `log` reads from our own log, if the source has one.

        `place["skip_damaged"]` is true if messages that can no longer be read are to be left out.
        """


class LoggedKind(SourceKind):
    """A kind of source that keeps its messages in our own log."""

    @abstractmethod
    def intake(self, config: Any, place: Mapping[str, Any], log: SourceLog, context: IntakeContext) -> Intake:
        """Return the intake, which appends messages to the log: received, generated, or taken from a queue."""

    def reader(self, config: Any, place: Mapping[str, Any], log: SourceReader) -> SourceReader:  # noqa: ARG002
        """Return the reader of the log."""
        return log


class ReplayableKind(SourceKind):
    """A kind of source whose messages stay in an external system, where they can be read by position repeatedly."""

    @abstractmethod
    def intake(self, config: Any, place: Mapping[str, Any], ranges: SourceRanges, context: IntakeContext) -> Intake:
        """Return the intake, which looks for new messages and announces them."""


class SinkConnection(Protocol):
    """Delivers the encoded messages of blocks, in order. Its constructor does not connect yet."""

    name: str
    """The destination, as recorded in the ledger and shown to users. Sinks of the same name share one connection."""

    def connect(self) -> None:
        """Connect to the receiver before the first block; retry for as long as it takes."""

    def deliver(self, block: OutputBlock) -> None:
        """Deliver one block; wait for the receiver as long as it takes, or raise StoppedError.

        When the receiver has the block, the sink calls `block.delivered()`: before this returns, or later, from its
        own thread. So it may take many blocks at a time, and reports them in their order. What stops it later than in
        this call, it passes to `block.failed()` of the first block that it has not delivered, and reports no more.

        The bytes of the block are in `bodies`, and one by one in `messages()`. After a crash the same block number may
        be delivered again, with the same messages: with `effectively_once` the sink has to make sure that the receiver
        has them once. A receiver that identifies blocks by number gets one only after `SinkContext.make_durable`.
        """

    def close(self) -> None:
        """Close the connection after everything delivered has been sent, and report nothing more."""


@dataclass(frozen=True)
class SinkContext:
    """What the sinks of a run share."""

    stopping: threading.Event
    """Set when sinks must no longer wait for their receivers."""
    notice: Notice
    application: str
    """The id of the state that the outputs come from: it changes with --reset, which restarts the block numbers."""
    make_durable: Callable[[int], None]
    """Has a block, by its number, and all before it synced to disk, from any thread.

    If a power failure lost a block that a receiver has, another one would get its number, and be dropped as a repeat.
    """
    effectively_once: bool = False
    """Whether receivers get every block effectively once, by confirming blocks and dropping repeats."""


class SinkKind(ABC):
    """Describes sinks whose configs are of one class."""

    config_class: ClassVar[type]
    """The class of its configs. They have an `encoder`, which returns what is to be delivered.

    They may have a `name`, which is a string or None: `choose` of `to_sinks` picks sinks by it.
    """

    @abstractmethod
    def mistakes(self, config: Any) -> Iterator[str]:
        """Yield a sentence for each mistake in a config: what is wrong, the given value, what to write instead."""

    @abstractmethod
    def shown(self, config: Any) -> Sequence[str]:
        """Return where the outputs go, as the lines of a box in the drawing."""

    def conflict(self, config: Any, other: Any) -> str | None:  # noqa: ARG002
        """Return why two sinks of this kind cannot be in one application, None if they can.

        The sentence continues "a sink and another one", and says what to write instead. Sinks whose connections have
        the same name share one, so what it depends on has to be the same in both.
        """
        return None

    def preflight(self, pipeline: str, config: Any) -> None:  # noqa: B027 - most have nothing to check.
        """Check, before anything is started, what is known not to work; raise an error that names `pipeline`.

        A receiver that is not up yet is not an error: the sink waits for it.
        """

    def packer(self, config: Any) -> Packer | None:  # noqa: ARG002
        """Return what packs the result of the config's encoder, which is not None, into one message of a block.

        It is called in the workers, for every output, and raises an error if the result is of the wrong shape: then
        the output becomes a dead letter of the encoder. None if an encoder returns bytes, or text for UTF-8.
        """
        return None

    def unpacked(self, message: bytes) -> bytes:
        """Return what is delivered for a message of a block, for those who test an application."""
        return message

    @abstractmethod
    def connection(self, config: Any, context: SinkContext) -> SinkConnection:
        """Return the connection that delivers to the sink."""
