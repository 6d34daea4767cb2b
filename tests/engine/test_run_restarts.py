"""Attempts of the query, one after the other, without Spark: all other parts are real, and a seed decides what happens.

Epochs end while tasks continue, some tasks fall behind, messages arrive late, and replaced tasks do not know it yet.
"""

import asyncio
import json
import random
import threading
from bisect import bisect_right
from collections import Counter, defaultdict, deque
from contextlib import suppress
from functools import partial
from itertools import count

import pyarrow as pa
import pytest
from tests.engine.blocks import inputs_in

from wallaroo.engine.delivery import egress as egress_module
from wallaroo.engine.delivery.collector import Collector, Expected, _Task
from wallaroo.engine.delivery.egress import Egress
from wallaroo.engine.directory.commit import Commits
from wallaroo.engine.directory.home import Home
from wallaroo.engine.stages import tasks as tasks_module
from wallaroo.engine.stages import worker as worker_module
from wallaroo.engine.stages.shuffle import end_before
from wallaroo.engine.stages.state_files import StateFiles
from wallaroo.engine.stages.tasks import FirstTask, LaterTask, TaskSettings
from wallaroo.engine.stages.worker import Worker
from wallaroo.engine.transport.task_channel import ENOUGH, SAVED, TaskChannel, Welcome
from wallaroo.ingress import block_sequence as sequence_module
from wallaroo.ingress import sequencer as sequencer_module
from wallaroo.ingress.block_sequence import SequenceWriter
from wallaroo.ingress.lanes import Lane
from wallaroo.ingress.log.format import LogCorruptError
from wallaroo.ingress.log.writer import LogWriter
from wallaroo.ingress.sequencer import FRAME, ReaderChannel, Sequencer
from wallaroo.topology.model import REPLAYS

MESSAGES = 250
WORDS = ["ant", "ape", "bee!", "bat", "cow", "cat!", "dog", "emu"]
FIRST = -1


def parse(text):
    word, number = text.split()
    return word, int(number)


def count_letter(message, state):
    state["n"] = state.get("n", 0) + 1
    if message[0].endswith("!"):
        raise ValueError(message)
    return (*message, state["n"]), state["n"] % 3 == 0


def sum_up(message, state):
    state["sum"] = state.get("sum", 0) + message[-1]
    return (*message, state["sum"]), True


def letter_of(message):
    return message[0][0]


def word_of(message):
    return message[0]


def computed(messages, levels):
    """Return the expected outputs, and which messages fail."""
    outputs, failed, numbers, sums = [], [], Counter(), Counter()
    for message in messages:
        if levels and message[0].endswith("!"):
            failed.append(repr(message))
            continue
        output = message
        if levels > 0:
            numbers[letter_of(message)] += 1
            output = (*output, numbers[letter_of(message)])
        if levels > 1:
            sums[word_of(message)] += output[-1]
            output = (*output, sums[word_of(message)])
        outputs.append(output)
    return outputs, failed


class ToDriver(TaskChannel):
    """A task's connection to the driver without a socket: what is sent is there at once."""

    def __init__(self, life, level, partition):
        self._take = partial(life.run.collector._take, _Task(life.name, level, partition, connection=None, note=""))
        self._unasked = 0
        self._note = lambda kind, block: life.run.handed_in.append((kind, block, (level, partition)))
        heads = life.run.commits.heads.items()
        self.welcome = Welcome(
            life.start, {name: head for name, head in heads if life.owner(name) == (level, partition)}
        )

    def _send(self, kind, block, body):
        self._note(kind, block)
        self._take(kind, block, bytes(body))


class Task:
    """One task of an attempt, which takes one row at a time."""

    def __init__(self, life, level, partition):
        self.inbox = deque()
        self._life, self._level = life, level
        states = life.run.folder / "states"
        settings = TaskSettings(None, "", "", life.name, life.tasks, life.tasks, life.run.levels, str(states))
        driver, self._worker = ToDriver(life, level, partition), Worker(life.run.plan)
        self._files = StateFiles(states, driver.welcome.heads)
        if level == FIRST:
            self._task = FirstTask(settings, partition, driver, self._worker)
        else:
            self._task = LaterTask(settings, level, partition, driver, self._worker, self._files)

    def close(self):
        # It may be in the middle of a log, to find out where a dead letter came from.
        self._worker.begin_task({})
        self._files.close()

    def work(self):
        for batch in self._task.take(self._blocks() if self._level == FIRST else self.inbox.popleft()):
            for partition in range(self._life.tasks if self._level + 1 < self._life.run.levels else 0):
                self._life.all[self._level + 1, partition].inbox.append(batch.slice(partition, 1))

    def _blocks(self):
        """Return the row that the source makes of what it has got: one block, or several that came meanwhile."""
        number, length, _ = FRAME.unpack_from(self.inbox[0])
        if length < 0:
            self.inbox.popleft()
            return pa.record_batch({"block": [end_before(number)], "content": [b""]})
        contents = []
        while self.inbox and FRAME.unpack_from(self.inbox[0])[1] >= 0 and len(contents) < self._life.most_in_a_row:
            contents.append(self.inbox.popleft()[FRAME.size :])
        return pa.record_batch({"block": [number], "content": [b"".join(contents)]})


class Life:
    """An attempt of the query, with any number of tasks."""

    names = count()

    def __init__(self, run):
        self.run = run
        self.name = f"life {next(self.names)}"
        self.tasks = run.tasks or run.chance.randint(1, 3)
        self.most_in_a_row = run.chance.randint(1, 4)
        self.start = run.egress.begin(
            self.name, Expected(self.tasks if run.levels else 1, self.tasks * max(run.levels, 1), self.owner)
        )
        levels = range(FIRST, run.levels)
        self.all = {(level, at): Task(self, level, at) for level in levels for at in range(self.tasks)}
        self._slow = run.chance.choice([None, *self.all.values()])
        self._lines = [ReaderChannel(self.all[FIRST, at].inbox.append, lambda: None) for at in range(self.tasks)]
        for at, line in enumerate(self._lines):
            run.sequencer.join(self.name, at, self.tasks, self.start, line)

    def owner(self, name):
        return self.run.plan.layout.states[name[0]].level, self.run.plan.placement(name[0], self.tasks)(name[1])

    def work(self):
        ready = [task for task in self.all.values() if task.inbox and not self._rests(task)]
        if ready:
            self.run.chance.choice(ready).work()

    def _rests(self, task):
        return task is self._slow and self.run.chance.random() < 0.9

    def close(self):
        for task in self.all.values():
            task.close()

    def leave(self):
        for at, line in enumerate(self._lines):
            self.run.sequencer.left(at, line)


class Run:
    """A run of the application, as far as its directory matters; also what the egress sends, and reports."""

    numbers = count()

    def __init__(self, plan, folder, chance, log, to_come, sent, *, epoch_bytes=None, tasks=None):
        self.tasks = tasks
        self.plan, self.folder, self.chance = plan, folder, chance
        self.log, self.to_come, self.sent = log, to_come, sent
        self.levels = len(plan.layout.levels)
        self.sequence = SequenceWriter(folder / "sequence", ["p", REPLAYS])
        plan.sources, plan.inputs = self.sequence.names, inputs_in(folder, self.sequence.names)
        epoch_bytes = epoch_bytes or chance.choice([300, 1 << 30])
        self.sequencer = Sequencer(self.sequence, epoch_seconds=600, epoch_bytes=epoch_bytes, notice=_unexpected)
        self.told, self.notices, self.handed_in = deque(), [], []
        self.commits = Commits(folder / "commit", folder / "states")
        self.home = Home(folder / "home")
        self.home.open()
        self.collector = Collector(str(folder / f"socket {next(self.numbers)}"), "token", self.commits)
        self.egress = Egress(
            plan, self.home, self.collector, self.commits, self, threading.Event(), self.notices.append
        )
        self.egress._connections = dict.fromkeys(self.egress._connections, self)
        self.past = self.life = Life(self)
        self._sequence_from(self.sequence.ends.get(Lane(0), 0))

    def _sequence_from(self, first):
        if first < self.log.end:
            self.sequencer.appended(0, first, self.log.end, 10 * (self.log.end - first))

    def deliver(self, block):
        self.sent.append((block.number, b"".join(block.bodies).decode()))
        block.delivered()

    def delivered(self, block):
        self.told.append(partial(self.sequencer.delivered, block))

    def committed(self, block, ends):
        self.told.append(partial(self.sequencer.committed, block))
        self.told.append(partial(self.log.delete_before, ends.get("p", 0)))

    def end_epoch_of(self, block):
        self.told.append(partial(self.sequencer.end_epoch, block))

    def close(self):
        """Do nothing: it is not a connection."""

    def accept(self):
        first = self.log.end
        number = min(len(self.to_come), self.chance.randint(1, 5))
        if number:
            self.log.append([self.to_come.popleft() for _ in range(number)])
        self._sequence_from(first)

    def work(self):
        self.life.work()

    def send(self):
        self.egress._step()

    def tell(self):
        if self.told:
            self.told.popleft()()

    def work_in_vain(self):
        with suppress(OSError, LogCorruptError):  # What it needs may no longer exist.
            if self.past is not self.life:
                self.past.work()

    def end_epoch(self):
        self.sequencer.end_epoch()

    def start_again(self):
        if self.chance.random() < 0.5:
            self.life.leave()
        if self.past is not self.life:
            self.past.close()
        self.past, self.life = self.life, Life(self)

    def end(self):
        for life in {self.past, self.life}:
            life.close()
        self.egress.close()
        self.collector.close()
        self.home.close()
        self.sequence.close()

    @property
    def _all_is_sequenced(self):
        return not self.to_come and self.sequence.ends.get(Lane(0), 0) == self.log.end

    @property
    def is_done(self):
        return self._all_is_sequenced and self.commits.block == self.sequence.end

    @property
    def has_sent_all(self):
        nothing_waits = not self.told and not any(task.inbox for task in self.life.all.values())
        return self._all_is_sequenced and self.egress.metrics.blocks == self.sequence.end and nothing_waits


EVENTS = {
    Run.accept: 8,
    Run.work: 70,
    Run.work_in_vain: 5,
    Run.send: 15,
    Run.tell: 15,
    Run.end_epoch: 1,
    Run.start_again: 0.2,
    Run.end: 0.05,
}
"""What may come next, and how often."""


def _unexpected(text):
    raise AssertionError(text)


@pytest.fixture(autouse=True)
def small_limits(monkeypatch):
    """Have borders of all kinds come up often."""
    limits = {"BLOCK_BYTES": 50, "WINDOW_BYTES": 250, "_MAX_RANGES": 4, "_MAX_WAITING_BYTES": 150}
    for name, limit in limits.items():
        monkeypatch.setattr(sequencer_module, name, limit)
    monkeypatch.setattr(sequencer_module, "INTERVAL_SECONDS", 0.0)
    monkeypatch.setattr(sequence_module, "SEGMENT_BYTES", 300)
    monkeypatch.setattr(worker_module, "_KEPT_AT_MOST", 300)
    monkeypatch.setattr(tasks_module, "_MUCH_STATE_BYTES", 500)
    monkeypatch.setattr(egress_module, "_POLL_SECONDS", 0.0)


@pytest.mark.parametrize("levels", [0, 1, 2])
@pytest.mark.parametrize("seed", range(1, 5))
def test_everything_is_output_once_and_in_order_in_any_attempt(make, tmp_path, levels, seed):
    chance = random.Random(seed)
    messages = [(chance.choice(WORDS), number) for number in range(MESSAGES)]
    states = [
        make.state_step(count_letter, state="letters", key=letter_of),
        make.state_step(sum_up, state="words", key=word_of),
    ]
    # All in one run, as far as states are concerned: unsaved changes stay visible.
    plan = make.plan(make.pipeline("p", make.step(parse), *states[:levels]), buckets=8, run_id="run")
    to_come = deque(f"{word} {number}".encode() for word, number in messages)
    sent = []

    async def go():
        with LogWriter(tmp_path / "p", segment_bytes=300) as log:
            start = partial(Run, plan, tmp_path, chance, log, to_come, sent)
            run = start()
            while not run.is_done:
                [event] = chance.choices(list(EVENTS), list(EVENTS.values()))
                event(run)
                if event is Run.end:
                    run = start()
            run.end()

    asyncio.run(go())
    numbers = [number for number, _ in sent]
    assert numbers == sorted(set(numbers))
    outputs, failed = computed(messages, levels)
    found = [eval(line) for _, text in sent for line in text.splitlines()]
    key = [lambda _: None, letter_of, word_of][levels]
    assert by_key(found, key) == by_key(outputs, key)
    letters = tmp_path / "home" / "dead-letters.jsonl"
    lines = letters.read_text().splitlines() if letters.exists() else []
    assert sorted(json.loads(line)["message"] for line in lines) == sorted(failed)


@pytest.mark.parametrize("seed", range(1, 5))
def test_an_epoch_ends_when_much_state_has_changed_and_only_once(make, tmp_path, monkeypatch, seed):
    # So that several tasks have changed much before the report of the first arrives.
    monkeypatch.setattr(worker_module, "_KEPT_AT_MOST", 80)
    monkeypatch.setattr(tasks_module, "_MUCH_STATE_BYTES", 300)
    monkeypatch.setattr(sequencer_module, "WINDOW_BYTES", 1000)
    chance = random.Random(seed)
    plan = make.plan(
        make.pipeline("p", make.step(parse), make.state_step(sum_up, state="words", key=word_of)), buckets=8
    )
    to_come = deque(f"{chance.choice(WORDS)} {number}".encode() for number in range(4 * MESSAGES))

    async def go():
        with LogWriter(tmp_path / "p", segment_bytes=300) as log:
            run = Run(plan, tmp_path, chance, log, to_come, [], epoch_bytes=1 << 30, tasks=3)
            usual = {Run.accept: 8, Run.work: 70, Run.send: 15, Run.tell: 4}
            while not run.has_sent_all:
                [event] = chance.choices(list(usual), list(usual.values()))
                event(run)
            run.end()
            return run.handed_in, run.egress.metrics.commits

    handed_in, commits = asyncio.run(go())
    ends = sorted({block for kind, block, _ in handed_in if kind == SAVED})
    asked = Counter((task, bisect_right(ends, block)) for kind, block, task in handed_in if kind == ENOUGH)
    assert commits > 1
    assert set(asked.values()) == {1}
    # There are no other requests for the end of an epoch, and each of these has an effect.
    assert {epoch for _, epoch in asked} == set(range(len(ends)))


def by_key(outputs, key):
    found = defaultdict(list)
    for output in outputs:
        found[key(output)].append(output)
    return found
