"""The contracts of connectors: what the rest of the system asks a kind of source or sink, and the halves that run.

A connector has a package beside this module, with everything that only it knows. `SourceKind` and `SinkKind` answer
questions about its configs, the classes that users write. They are asked in every process, also where nothing of the
connector ever runs, so their modules import little. What runs is made by them: an `Intake`, in the ingress, gets
messages into the order of the application; a `SourceReader`, in the workers, reads those of a block; a
`SinkConnection`, in the driver, delivers outputs.

Most sources have their messages in a log of ours (`LoggedKind`). Where others keep them, and give them again when they
are asked for a position, they stay there, and only their order is kept (`RangedKind`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
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
"""The position of a message, and the payloads from it on."""


class StoppedError(Exception):
    """The application is being stopped; what was to be delivered will be delivered by its next run."""


class SourceSide(Protocol):
    """What any intake has of its source."""

    name: str
    """The pipeline's."""

    @property
    def directory(self) -> Path:
        """Return the source's folder, where an intake may keep a file with what it has to remember."""

    @property
    def end(self) -> int:
        """Return the position after the last message that was added."""

    @property
    def held_back(self) -> bool:
        """Return whether nothing more is to be added for now; what is added all the same waits in memory."""

    @property
    def backlog_bytes(self) -> int:
        """Return how much is added and not processed yet."""


class SourceLog(SourceSide, Protocol):
    """A source with a durable log of ours, which messages are added to."""

    @property
    def has_written_all(self) -> bool:
        """Return whether everything that was received is in the log."""

    def received(self, payloads: list[bytes]) -> None:
        """Append messages, which the decoder of the source's config decodes later, elsewhere."""

    def advance(self, index: int) -> None:
        """Make sure that no message gets an index below `index` any more."""


class SourceRanges(SourceSide, Protocol):
    """A source whose messages stay where they are: only which of them come when is kept.

    After a restart `end` is where the sequence of the application ends: what was announced behind it, and was in no
    block yet, is announced again.
    """

    @property
    def committed(self) -> int:
        """Return the position before which nobody reads any more; what is behind it has to stay where it is."""

    def announced(self, first: int, end: int, size: int) -> None:
        """Add the messages from `first` to `end`, without `end`, which take `size` bytes.

        They come behind all others: `first` is `end` of this source, or more where positions are not given to any
        message. A range is never cut, so it should not be much larger than a block is to be, half a MiB.
        """


@dataclass(frozen=True)
class IntakeContext:
    """What the intakes of all sources share."""

    limits: Limits
    unfinished: PartialFrames
    """For those who put messages together from pieces: the memory that these may take."""
    notice: Notice


class Intake(Protocol):
    """The half of a source that runs in the ingress, in its event loop, and adds messages to its `SourceSide`.

    When it is made, it looks only at what it is given. After a restart it goes on at the source's `end`: a message
    that is before it is not added again, and none that was taken from elsewhere for good is missing.
    """

    @property
    def connections(self) -> int:
        """Return how many senders are connected."""

    async def start(self) -> tuple[str, int] | None:
        """Begin; return the host and the port at which senders find it, where it listens."""

    def hold(self) -> None:
        """Add nothing until `release`. What comes all the same is kept in memory."""

    def release(self) -> None:
        """Go on after `hold`."""

    async def drain(self) -> None:
        """Take in what has arrived already, without waiting for more, and add nothing after that."""

    def close(self) -> None:
        """End at once; drained or not, started or not."""


class SourceReader(Protocol):
    """The half of a source that runs in workers, and reads the messages of blocks."""

    def read(self, first: int, end: int) -> Iterator[Piece]:
        """Yield the messages from `first` to `end`, without `end`, piece by piece; positions may be missing.

        A range gives the same pieces whenever it is read, in any worker, until it is committed. It may be read again
        while it is being read, and what is begun need not be read to its end.
        """


class SourceKind(ABC):
    """What is asked about sources whose configs are of one class; each kind is a `LoggedKind` or a `RangedKind`."""

    name: ClassVar[str]
    """What the ingress process knows it by."""
    config_class: ClassVar[type]
    """The class of its configs. They have a `decoder`, which makes messages of the payloads that its reader reads."""
    nature: ClassVar[str]
    """What has to be the same wherever the application is built, in words that fit behind "a source that"."""
    brings_letters: ClassVar[bool] = False
    """Whether it has dead letters, not payloads for a decoder: each says itself where it goes in, and came from."""

    @abstractmethod
    def mistakes(self, config: Any) -> Iterator[str]:
        """Yield a sentence for each mistake in a config: what is wrong, what it is, what to write instead."""

    @abstractmethod
    def shown(self, config: Any) -> Sequence[str]:
        """Return where the messages come from, in the lines of a box in the drawing."""

    def listens_on(self, config: Any) -> tuple[str, int] | None:  # noqa: ARG002
        """Return the address that the source wants for itself, None where it has none, or one with mistakes."""
        return None

    def preflight(self, pipeline: str, config: Any) -> None:  # noqa: B027 - most have nothing to look at.
        """Look, before anything is started, at what can be known not to work; raise an error that names `pipeline`."""

    def place(self, config: Any) -> dict[str, Any]:  # noqa: ARG002
        """Return what the other processes are told besides the config, which they have from the application they build.

        It is made of what JSON has. The application is built in each of them, and they need not agree on addresses:
        these are taken from here. A source that listens has a `port` in here; for the ingress, it is the one that it
        got, when it is started again.
        """
        return {}

    @abstractmethod
    def reader(self, config: Any, place: Mapping[str, Any], log: SourceReader) -> SourceReader:
        """Return what reads the messages in a worker; `log` does so from the log, where there is one of ours."""


class LoggedKind(SourceKind):
    """A kind of sources that have their messages in a log of ours."""

    @abstractmethod
    def intake(self, config: Any, place: Mapping[str, Any], log: SourceLog, context: IntakeContext) -> Intake:
        """Return what gets the messages into the log: from those who connect, by making them, from a queue."""

    def reader(self, config: Any, place: Mapping[str, Any], log: SourceReader) -> SourceReader:  # noqa: ARG002
        """Return what reads the log."""
        return log


class RangedKind(SourceKind):
    """A kind of sources whose messages are kept by others, who give them by their positions again and again."""

    @abstractmethod
    def intake(self, config: Any, place: Mapping[str, Any], ranges: SourceRanges, context: IntakeContext) -> Intake:
        """Return what looks where there are more messages, and announces them."""


class SinkConnection(Protocol):
    """Delivers the encoded messages of blocks, in order. When it is made, it connects nowhere yet."""

    name: str
    """Where it delivers to: known in the ledger and shown to people by this name. Sinks of the same name share one."""

    def connect(self) -> None:
        """Look for the receiver ahead of the first block, for as long as it takes."""

    def deliver(self, block: OutputBlock) -> None:
        """Deliver one block; wait for the receiver as long as it takes, or raise StoppedError.

        It has arrived for good when this returns. The block has its bytes in `bodies`, and one by one in `messages()`.
        The same number may come again after a crash, with the same messages: `effectively_once` asks for sinks that
        see to it that the receiver has them once.
        """

    def close(self) -> None:
        """Let go of the connection after what was delivered has been handed over."""


@dataclass(frozen=True)
class SinkContext:
    """What the sinks of a run share."""

    stopping: threading.Event
    """Set when receivers are not to be waited for any more."""
    notice: Notice
    application: str
    """The id of the state that the outputs come from: another one after a fresh start, whose blocks count anew."""
    effectively_once: bool = False
    """Whether receivers are to have every block once, and take part in that."""


class SinkKind(ABC):
    """What is asked about sinks whose configs are of one class."""

    config_class: ClassVar[type]
    """The class of its configs. They have an `encoder`, which makes the bytes that are delivered.

    They may have a `name`, which is a string or None: `choose` of `to_sinks` picks sinks by it.
    """

    @abstractmethod
    def mistakes(self, config: Any) -> Iterator[str]:
        """Yield a sentence for each mistake in a config: what is wrong, what it is, what to write instead."""

    @abstractmethod
    def shown(self, config: Any) -> Sequence[str]:
        """Return where the outputs go, in the lines of a box in the drawing."""

    def preflight(self, pipeline: str, config: Any) -> None:  # noqa: B027 - most have nothing to look at.
        """Look, before anything is started, at what can be known not to work; raise an error that names `pipeline`.

        A receiver that is only not there yet is no reason: it is waited for.
        """

    @abstractmethod
    def connection(self, config: Any, context: SinkContext) -> SinkConnection:
        """Return what delivers to the sink."""
