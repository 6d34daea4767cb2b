"""Workers that die at a message, as real processes without Spark: the message becomes a dead letter where it is."""

import fcntl
import os
import pickle
import signal
import sys
import traceback
import warnings
from pathlib import Path

import pytest
from tests.engine.query import Query

from wallaroo.engine.stages.attempts import Attempts, Running
from wallaroo.engine.stages.watch import Watch, WorkerDiedError
from wallaroo.engine.stages.worker import Worker
from wallaroo.engine.transport.chunks import DEAD_LETTERS, load_records
from wallaroo.engine.transport.notes import Attempt, Deaths, NoteWriter, Task, blame, blame_before, forget_deaths

PAYLOADS = [f"{'abcd'[number % 4]}{number} {'xyz'[number % 3]}{number}".encode() for number in range(400)]


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


class MortalWorker:
    """Runs each task in a process of its own, again and again until one survives, as Spark does."""

    def __init__(self, plan, notes):
        self.plan = plan
        self.deaths = 0
        self._notes = notes
        self._stages = 0
        self._batch = 0

    def _run(self, run):
        self._stages += 1
        for number in range(100):
            attempt = Attempt(self._stages, 0, number)
            running = Running(self._batch, attempt)
            worker = Worker(self.plan, attempts=Attempts(str(self._notes), lambda running=running: running))
            done = in_child(lambda worker=worker: run(worker))
            if done is not None:
                return done
            self.deaths += 1
        raise AssertionError("dies for ever")

    def run_source(self, source, start, pieces):
        pieces = list(pieces)
        return self._run(lambda worker: list(worker.run_source(source, start, pieces)))

    def run_group(self, level, group, chunks, store):
        chunks = list(chunks)

        def run(worker):
            done = list(worker.run_group(level, group, chunks, store))
            return done, store

        done, changed = self._run(run)
        store.__dict__.update(changed.__dict__)
        return done

    def end_of_task(self):
        """Take this for the end of a batch."""
        self._batch += 1


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
        if text == "x300":
            raise ValueError(text)
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


def outcome(query):
    """Return all that comes out of some batches: for each sink, and as dead letters."""
    sent, letters = [], []
    for start in range(0, len(PAYLOADS), 100):
        query.append("p", PAYLOADS[start : start + 100])
        for chunk in query.chunks():
            if chunk.route >= 0:
                sent += bytes(chunk.body).decode().splitlines()
            elif chunk.route == DEAD_LETTERS:
                letters += load_records(chunk.body)
    told = ("step", "place", "key", "source", "position", "message", "payload")
    return sent, [{name: letter.get(name) for name in told} for letter in letters]


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
def test_what_kills_its_process_is_as_what_raises_an_error(make, tmp_path, at, end):
    for folder in ("raising", "dying", "notes"):
        (tmp_path / folder).mkdir()
    expected = outcome(Query(make.plan(Code(at, raises).pipeline(make)), tmp_path / "raising"))
    query = Query(make.plan(Code(at, end).pipeline(make)), tmp_path / "dying")
    worker = MortalWorker(query.plan, tmp_path / "notes")
    query.workers = [worker]
    assert outcome(query) == expected
    # Two deaths for each message, at most one more for each task, and none when something is only looked up.
    fatal = len(expected[1]) - 1
    assert fatal >= 6
    assert 2 * fatal < worker.deaths <= 3 * fatal


@pytest.fixture
def died_at(tmp_path):
    """Have a process die in the call, the task and the attempt that are given."""

    def die(task, call, attempt):
        def run():
            note = NoteWriter(tmp_path)
            note.begin(Task((task,), 0), attempt)
            note.call(call)
            os.kill(os.getpid(), signal.SIGKILL)

        assert in_child(run) is None

    return die


def fatal(folder, task):
    return set(Deaths(folder).calls(Task((task,), 0)))


def test_those_that_spark_ends_for_the_fault_of_others_count_for_nothing(tmp_path, died_at):
    for stage in (3, 4, 5):
        died_at("slow", "1 step 1 0", Attempt(stage, partition=1, number=0))
        died_at("fatal", "2 step 1 0", Attempt(stage, partition=0, number=3))
        blame(tmp_path, f"Job aborted: Task 0 in stage {stage}.0 failed 4 times, most recent failure: Lost task 0.3")
    # What they were at is run with care, nevertheless.
    assert Deaths(tmp_path).at(Task(("slow",), 0))
    assert fatal(tmp_path, "slow") == set()
    assert fatal(tmp_path, "fatal") == {"2 step 1 0"}
    assert list(Deaths(tmp_path).steps().values()) == ["2 step 1 0"]


def test_a_call_is_fatal_at_the_second_death_in_the_same_task(tmp_path, died_at):
    for number, (task, call) in enumerate([("one", "a"), ("one", "b"), ("other", "a"), ("one", "a")]):
        assert fatal(tmp_path, "one") == set()
        died_at(task, call, Attempt(1, 0, number))
        blame_before(tmp_path, Attempt(1, 0, number + 1))
    assert fatal(tmp_path, "one") == {"a"}
    assert fatal(tmp_path, "other") == set()
    assert not Deaths(tmp_path).at(Task(("a third",), 0))
    forget_deaths(tmp_path)
    assert not Deaths(tmp_path).at(Task(("one",), 0))
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_lives_is_not_taken_for_dead(tmp_path):
    note = NoteWriter(tmp_path)
    note.begin(Task(("mine",), 0), Attempt(1, 0, 0))
    note.call("a")
    blame_before(tmp_path, Attempt(1, 0, 5))

    def looks():
        forget_deaths(tmp_path)
        return Deaths(tmp_path).at(Task(("mine",), 0)), len(list(tmp_path.iterdir()))

    # Neither by itself, nor by others who look again and again.
    assert looks() == (False, 1)
    assert [in_child(looks) for _ in range(2)] == [(False, 1)] * 2


def test_between_calls_nobody_is_at_fault(tmp_path):
    def run():
        note = NoteWriter(tmp_path)
        note.begin(Task(("task",), 0), Attempt(1, 0, 0))
        watch = Watch({}, note)
        watch.message = lambda: 17
        watch.over(str, "decoder")(b"a")
        os.kill(os.getpid(), signal.SIGKILL)

    for _ in range(2):
        assert in_child(run) is None
    blame_before(tmp_path, Attempt(1, 0, 1))
    assert Deaths(tmp_path).at(Task(("task",), 0))
    assert Deaths(tmp_path).steps() == {}


def test_where_notes_cannot_be_written_the_work_goes_on():
    note = NoteWriter(Path("/nowhere"))
    note.begin(Task(("task",), 0), Attempt(1, 0, 0))
    note.call("a")
    note.no_call()
    note.end()
    assert note.file_for_trace() is None


def test_torn_lines_and_a_folder_that_is_gone_are_no_error(tmp_path, died_at):
    for number in range(2):
        died_at("one", "a", Attempt(1, 0, number))
    (tmp_path / "blamed").write_text("1 0 0\n1 0 1\n\n1 0")
    assert fatal(tmp_path, "one") == {"a"}
    assert Deaths(tmp_path / "gone").steps() == {}
    blame(tmp_path / "gone", "Task 0 in stage 1.0 failed 4 times")


def test_a_note_is_seen_only_when_it_is_locked(tmp_path, monkeypatch):
    seen = []
    lock = fcntl.lockf
    monkeypatch.setattr(
        fcntl, "lockf", lambda *args: (seen.append([p.name[0] for p in tmp_path.iterdir()]), lock(*args))
    )
    NoteWriter(tmp_path)
    assert seen == [["."]]
    (path,) = tmp_path.iterdir()
    assert path.name[0] != "."


def test_the_tasks_of_a_stage_that_runs_again_are_not_taken_for_its_partitions(tmp_path, died_at):
    for number in range(2):
        died_at("one", "a", Attempt(1, 0, number))
    blame(tmp_path, "Task 0 in stage 1.1 failed 4 times")
    assert fatal(tmp_path, "one") == set()


def test_calls_are_counted_for_each_step():
    made = []

    class Note:
        call = staticmethod(made.append)

        def no_call(self):
            """Nothing is to be done."""

    watch = Watch({}, Note())
    watch.message = lambda: 17
    one, other = watch.over(str, "one"), watch.over(str, "other")
    for step in (one, other, one):
        step("a")
    assert made == ["one\t17 1", "other\t17 1", "one\t17 2"]


class GivenUpError(Exception):
    """A job has been given up."""


class JobsWorker(MortalWorker):
    """Gives up a job at the third death in its second stage; what happens then, before the next, is `between`."""

    def __init__(self, plan, notes, between):
        super().__init__(plan, notes)
        self._between = between

    def _run(self, run):
        if self._between is not None and self._stages == 1:
            between, self._between = self._between, None
            self._stages += 1
            for number in range(3):
                running = Running(0, Attempt(self._stages, 0, number))
                worker = Worker(self.plan, attempts=Attempts(str(self._notes), lambda running=running: running))
                assert in_child(lambda worker=worker: run(worker)) is None
            between()
            blame(self._notes, f"Task 0 in stage {self._stages}.0 failed 3 times")
            raise GivenUpError
        return super()._run(run)


def test_what_moves_in_its_chunk_is_not_taken_for_what_was_there_before(make, tmp_path):
    flaky = tmp_path / "flaky"
    flaky.touch()

    def check(text):
        if text == "a1" and flaky.exists():
            raise OSError("service not reachable")
        return text

    def remember(text, texts):
        if text == "a3":
            dies(text)
        texts[text] = 1
        return text, True

    for folder in ("home", "notes"):
        (tmp_path / folder).mkdir()
    step = make.state_step(remember, key=lambda text: text[0])
    pipeline = make.pipeline("p", make.step(named("check", check)), step, encoders=[str], decode=bytes.decode)
    query = Query(make.plan(pipeline), tmp_path / "home")
    query.workers = [JobsWorker(query.plan, tmp_path / "notes", flaky.unlink)]
    query.append("p", [b"a0", b"a1", b"a2", b"a3", b"a4"])
    with pytest.raises(GivenUpError):
        query.chunks(tasks=1)
    query.read.clear()
    letters = [
        letter for chunk in query.chunks(tasks=1) if chunk.route == DEAD_LETTERS for letter in load_records(chunk.body)
    ]
    assert [letter["message"] for letter in letters] == ["'a3'"]
