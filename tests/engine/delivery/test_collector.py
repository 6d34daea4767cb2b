"""What tasks send to the driver, over real sockets."""

import contextlib
import errno
import os
import signal
import threading
import warnings

import pytest

from wallaroo import internal_sockets
from wallaroo.engine.delivery.collector import Collector, Epoch, Expected
from wallaroo.engine.delivery.output_budget import STAGE_BYTES
from wallaroo.engine.delivery.worker_deaths import Death, WorkerDeaths
from wallaroo.engine.directory.commit import Commits
from wallaroo.engine.failure_kinds import Failure, Kind
from wallaroo.engine.state_manifest import Place, StoredHead
from wallaroo.engine.transport import task_channel
from wallaroo.engine.transport.crash_notes import NO_CARE, Note, WorkerNote
from wallaroo.engine.transport.task_channel import FRAME, HELLO, TaskChannel
from wallaroo.errors import SavedStateError, WallarooError
from wallaroo.ingress.lanes import Lane

TOKEN = "secret"
HEAD = StoredHead(b"[1]", {1: Place("file", 0)})


def is_closed(connection):
    """Wait until the other side closes a connection, cleanly or not."""
    connection.settimeout(60)
    try:
        return connection.recv(100) == b""
    except ConnectionResetError:
        return True


def owner(name):
    return 0, name[1] % 2


EXPECTED = Expected(outputs=2, saves=2, owner=owner)


@pytest.fixture
def commits(tmp_path):
    made = Commits(tmp_path / "commit", tmp_path / "states")
    made.commit(5, {("s", 0): HEAD, ("s", 1): HEAD, ("s", 2): HEAD}, {})
    return made


@pytest.fixture
def notes(tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    return folder


@pytest.fixture
def deaths():
    return WorkerDeaths()


@pytest.fixture(params=["on one machine", "between machines"])
def collector(request, tmp_path, commits, notes, deaths):
    address = "127.0.0.1:0" if request.param == "between machines" else str(tmp_path / "socket")
    made = Collector(address, TOKEN, commits, deaths, notes)
    made.begin("now", EXPECTED)
    yield made
    made.close()


@pytest.fixture
def task(collector):
    """Return a function that makes the line of a task."""
    lines = []

    def make(partition, *, attempt="now", token=TOKEN, level=0):
        lines.append(TaskChannel(collector.address, token, attempt, level, partition))
        return lines[-1]

    yield make
    for line in lines:
        line.close()


def test_a_task_learns_where_to_start_and_what_is_in_its_buckets(task):
    assert task(0).welcome == (5, {("s", 0): HEAD, ("s", 2): HEAD}, NO_CARE)
    assert task(1).welcome == (5, {("s", 1): HEAD}, NO_CARE)


def test_a_block_is_complete_when_all_have_handed_in(collector, task):
    one, two = task(0), task(1)
    two.output(5, b"two")
    two.output(6, b"later")
    assert collector.next("now", 5, 0.05) is None
    one.output(5, b"one")
    assert collector.next("now", 5, 10) == [b"one", b"two"]
    assert collector.next("now", 6, 0.05) is None


def test_an_epoch_ends_when_all_tasks_have_saved_even_if_some_are_already_beyond_it(collector, task):
    lines = [task(partition) for partition in (0, 1)]
    lines[0].saved(7, {Lane(0): 30, Lane(1): 8, Lane(1, 3): 9}, {("s", 0): HEAD}, [{"n": 0}])
    for line in lines:
        line.output(7, b"behind it")
    lines[0].output(8, b"further")
    assert collector.next("now", 7, 10) == [b"behind it", b"behind it"]
    # It is still in progress, and may not be taken before what is before it has been delivered.
    lines[1].saved(7, {Lane(0): 40, Lane(2): 5, Lane(1, 3): 12}, {("s", 1): HEAD}, [{"n": 1}])
    lines[1].output(8, b"further")
    assert collector.next("now", 6, 0.05) is None
    epoch = collector.next("now", 8, 10)
    assert isinstance(epoch, Epoch)
    assert (epoch.block, set(epoch.heads)) == (7, {("s", 0), ("s", 1)})
    assert epoch.ends == {Lane(0): 40, Lane(1): 8, Lane(1, 3): 12, Lane(2): 5}
    assert sorted(letter["n"] for letter in epoch.letters) == [0, 1]
    collector.release(7)
    assert collector.next("now", 8, 10) == [b"further", b"further"]


def test_a_task_waits_until_there_is_room_for_what_it_hands_in(collector, task):
    one, two = task(0), task(1)
    large = bytes(STAGE_BYTES)
    one.output(5, large)
    ahead = threading.Thread(target=one.output, args=[6, large], daemon=True)
    ahead.start()
    # The first block that is not delivered never waits.
    two.output(5, large)
    assert collector.next("now", 5, 10) == [large, large]
    two.output(6, b"little")
    assert collector.next("now", 6, 0.2) is None
    collector.delivered("an attempt that is over", 6)
    assert collector.next("now", 6, 0.2) is None
    collector.delivered("now", 6)
    assert collector.next("now", 6, 10) == [large, b"little"]
    ahead.join()


def test_a_task_that_waits_for_room_ends_with_its_attempt(collector, task):
    waiting = task(0)
    waiting.wait_for_room(5, 5, STAGE_BYTES)
    ended = threading.Event()

    def wait():
        with pytest.raises(ConnectionError):
            waiting.wait_for_room(9, 9, STAGE_BYTES)
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    assert not ended.wait(0.1)
    collector.begin("again", EXPECTED)
    assert ended.wait(60)


def test_what_an_earlier_attempt_hands_in_is_not_taken(collector, task):
    old = task(0)
    old.output(5, b"old")
    collector.begin("again", EXPECTED)
    with contextlib.suppress(ConnectionError):  # Its connection may be closed already.
        old.output(5, b"old")
    task(0, attempt="again").output(5, b"new")
    task(1, attempt="again").output(5, b"new")
    assert collector.next("now", 5, 10) is None
    assert collector.next("again", 5, 10) == [b"new", b"new"]


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (WallarooError("The log is damaged."), Failure(Kind.FINAL, "The log is damaged.")),
        (SavedStateError("Its class is gone."), Failure(Kind.APPLICATION, "Its class is gone.")),
        (ValueError(3), Failure(Kind.FINAL, "ValueError(3)")),
        (OSError(errno.ENOSPC, "full"), Failure(Kind.DISK_FULL, "[Errno 28] full")),
        (OSError(errno.EDQUOT, "over"), Failure(Kind.DISK_FULL, "[Errno 122] over")),
        (OSError(errno.EFBIG, "large"), Failure(Kind.DISK_FULL, "[Errno 27] large")),
        (OSError(errno.EIO, "broken"), Failure(Kind.LOST, "[Errno 5] broken")),
        (EOFError(), Failure(Kind.LOST, "EOFError()")),
    ],
)
def test_a_task_says_why_it_fails(collector, task, error, failure):
    task(0).failed(error)
    assert collector.first_end(10) == (0, 0, failure, None)


def test_a_task_that_ends_cleanly_is_no_failure(collector, task):
    line = task(0)
    line.done()
    line.close()
    assert collector.first_end(0.2) is None


def dies_at(collector, folder, partition, *, block, call=""):
    """Return a process that takes a task, notes what it is doing, and kills itself on request."""
    reading, writing = os.pipe()
    ready, tell_ready = os.pipe()
    with warnings.catch_warnings(action="ignore"):
        child = os.fork()
    if not child:
        try:
            os.close(writing)  # So that it ends even without that request.
            note = WorkerNote(folder)
            line = TaskChannel(collector.address, TOKEN, collector.attempt, 0, partition, note.name)
            note.begin(block)
            if call:
                note.call(call)
            os.write(tell_ready, line.welcome.care.as_json().__repr__().encode())
            os.read(reading, 1)
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(3)
    care = os.read(ready, 1 << 16).decode()
    for each in (reading, ready, tell_ready):
        os.close(each)

    def die():
        os.write(writing, b"x")
        os.close(writing)
        os.waitpid(child, 0)

    return die, care


def test_the_first_process_to_disconnect_is_the_one_that_died(collector, notes):
    innocent, _ = dies_at(collector, notes, 0, block=7, call="slow")
    culprit, _ = dies_at(collector, notes, 1, block=8, call="fatal")
    culprit()
    first = collector.first_end(10)
    assert (first.partition, first.failure) == (1, None)
    assert first.death == Death(0, 1, Note(8, "fatal", ""))
    innocent()
    assert collector.first_end(10) == first
    collector.begin("again", EXPECTED)
    assert collector.first_end(0.1) is None


def test_no_death_is_counted_after_a_reported_failure(collector, notes, task):
    innocent, _ = dies_at(collector, notes, 0, block=7, call="slow")
    task(1).failed(ValueError(3))
    assert collector.first_end(10).failure is not None
    innocent()
    assert collector.first_end(10).death is None


def test_the_next_attempt_is_careful_with_fatal_calls_until_the_block_is_committed(collector, notes, deaths):
    for life in range(3):
        die, care = dies_at(collector, notes, 0, block=5, call="fatal")
        known = [[], [[5]], [[5]]][life]
        assert care.startswith(repr(known)[:-1] or "[[]")
        die()
        deaths.take(collector.first_end(10).death)
        collector.begin(f"life {life}", EXPECTED)
    assert list(deaths.fatal_calls().values()) == ["fatal"]
    _, care = dies_at(collector, notes, 0, block=6)
    assert care == "[[5], [(5, {'fatal': ''})], []]"
    _, other = dies_at(collector, notes, 1, block=6)
    assert other == "[[], [], []]"
    collector.release(6)
    collector.begin("afterwards", EXPECTED)
    _, care = dies_at(collector, notes, 0, block=6)
    assert care == "[[], [], []]"


@pytest.mark.parametrize(
    "bytes_sent",
    [b"nonsense" * 100, FRAME.pack(HELLO, 0, 2) + b"{}", FRAME.pack(HELLO, 0, 1 << 31), FRAME.pack(3, 0, 2) + b"{}"],
)
def test_a_client_that_sends_invalid_data_is_disconnected(collector, bytes_sent):
    with internal_sockets.dial(collector.address) as stranger:
        stranger.sendall(bytes_sent)
        assert is_closed(stranger)


@pytest.mark.parametrize("token", ["guessed", "", "sécret", 3, None])
def test_without_the_token_nothing_is_answered(task, token):
    with pytest.raises(ConnectionError):
        task(0, token=token)


def test_an_incomplete_hello_is_not_waited_for(collector, monkeypatch):
    monkeypatch.setattr(task_channel, "HELLO_TIMEOUT_SECONDS", 0.2)
    with internal_sockets.dial(collector.address) as stranger:
        stranger.sendall(FRAME.pack(HELLO, 0, 100)[:5])
        assert is_closed(stranger)


def test_silent_connections_do_not_keep_tasks_out(collector, task):
    with contextlib.ExitStack() as opened:
        silent = [
            opened.enter_context(internal_sockets.dial(collector.address))
            for _ in range(internal_sockets.MAX_UNAUTHENTICATED + 10)
        ]
        assert is_closed(silent[0])
        assert task(0).welcome.start == 5


def test_a_task_that_is_retried_alone_is_refused(collector, task):
    task(0)
    with pytest.raises(ConnectionError):
        task(0)
    collector.begin("again", EXPECTED)
    assert task(0, attempt="again").welcome.start == 5


def test_fewer_tasks_may_share_the_work_from_the_next_attempt_on(collector, task):
    task(0).output(5, b"one of two")
    collector.begin("again", Expected(outputs=1, saves=1, owner=lambda _: (0, 0)))
    assert collector.next("again", 5, 0.05) is None
    alone = task(0, attempt="again")
    assert set(alone.welcome.heads) == {("s", 0), ("s", 1), ("s", 2)}
    alone.output(5, b"all")
    assert collector.next("again", 5, 10) == [b"all"]


def test_large_outputs_arrive_whole(collector, task):
    large = bytes(range(256)) * (1 << 16)
    task(0).output(5, large)
    task(1).output(5, b"")
    assert collector.next("now", 5, 60) == [large, b""]
