"""What tasks hand in to the driver, over real sockets."""

import contextlib
import threading

import pytest

from wallaroo import peers
from wallaroo.engine.delivery.hand_ins import Epoch, Expected, HandIns
from wallaroo.engine.directory.commit import Commits
from wallaroo.engine.stages.state_store import Place, StoredHead
from wallaroo.engine.transport.hand_in import FRAME, HELLO, HandIn
from wallaroo.errors import WallarooError

TOKEN = "secret"
HEAD = StoredHead(b"[1]", {1: Place("file", 0)})


def is_closed(connection):
    """Wait until the other side closes a connection, in good order or not."""
    connection.settimeout(60)
    try:
        return connection.recv(100) == b""
    except ConnectionResetError:
        return True


def owner(name):
    return 0, name[1] % 2


@pytest.fixture
def commits(tmp_path):
    made = Commits(tmp_path / "commit", tmp_path / "states")
    made.commit(5, {("s", 0): HEAD, ("s", 1): HEAD, ("s", 2): HEAD}, {})
    return made


@pytest.fixture(params=["on one machine", "between machines"])
def hand_ins(request, tmp_path, commits):
    address = "127.0.0.1:0" if request.param == "between machines" else str(tmp_path / "socket")
    made = HandIns(address, TOKEN, commits, Expected(outputs=2, saves=2, owner=owner))
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
    with peers.dial(hand_ins.address) as stranger:
        stranger.sendall(bytes_sent)
        assert is_closed(stranger)


@pytest.mark.parametrize("token", ["guessed", "", "sécret", 3, None])
def test_without_the_token_nothing_is_told(task, token):
    with pytest.raises(ConnectionError):
        task(0, token=token)


def test_who_says_too_little_is_not_waited_for(hand_ins):
    with peers.dial(hand_ins.address) as stranger:
        stranger.sendall(FRAME.pack(HELLO, 0, 100)[:5])
        assert is_closed(stranger)


def test_many_who_say_nothing_keep_no_task_out(hand_ins, task):
    with contextlib.ExitStack() as opened:
        silent = [opened.enter_context(peers.dial(hand_ins.address)) for _ in range(peers.MOST_STRANGERS + 10)]
        assert is_closed(silent[0])
        assert task(0).welcome.start == 5


def test_a_task_that_is_run_once_more_within_an_epoch_is_not_let_in(hand_ins, task):
    task(0)
    with pytest.raises(ConnectionError):
        task(0)
    hand_ins.begin("again")
    assert task(0, attempt="again").welcome.start == 5
    hand_ins.release(7)
    assert task(0, attempt="again").welcome.start == 5


def test_fewer_tasks_may_share_the_work_from_the_next_attempt_on(hand_ins, task):
    task(0).output(5, b"one of two")
    hand_ins.begin("again", Expected(outputs=1, saves=1, owner=lambda _: (0, 0)))
    assert hand_ins.next("again", 5, 0.05) is None
    alone = task(0, attempt="again")
    assert set(alone.welcome.heads) == {("s", 0), ("s", 1), ("s", 2)}
    alone.output(5, b"all")
    assert hand_ins.next("again", 5, 10) == [b"all"]


def test_large_outputs_arrive_whole(hand_ins, task):
    large = bytes(range(256)) * (1 << 16)
    task(0).output(5, large)
    task(1).output(5, b"")
    assert hand_ins.next("now", 5, 60) == [large, b""]
