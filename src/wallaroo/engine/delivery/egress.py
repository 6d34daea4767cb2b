"""The egress: delivers the outputs of blocks to the sinks in order, each block once, and commits epochs."""

from __future__ import annotations

import contextlib
import threading
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter

from wallaroo.connectors.base import SinkConnection, SinkContext
from wallaroo.connectors.output_block import OutputBlock
from wallaroo.connectors.registry import sink_kind
from wallaroo.engine.delivery.collector import Collector, Epoch, Expected
from wallaroo.engine.delivery.dead_letter_file import DeadLetterFile
from wallaroo.engine.delivery.error_policy import ErrorPolicy, OnError
from wallaroo.engine.delivery.ingress_feedback import Progress
from wallaroo.engine.delivery.ledger import Ledger, Part
from wallaroo.engine.delivery.undelivered_blocks import Delivery, UndeliveredBlocks
from wallaroo.engine.delivery.unlisted_keys import UnlistedKeys
from wallaroo.engine.directory.commit import Commits
from wallaroo.engine.directory.home import Home
from wallaroo.engine.metrics import Metrics
from wallaroo.engine.plan import Plan, SinkRoute
from wallaroo.engine.transport.dead_letter_record import Letter, load_records
from wallaroo.engine.transport.shuffle_format import BLOCK, DEAD_LETTERS, PRINTED, UNLISTED_KEYS, Chunk, unpack_share
from wallaroo.ingress.block_sequence import Range, SequencedBlock, unpack_block
from wallaroo.ingress.lanes import Lane
from wallaroo.notices import Notice, Printed

_POLL_SECONDS = 0.2
_RETRY_SECONDS = 0.5
_LAST_SECONDS = 10.0
_DEAD_LETTERS_IN_LEDGER = "dead letters"


class Egress:
    """Delivers blocks in order in a thread of the driver, which owns the connections.

    Sinks may take several blocks before they have delivered the first. A block counts as delivered, and an epoch is
    committed, when all sinks have delivered everything up to it. With `effectively_once`, blocks are sent in frames
    with their numbers, and receivers have to confirm them.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - the parts and options of a run
        self,
        plan: Plan,
        home: Home,
        collector: Collector,
        commits: Commits,
        progress: Progress,
        stopping: threading.Event,
        notice: Notice,
        *,
        effectively_once: bool = False,
        on_error: OnError | None = None,
    ) -> None:
        self._ledger = Ledger(home.ledger)
        self._policy = ErrorPolicy(on_error or OnError())
        self._dead_letters = DeadLetterFile(home.dead_letters, notice)
        self._unlisted_keys = UnlistedKeys(notice)
        self._hand_ins = collector
        self._commits = commits
        self._progress = progress
        collector.on_enough_changed = progress.end_epoch_of
        self._notice = notice
        self._sources = plan.sources
        self._bring_letters = {source for source in plan.sources if plan.brings_letters(source)}
        self._have_lanes = {source for source in plan.sources if plan.has_lanes(source)}
        self._has_memory_of_senders = plan.has_memory_of_senders
        self._undelivered = UndeliveredBlocks(collector.wake)
        self._thread_of_ledger = 0
        """The thread that delivers; sinks that report progress from threads of their own have it recorded there."""
        context = SinkContext(stopping, notice, self._ledger.id, self._make_durable, effectively_once)
        self._connections: dict[str, SinkConnection] = {}
        self._routes: dict[int, str] = {}
        for route in plan.routes:
            if isinstance(route, SinkRoute):
                self._routes[route.number] = self._connect(route, context).name
        self._next = self._printed = self._furthest = commits.block
        self._reported = self._next
        """The blocks before this one have been reported as delivered."""
        self._uncounted: deque[SequencedBlock] = deque()
        """The blocks that sinks have been given and that are not counted as delivered yet."""
        self._epochs: deque[Epoch] = deque()
        """The epochs of this attempt that have ended and wait for their blocks to be delivered."""
        self._on_disk = 0
        """The blocks before this one are durable."""
        self._forcing = threading.Lock()
        self._attempt = ""
        self._committing = threading.Lock()
        self._at_hand: list[bytes] | Epoch | None = None
        self._halt = threading.Event()
        self._thread = threading.Thread(target=self._run, name="wallaroo-egress", daemon=True)
        self.metrics = Metrics()
        self.held_up: OSError | None = None
        """Why the current block cannot be recorded, as long as it cannot."""
        self.failure: BaseException | None = None
        """The error that has stopped the delivery."""

    def _connect(self, route: SinkRoute, context: SinkContext) -> SinkConnection:
        sink = sink_kind(route.sink).connection(route.sink, context)
        # Sinks with the same address share a connection: a receiver such as `nc -l` accepts only one.
        return self._connections.setdefault(sink.name, sink)

    def sum_up(self) -> None:
        """Report repeated errors, and keys that were not listed, when it is time."""
        self._dead_letters.sum_up()
        self._unlisted_keys.sum_up()

    def start(self) -> None:
        """Start delivering, and connect to the receivers, so that a missing one is reported at the start."""
        for connection in self._connections.values():
            threading.Thread(target=connection.connect, daemon=True).start()
        self._thread.start()

    def begin(self, attempt: str, expected: Expected) -> int:
        """Start a new attempt from the last commit; return the block where it starts.

        Does not wait for a block that is being delivered: its receiver may be slow.
        """
        with self._committing:
            self._hand_ins.begin(attempt, expected)
            self._commits.remove_unnamed()
            return self._commits.block

    def close(self) -> None:
        """Stop delivering, and close the connections after everything has been sent."""
        self._halt.set()
        self._hand_ins.wake()
        if self._thread.is_alive():
            self._thread.join(_LAST_SECONDS)
        for connection in self._connections.values():
            connection.close()
        if not self._thread.is_alive():
            # What sinks have delivered last, the next run need not deliver again. An error is known already.
            with contextlib.suppress(Exception):
                self._record_delivered()
        self._dead_letters.close()
        self._unlisted_keys.close()
        self._ledger.close()

    def _run(self) -> None:
        while not self._halt.is_set():
            try:
                self._step()
            except OSError as error:
                # The current block is retried; the run reports what it waits for.
                self.held_up = error
                self._halt.wait(_RETRY_SECONDS)
            except Exception as error:  # noqa: BLE001 - the run re-raises it in the main thread
                self.failure = error
                return

    def _step(self) -> None:
        if self._attempt != self._hand_ins.attempt:
            self._attempt = self._hand_ins.attempt
            self._next = self._reported = self._commits.block
            self._at_hand = None
            self._epochs.clear()
        if self._at_hand is None:
            self._at_hand = self._hand_ins.next(
                self._attempt, self._next, _POLL_SECONDS, lambda: self._undelivered.is_to_settle
            )
        taken = self._at_hand
        if isinstance(taken, Epoch):
            self._epochs.append(taken)
        elif taken is not None:
            chunks = [chunk for share in taken for chunk in unpack_share(share)]
            self.deliver(self._next, sorted(chunks, key=lambda chunk: (chunk.route, chunk.part)))
            self._next += 1
        self._at_hand = None
        self._settle()
        self.held_up = None

    def _settle(self) -> None:
        """Report what all sinks have delivered, and commit the epochs that end before it."""
        self._record_delivered()
        first = self._undelivered.first
        delivered = self._next if first is None else min(self._next, first)
        if delivered > self._reported:
            self._reported = delivered
            self._hand_ins.delivered(self._attempt, delivered)
            self._progress.delivered(delivered)
        while self._epochs and self._epochs[0].block <= delivered:
            self._commit(self._epochs[0])
            self._epochs.popleft()

    def _commit(self, epoch: Epoch) -> None:
        if self._has_memory_of_senders:
            # If a power failure lost a message that is committed, a repeat from its sender would not be recognised.
            self._make_durable(epoch.block - 1)
        with self._committing:
            if epoch.attempt != self._hand_ins.attempt:
                return  # The next attempt has started from the previous commit.
            if epoch.letters:
                # For states that cannot be saved. Their messages have been counted with their blocks.
                self._policy.judge(epoch.letters, 0, ("epoch", epoch.block))
                self._dead_letters.add(epoch.letters)
                self.metrics.failed(epoch.letters)
                epoch.letters.clear()  # They are added once, even if the commit has to be retried.
            ends = {Lane(self._sources[source], lane): end for (source, lane), end in epoch.ends.items()}
            self._commits.commit(epoch.block, epoch.heads, ends)
        self.metrics.committed()
        self._progress.committed(self._commits.block, self._commits.ends)
        self._hand_ins.release(epoch.block)

    def deliver(self, number: int, chunks: Iterable[Chunk]) -> None:
        """Deliver the chunks of a block, which are in order for each route."""
        self._thread_of_ledger = threading.get_ident()
        self._ledger.make_room()
        outputs: defaultdict[str, list[Chunk]] = defaultdict(list)
        letters: list[Letter] = []
        block = SequencedBlock(number, 0, 0)
        for chunk in chunks:
            if chunk.route == BLOCK:
                block = unpack_block(chunk.body)
            elif chunk.route >= 0:
                outputs[self._routes[chunk.route]].append(chunk)
            elif chunk.route == DEAD_LETTERS:
                letters += load_records(chunk.body)
            elif number >= self._printed:
                self._tell(chunk)
        self._printed = max(self._printed, number + 1)
        if not self._ledger.has(_DEAD_LETTERS_IN_LEDGER, number):
            self._keep(letters, block.ranges, number)
        for name, of_sink in outputs.items():
            if not self._ledger.has(name, number) and not self._undelivered.has(name, number):
                for_sink = self._for_sink(name, number, of_sink)
                self._connections[name].deliver(for_sink)
                self._undelivered.add(Delivery(name, number, sum(chunk.number for chunk in of_sink), for_sink.size))
                # The next sink may take long, and a process that is killed then must not repeat this one's.
                self._record_delivered()
        if number >= self._furthest:
            # Blocks that are computed again after a failure are not progress.
            self._furthest = number + 1
            self._uncounted.append(block)
        self._record_delivered()

    def _record_delivered(self) -> None:
        """Record what sinks have delivered, and count the blocks that all of them have."""

        def record(delivery: Delivery) -> None:
            self._ledger.record(delivery.sink, delivery.block)
            self.metrics.sent(delivery.sink, delivery.messages, delivery.size)

        self._undelivered.settle(record)
        first = self._undelivered.first
        while self._uncounted and (first is None or self._uncounted[0].number < first):
            self.metrics.delivered(self._uncounted.popleft(), self._sources)

    def _make_durable(self, number: int) -> None:
        """Have a block synced to disk, if it may not be yet."""
        with self._forcing:
            if number >= self._on_disk:
                self._on_disk = self._progress.force()

    def _tell(self, chunk: Chunk) -> None:
        """Print what a chunk has for the user's screen."""
        if chunk.route == PRINTED:
            self._notice(Printed(bytes(chunk.body).decode(errors="replace").rstrip("\n")))
        elif chunk.route == UNLISTED_KEYS:
            self._unlisted_keys.add(chunk.body)

    def _keep(self, letters: list[Letter], ranges: Sequence[Range], number: int) -> None:
        """Store the dead letters of a block, unless there are so many that the application has to stop."""
        letters = [self._with_range(letter, ranges) for letter in letters]
        if number >= self._furthest:
            # Blocks that are computed again after a failure have been judged already.
            self._policy.judge(letters, sum(each.end - each.first for each in ranges), number)
        if letters:
            self._dead_letters.add(letters)
            self.metrics.failed(letters)
            self._ledger.record(_DEAD_LETTERS_IN_LEDGER, number)

    def _with_range(self, letter: Letter, ranges: Sequence[Range]) -> Letter:
        """Add the range of possible messages to a letter if the exact position of its message is not known."""
        if "position" in letter or "replay_of" in letter:
            return letter
        mine = [each for each in ranges if self._sources[each.source] == letter.get("source")]
        replayed = any(self._sources[each.source] in self._bring_letters for each in ranges)
        if not mine or replayed:
            return letter
        if letter["source"] not in self._have_lanes:
            return {**letter, "positions": _span(mine)}
        by_lane = attrgetter("lane")
        lanes = groupby(sorted(mine, key=by_lane), by_lane)
        return {**letter, "partitions": [{"partition": lane, "positions": _span(some)} for lane, some in lanes]}

    def _record_part(self, sink: str, part: Part) -> None:
        try:
            self._ledger.record_part(sink, part)
        except OSError:
            # On a full disk progress may be missing, which means resending more after a crash. But a reset to zero must
            # be recorded.
            if not part.size:
                raise

    def _for_sink(self, sink: str, number: int, chunks: list[Chunk]) -> OutputBlock:
        """Return a block's outputs for a sink, resumed where a killed run stopped."""

        def note(size: int, checksum: int) -> None:
            record = partial(self._record_part, sink, Part(number, size, checksum))
            if threading.get_ident() == self._thread_of_ledger:
                record()
            else:
                self._undelivered.progressed(sink, record)

        bodies, lengths = [chunk.body for chunk in chunks], [chunk.marks for chunk in chunks]
        outputs = OutputBlock(number, bodies, note, lengths, self._undelivered.reporter(sink))
        _, size, checksum = self._ledger.part(sink, number)
        outputs.resume(size, checksum)
        return outputs


def _span(ranges: Iterable[Range]) -> list[int]:
    """Return the first and the last position in ranges of one lane, which are in order.

    >>> _span([Range(0, 3, 5), Range(0, 9, 12)])
    [3, 11]
    """
    first, *_, last = (position for each in ranges for position in (each.first, each.end - 1))
    return [first, last]
