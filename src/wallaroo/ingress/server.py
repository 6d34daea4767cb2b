"""The ingress server: runs the intakes of all sources, and sequences what they have accepted."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wallaroo.connectors.base import IntakeContext, LoggedKind, ReplayableKind
from wallaroo.connectors.registry import source_kind_called
from wallaroo.ingress.block_sequence import SequenceWriter
from wallaroo.ingress.lanes import ends_by_source
from wallaroo.ingress.log.format import LogCorruptError
from wallaroo.ingress.logged_source import LoggedSource
from wallaroo.ingress.partial_frames import PartialFrames
from wallaroo.ingress.replayable_source import ReplayableSource
from wallaroo.ingress.sequencer import BLOCK_BYTES, EPOCH_BYTES, Sequencer
from wallaroo.ingress.source import Source, SourceStatus
from wallaroo.notices import QUIET_SECONDS, Condition

if TYPE_CHECKING:
    from collections.abc import Callable

    from wallaroo.ingress.config import IngressConfig, SourceEndpoint


class IngressServer:
    """All sources of an application.

    Create it inside a running event loop; `start` makes it accept connections.
    """

    def __init__(self, config: IngressConfig, on_notice: Callable[[str], None]) -> None:
        self._config = config
        self.sources: dict[str, Source] = {}
        self._syncing: list[asyncio.Task[None]] = []
        self._notice = on_notice
        self._drained: asyncio.Task[None] | None = None
        self._unfinished = PartialFrames(config.limits.max_unfinished, on_notice)
        self._cannot_accept = Condition(on_notice, quiet=QUIET_SECONDS)
        self._numbers: dict[str, int] = {}
        context = IntakeContext(config.limits, self._unfinished, on_notice)
        with ExitStack() as opened:
            for endpoint in config.sources:
                source = self._open(endpoint, context)
                opened.callback(source.close)
                self.sources[endpoint.name] = source
            self.sequencer = self._make_sequencer()
            opened.pop_all()

    def _open(self, endpoint: SourceEndpoint, context: IntakeContext) -> Source:
        kind = source_kind_called(endpoint.kind)
        if isinstance(kind, ReplayableKind):
            return ReplayableSource(kind, endpoint, context, self._added)
        assert isinstance(kind, LoggedKind)
        return LoggedSource(kind, endpoint, context, self._added, self._config.segment_bytes)

    def _make_sequencer(self) -> Sequencer:
        names = list(self.sources)
        sequence = SequenceWriter(Path(self._config.sequence), names, self._config.known_block)
        for text in sequence.dropped:
            self._notice(text)
        sequencer = Sequencer(
            sequence,
            epoch_seconds=self._config.epoch_seconds,
            epoch_bytes=min(EPOCH_BYTES, self._config.limits.max_log // 4),
            notice=self._notice,
            on_delivered=lambda done: self.sources[sequence.names[done.source]].delivered(done),
        )
        self._count_sequenced(sequence)
        ends = ends_by_source(sequence.ends)
        for number, name in enumerate(sequence.names):
            if name in self.sources:
                for first, end, size in self.sources[name].resume(ends.get(number, {}), BLOCK_BYTES):
                    sequencer.appended(number, first, end, size)
        self._numbers = {name: number for number, name in enumerate(sequence.names)}
        return sequencer

    def _count_sequenced(self, sequence: SequenceWriter) -> None:
        """Restore in sources without a log how much of theirs is in the sequence and may not be processed yet."""
        named = ((number, self.sources.get(name)) for number, name in enumerate(sequence.names))
        sources = {number: source for number, source in named if isinstance(source, ReplayableSource)}
        if not sources:
            return
        with suppress(LogCorruptError):  # A damaged block is reported when it is needed.
            for block in sequence.read_from(sequence.start):
                # A block has one size for all its ranges together.
                messages = sum(each.end - each.first for each in block.ranges)
                for each in block.ranges:
                    if each.source in sources:
                        sources[each.source].sequenced(each, block.size * (each.end - each.first) // messages)

    def _added(self, source: str, first: int, end: int, size: int, lane: int) -> None:
        self.sequencer.appended(self._numbers[source], first, end, size, lane)

    async def start(self) -> dict[str, tuple[str, int]]:
        """Start the intakes of all sources, and return the addresses of those that listen."""
        addresses = {}
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._on_loop_error)
        self._syncing = [loop.create_task(source.keep_on_disk()) for source in self.sources.values()]
        self._syncing.append(loop.create_task(self.sequencer.keep_on_disk()))
        for name, source in self.sources.items():
            if (address := await source.intake.start()) is not None:
                addresses[name] = address
        return addresses

    def _on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Report that connections cannot be accepted, for lack of a resource; asyncio retries after a second."""
        error = context.get("exception")
        if isinstance(error, OSError) and "accept" in context["message"]:
            self._cannot_accept.begin(
                f"New connections cannot be accepted for now: {error.strerror}. They have to wait; open "
                f"ones are not affected."
            )
            self._cannot_accept.end("New connections can be accepted again.")
        else:
            loop.default_exception_handler(context)

    def ends(self) -> dict[str, int]:
        """Return for each source the index after its last message; with lanes, the sum of these."""
        return {name: source.end for name, source in self.sources.items()}

    def status(self) -> dict[str, SourceStatus]:
        """Return the status of the sources."""
        return {name: source.status() for name, source in self.sources.items()}

    async def force(self) -> int:
        """Sync all blocks and their messages to disk; return the number of the first that may not be durable."""
        end = self.sequencer.handed_out  # Later blocks may still be truncated by the next run.
        await asyncio.gather(self.sequencer.force(), *(source.force() for source in self.sources.values()))
        return end

    async def drain(self) -> None:
        """Stop listening, read what has already arrived, close the connections and sync the logs."""
        if self._drained is None:
            self._drained = asyncio.get_running_loop().create_task(self._drain())
        await asyncio.shield(self._drained)

    def close(self) -> None:
        """Close the logs."""
        for task in self._syncing:
            task.cancel()
        self._unfinished.close()
        self._cannot_accept.close()
        for source in self.sources.values():
            source.close()
        self.sequencer.close()

    async def _drain(self) -> None:
        await asyncio.gather(*(source.intake.drain() for source in self.sources.values()))
        for source in self.sources.values():
            source.sync()
        self.sequencer.sync()
