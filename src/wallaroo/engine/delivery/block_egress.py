"""The end of a block's way: its outputs, in order, to the sinks, each block once; and the commit of an epoch."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

from wallaroo.connectors.batch import Body
from wallaroo.engine.delivery.egress import Egress
from wallaroo.engine.delivery.hand_ins import Epoch, HandIns
from wallaroo.engine.directory.commit import Commits
from wallaroo.engine.transport.chunks import load_records
from wallaroo.engine.transport.letters import Letter
from wallaroo.engine.transport.shares import BLOCK, DEAD_LETTERS, PRINTED, Chunk, unpack_share
from wallaroo.ingress.sequence import unpack_block

_LOOK_SECONDS = 0.2
_TRY_AGAIN_SECONDS = 0.5


class BlockEgress(Egress):
    """Delivers block after block, in a thread of its own."""

    def attach(self, hand_ins: HandIns, commits: Commits, told: Callable[[str, int], None]) -> None:
        """Take blocks from `hand_ins` from now on; `told` hears of what is delivered and what is committed."""
        self._hand_ins = hand_ins
        self._commits = commits
        self._told = told
        self._next = commits.block
        self._printed = commits.block
        self._halt = threading.Event()
        self._attempt = ""
        self._committing = threading.Lock()
        self._at_hand: list[bytes] | Epoch | None = None
        self.held_up: OSError | None = None
        """Why the block at hand cannot be recorded, as long as it cannot."""
        self._furthest = commits.block

    def begin(self, attempt: str) -> int:
        """Start over from the last commit with a new life of the query; return the block where it begins.

        A block that is being delivered is not waited for: its receiver may take its time.
        """
        with self._committing:
            self._hand_ins.begin(attempt)
            return self._commits.block

    def run(self) -> None:
        """Deliver until halted."""
        while not self._halt.is_set():
            try:
                self._step()
            except OSError as error:
                # The block at hand is tried again; the run says what it waits for.
                self.held_up = error
                self._halt.wait(_TRY_AGAIN_SECONDS)
            except Exception as error:  # noqa: BLE001 - the run raises it, in a thread that somebody looks at
                self.failure = error
                return

    def _step(self) -> None:
        if self._attempt != self._hand_ins.attempt:
            self._attempt = self._hand_ins.attempt
            self._next = self._commits.block
            self._at_hand = None
        if self._at_hand is None:
            self._at_hand = self._hand_ins.next(self._attempt, self._next, _LOOK_SECONDS)
        taken = self._at_hand
        if isinstance(taken, Epoch):
            self._commit(taken)
        elif taken is not None:
            chunks = [chunk for share in taken for chunk in unpack_share(share)]
            self.deliver_block(self._next, sorted(chunks, key=lambda chunk: (chunk.route, chunk.part)))
            self._next += 1
            if self._next > self._furthest:
                # What is computed again after a failure is no progress.
                self._furthest = self._next
                self.batches += 1
            self._told("delivered", self._next)
        self._at_hand = None
        self.held_up = None

    def _commit(self, epoch: Epoch) -> None:
        with self._committing:
            if epoch.attempt != self._hand_ins.attempt:
                return  # The next life of the query has begun from the commit before.
            if epoch.letters:
                self._dead_letters.add(epoch.letters)
                epoch.letters.clear()  # They are kept once, also where the commit has to be tried again.
            self._commits.commit(epoch.block, epoch.heads)
        self._told("committed", epoch.block)
        self._hand_ins.release(epoch.block)

    def deliver_block(self, number: int, chunks: Iterable[Chunk]) -> None:
        """Deliver the chunks of a block, which are in order for each route."""
        self._ledger.make_room()
        bodies: defaultdict[str, list[Body]] = defaultdict(list)
        numbers: Counter[str] = Counter()
        letters: list[Letter] = []
        messages = 0
        for chunk in chunks:
            if chunk.route == BLOCK:
                messages = sum(each.end - each.first for each in unpack_block(chunk.body).ranges)
            elif chunk.route >= 0:
                bodies[self._routes[chunk.route]].append(chunk.body)
                numbers[self._routes[chunk.route]] += chunk.number
            elif chunk.route == PRINTED and number >= self._printed:
                self._notice(bytes(chunk.body).decode(errors="replace").rstrip("\n"))
            elif chunk.route == DEAD_LETTERS:
                letters += load_records(chunk.body)
        self._printed = max(self._printed, number + 1)
        if not self._ledger.has("dead letters", number):
            self._policy.judge(letters, messages, number)
            if letters:
                self._dead_letters.add(letters)
                self._ledger.record("dead letters", number)
        for name, of_sink in bodies.items():
            if not self._ledger.has(name, number):
                self._connections[name].deliver(self._batch(name, number, of_sink))
                self._ledger.record(name, number)
                self.messages_out += numbers[name]

    def halt(self) -> None:
        """Have `run` return."""
        self._halt.set()
        self._hand_ins.wake()
