"""What tasks hand in to the driver, over real sockets."""

import socket
import threading

import pytest

from wallaroo.engine.delivery.hand_ins import Epoch, Expected, HandIns
from wallaroo.engine.directory.commit import Commits
from wallaroo.engine.stages.state_store import Place, StoredHead
from wallaroo.engine.transport.hand_in import FRAME, HELLO, HandIn
from wallaroo.errors import WallarooError

TOKEN = "secret"
HEAD = StoredHead(b"[1]", {1: Place("file", 0)})


def owner(name):
    return 0, name[1] % 2


@pytest.fixture
def commits(tmp_path):
    made = Commits(tmp_path / "commit", tmp_path / "states")
    made.commit(5, {("s", 0): HEAD, ("s", 1): HEAD, ("s", 2): HEAD}, {})
    return made


@pytest.fixture
def hand_ins(tmp_path, commits):
    made = HandIns(tmp_path / "socket", TOKEN, commits, Expected(outputs=2, saves=2, owner=owner))
    made.begin("now")
    yield made
    made.close()


@pytest.fixture
def task(hand_ins):
    """Return a function that makes the line of a task."""
    lines = []

    def make(partition, *, attempt="now", token=TOKEN, level=0):
        lines.append(HandIn(hand_ins.address, token, attempt, level, partition))
        return lines[-1]

    yield make
    for line in lines:
        line.close()


def test_a_task_is_told_where_to_begin_and_what_is_in_its_buckets(task):
    assert task(0).welcome == (5, {("s", 0): HEAD, ("s", 2): HEAD})
    assert task(1).welcome == (5, {("s", 1): HEAD})


def test_a_block_is_complete_when_all_have_handed_in(hand_ins, task):
    one, two = task(0), task(1)
    two.output(5, b"two")
    two.output(6, b"later")
    assert hand_ins.next("now", 5, 0.05) is None
    one.output(5, b"one")
    assert hand_ins.next("now", 5, 10) == [b"one", b"two"]
    assert hand_ins.next("now", 6, 0.05) is None


def test_tasks_end_when_all_have_saved_and_it_is_committed(hand_ins, task):
    ended = []

    def save(partition):
        line = task(partition)
        line.saved(7, {("s", partition): HEAD}, [{"n": partition}])
        ended.append(partition)

    threads = [threading.Thread(target=save, args=[partition]) for partition in (0, 1)]
    for thread in threads:
        thread.start()
    epoch = hand_ins.next("now", 7, 10)
    assert isinstance(epoch, Epoch)
    assert (epoch.block, set(epoch.heads)) == (7, {("s", 0), ("s", 1)})
    assert sorted(letter["n"] for letter in epoch.letters) == [0, 1]
    assert not ended
    hand_ins.release(7)
    for thread in threads:
        thread.join(10)
    assert sorted(ended) == [0, 1]


def test_what_an_earlier_attempt_hands_in_is_not_taken(hand_ins, task):
    old = task(0)
    old.output(5, b"old")
    hand_ins.begin("again")
    old.output(5, b"old")
    task(0, attempt="again").output(5, b"new")
    task(1, attempt="again").output(5, b"new")
    assert hand_ins.next("now", 5, 10) is None
    assert hand_ins.next("again", 5, 10) == [b"new", b"new"]


def test_a_task_says_why_it_fails(hand_ins, task):
    task(0).failed(WallarooError("The log is damaged."))
    task(1).failed(ValueError(3))
    hand_ins._changed.acquire()
    hand_ins._changed.wait_for(lambda: len(hand_ins.failures) == 2, 10)
    hand_ins._changed.release()
    assert sorted(hand_ins.failures) == [(False, "ValueError(3)"), (True, "The log is damaged.")]


@pytest.mark.parametrize(
    "bytes_sent",
    [b"nonsense" * 100, FRAME.pack(HELLO, 0, 2) + b"{}", FRAME.pack(HELLO, 0, 1 << 31), FRAME.pack(3, 0, 2) + b"{}"],
)
def test_whoever_makes_no_sense_is_not_listened_to(hand_ins, bytes_sent):
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(hand_ins.address)
        stranger.sendall(bytes_sent)
        stranger.shutdown(socket.SHUT_WR)
        stranger.settimeout(10)
        assert stranger.recv(100) == b""


def test_without_the_token_nothing_is_told(task):
    with pytest.raises(ConnectionError):
        task(0, token="guessed")
