"""Workers that die at a message, as real processes without Spark: the message becomes a dead letter where it is."""

import faulthandler
import gc
import os
import pickle
import signal
import sys
import traceback
import warnings

import pytest
from tests.engine.blocks import Blocks

from wallaroo.engine.delivery.worker_deaths import FIRST_STAGE, Death, WorkerDeaths
from wallaroo.engine.directory.commit import Commits
from wallaroo.engine.stages.crash_guard import CallGuard, GuardedTask, WorkerDiedError
from wallaroo.engine.stages.current_message import CurrentMessage
from wallaroo.engine.transport.crash_notes import Care, Note, WorkerNote, call_name, take_note
from wallaroo.topology.model import REPLAYS

PAYLOADS = [f"{'abcd'[number % 4]}{number} {'xyz'[number % 3]}{number}".encode() for number in range(400)]


@pytest.fixture(autouse=True)
def unfreeze():
    """Undo what a worker does to the garbage collector of its process."""
    yield
    gc.unfreeze()


def in_child(run):
    """Run something in a process of its own, and return what it gives, or None if it dies."""
    reading, writing = os.pipe()
    with warnings.catch_warnings(action="ignore"):
        child = os.fork()
    if not child:
        try:
            os.close(reading)
            with os.fdopen(writing, "wb") as pipe:
                pickle.dump(run(), pipe)
        except BaseException:  # noqa: BLE001 - the process ends here, whatever it is
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    return pickle.loads(data) if data else None


class MortalBlocks(Blocks):
    """Computes each epoch in a process of its own, again and again until one survives."""

    def __init__(self, plan, folder, **options):
        super().__init__(plan, folder, **options)
        self.notes = folder / "notes"
        self.notes.mkdir()
        self.died = WorkerDeaths()
        self.number = 0
        self._tasks = {}

    def epoch(self, *blocks):
        """Accept messages, a block for each list of ranges, and compute them up to a commit."""
        for ranges in blocks:
            self.append(*ranges)
        while (survived := in_child(self._life)) is None:
            self.number += 1
            assert self.number < 200, "dies for ever"
            self._take_notes()
        sent, self.letters, self.done = survived
        self.sent.update(sent)
        for name in self.notes.iterdir():
            name.unlink()
        self.commits = Commits(self.folder / "commit", self.folder / "states")
        self.died.forget_before(self.done)

    def _life(self):
        for block in self.sequence.read_from(self.done):
            self.compute(block)
            self.done = block.number + 1
        self.commit()
        return dict(self.sent), self.letters, self.done

    def _take_notes(self):
        """Do what the driver does: it knows which task's connection ended first."""
        level, partition = map(int, (self.notes / "at work").read_text().split())
        name = (self.notes / f"{level} {partition}").read_text()
        note = take_note(self.notes, name)
        self.died.take(Death(level, partition, note))

    def run_first(self, block, partitions):
        reader = block.number % self.partitions
        return self._carefully(FIRST_STAGE, reader, block, lambda: Blocks.run_first(self, block, partitions))

    def run_stage(self, level, partition, block, shares):
        return self._carefully(level, partition, block, lambda: Blocks.run_stage(self, level, partition, block, shares))

    def _carefully(self, level, partition, block, run):
        if (level, partition) not in self._tasks:
            note = WorkerNote(self.notes)
            (self.notes / f"{level} {partition}").write_text(note.name)
            (worker,) = self.workers
            self._tasks[level, partition] = worker, note, self.died.care(level, partition)
        (self.notes / "at work").write_text(f"{level} {partition}")
        return GuardedTask(*self._tasks[level, partition]).run(block.number, run)


def dies(_text):
    os.kill(os.getpid(), signal.SIGKILL)


def leaves(_text):
    os._exit(0)


def raises(text):
    raise WorkerDiedError(text)


class Code:
    """The code of an application that, at one place, calls `end` for a few messages."""

    def __init__(self, at, end):
        self._at = at
        self._end = end

    def called(self, place, text):
        if place == self._at and any(each in text for each in ("x15", "b33")):
            self._end(text)
        return text

    def remember(self, text, texts):
        texts[text] = len(texts) + 1
        self.called("state", text)
        return (text, len(texts)), True

    def remember_again(self, pair, texts):
        texts[self.called("second state", pair[0])] = len(texts) + 1
        return (*pair, len(texts)), True

    def onward(self, pair):
        self.called("onward", pair[0])
        return pair

    def pipeline(self, make):
        """Return all of it."""
        called = self.called
        return make.pipeline(
            "p",
            make.step(named("check", lambda text: called("step", text))),
            make.step(named("split", lambda text: called("multi", text).split()), multi=True),
            make.state_step(self.remember, key=lambda text: called("key", text)[0]),
            make.step(self.onward),
            make.state_step(self.remember_again, state="again", key=lambda pair: pair[0][0]),
            decode=lambda bs: called("decoder", bs.decode()),
            encoders=[lambda pair: f"{called('encoder', pair[0])} {pair[1:]}\n"],
        )


def named(name, function):
    function.__name__ = name
    return function


def told(letters):
    fields = ("step", "place", "key", "source", "position", "positions", "message", "payload")
    return [{name: letter.get(name) for name in fields} for letter in letters]


@pytest.mark.parametrize(
    ("at", "end"),
    [
        ("decoder", dies),
        ("step", leaves),
        ("multi", dies),
        ("key", leaves),
        ("state", dies),
        ("onward", leaves),
        ("second state", dies),
        ("encoder", leaves),
    ],
)
def test_a_message_that_kills_its_process_is_treated_like_one_that_raises(make, tmp_path, at, end):
    expected = Blocks(make.plan(Code(at, raises).pipeline(make)), tmp_path / "raising")
    mortal = MortalBlocks(make.plan(Code(at, end).pipeline(make)), tmp_path / "dying")
    for start in range(0, len(PAYLOADS), 200):
        blocks = [[("p", PAYLOADS[at : at + 50])] for at in range(start, start + 200, 50)]
        for ranges in blocks:
            expected.run(*ranges)
        expected.commit()
        mortal.epoch(*blocks)
    assert mortal.sent == expected.sent
    assert told(mortal.letters) == told(expected.letters)
    # Two deaths for each message, one more for each block in a task, and none when something is only looked up.
    fatal = len(expected.letters)
    assert fatal >= 6
    assert 2 * fatal < mortal.number <= 3 * fatal
    assert mortal.died.fatal_calls() == {}


def test_messages_of_the_same_number_in_other_sources_are_not_taken_for_it(make, tmp_path):
    def check(text):
        if text == "fatal":
            dies(text)
        return text

    first, second = (
        make.pipeline(name, make.step(named("check", check)), port=port) for name, port in (("p", 1), ("q", 2))
    )
    mortal = MortalBlocks(make.plan(first, second), tmp_path)
    mortal.epoch([("p", [b"one", b"two"]), ("q", [b"good", b"fatal"])])
    assert [(letter["source"], letter["position"]) for letter in mortal.letters] == [("q", 1)]
    assert b"".join(mortal.sent.values()).split() == [b"one", b"two", b"good"]
    assert REPLAYS in mortal.plan.sources


def test_a_death_between_calls_is_attributed_to_no_message(tmp_path):
    def run():
        note = WorkerNote(tmp_path)
        (tmp_path / "name").write_text(note.name)
        note.begin(7)
        current = CurrentMessage()
        current.begin(dict, lambda: 17)
        CallGuard({}, note).over(str, "decoder", current)(b"a")
        dies("")

    assert in_child(run) is None
    assert take_note(tmp_path, (tmp_path / "name").read_text()) == Note(7, "", "")


def test_the_note_says_how_python_died(tmp_path, make):
    (worker,) = Blocks(make.plan(make.pipeline("p")), tmp_path / "home").workers

    def run():
        faulthandler.disable()  # That of the test runner.
        note = WorkerNote(tmp_path)
        (tmp_path / "name").write_text(note.name)
        task = GuardedTask(worker, note, Care(frozenset({7}), {}, {}))
        task.run(7, lambda: os.kill(os.getpid(), signal.SIGSEGV))

    assert in_child(run) is None
    assert take_note(tmp_path, (tmp_path / "name").read_text()) == Note(7, "", "Segmentation fault")


def test_a_call_is_fatal_at_the_second_death_in_the_same_task_and_block():
    deaths = WorkerDeaths()
    for level, partition, block, call in [
        (0, 0, 7, "a"),
        (0, 0, 8, "a"),
        (0, 1, 7, "a"),
        (1, 0, 7, "a"),
        (0, 0, 7, "b"),
    ]:
        assert deaths.take(Death(level, partition, Note(block, call, "")))
        deaths.take(Death(level, partition, Note(block, "", "")))
        assert not deaths.take(Death(level, partition, Note(block, "", "")))
        assert deaths.fatal_calls() == {}
    assert deaths.take(Death(0, 0, Note(7, "a", "Aborted")))
    assert list(deaths.fatal_calls().values()) == ["a"]
    assert deaths.care(0, 0) == (frozenset({7, 8}), {7: {"a": "Aborted"}}, {})
    assert deaths.care(0, 1) == (frozenset({7}), {}, {})
    deaths.forget_before(8)
    assert deaths.fatal_calls() == {}
    assert deaths.care(0, 0).blocks == {8}


def test_all_tasks_know_what_is_fatal_in_the_first_stage():
    deaths = WorkerDeaths()
    for _ in range(2):
        deaths.take(Death(FIRST_STAGE, 1, Note(3, "a", "")))
    assert deaths.care(1, 0) == (frozenset(), {}, {3: {"a": ""}})


def test_where_notes_cannot_be_written_the_work_continues(tmp_path):
    for folder in (tmp_path / "nowhere", None):
        note = WorkerNote(folder)
        note.begin(1)
        note.call("a")
        note.no_call()
        assert note.file_for_trace() is None
    assert take_note(tmp_path, note.name) is None
    assert take_note(tmp_path, "../../etc/passwd") is None


def test_a_call_of_any_length_is_distinguished_from_others(tmp_path):
    names = []
    for which in "xy":
        note = WorkerNote(tmp_path)
        note.begin(1)
        note.file_for_trace()
        note.call(call_name("é" * 2000, which))
        names.append(take_note(tmp_path, note.name).call)
    one, other = names
    assert one != other
    assert one[:100] == other[:100] == "é" * 100
