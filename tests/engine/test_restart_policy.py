"""When a query that has failed is started again, and when the run ends."""

import threading

import pytest

from wallaroo.engine import restart_policy
from wallaroo.engine.directory.home import Home
from wallaroo.engine.failure_kinds import Failure, Kind
from wallaroo.engine.restart_policy import RestartPolicy
from wallaroo.errors import ApplicationError, WallarooError

DISK_FULL = Failure(Kind.DISK_FULL, "No space left on device")
LOST = [
    Failure(Kind.LOST, "Python worker exited unexpectedly (crashed)"),
    Failure(Kind.INGRESS, "The process that accepts connections does not answer on /tmp/x (gone)."),
]
# Text of a user's error, in an error of ours.
FINAL = Failure(Kind.FINAL, "Pipeline 'p' failed: OSError: [Errno 28] No space left on device")


def calls(number):
    return {f"call {each}": f"step {each}" for each in range(number)}


@pytest.fixture
def interrupted():
    return threading.Event()


@pytest.fixture
def notices():
    return []


@pytest.fixture
def run(tmp_path, interrupted, notices, monkeypatch):
    monkeypatch.setattr(restart_policy, "_LONGEST_PAUSE", 0.001)
    return RestartPolicy(Home(tmp_path), [], interrupted, notices.append)


def test_a_full_disk_is_waited_for_however_often(run, notices):
    assert all(run.wait(DISK_FULL, done=5) for _ in range(20))
    (notice,) = notices
    assert notice.startswith("A disk is full: ")
    assert notice.endswith("nothing is lost.")
    run.progress(5)
    assert len(notices) == 1
    run.progress(6)
    assert notices[1:] == ["The application has resumed."]
    # The next time it is reported again.
    assert run.wait(DISK_FULL, done=6)
    assert notices[2:] == [notice]


def test_the_full_disk_is_named_and_room_is_waited_for(run, notices, tmp_path, monkeypatch, interrupted):
    monkeypatch.setattr(restart_policy, "ENOUGH_ROOM", 1 << 60)
    threading.Timer(0.3, interrupted.set).start()
    assert not run.wait(DISK_FULL, done=0)
    assert notices == [
        f"The disk that holds {tmp_path} is full. The application waits for room there; nothing is lost."
    ]
    interrupted.clear()
    threading.Timer(0.3, monkeypatch.undo).start()
    assert run.wait(DISK_FULL, done=0)


def test_a_failure_on_a_full_disk_need_not_name_the_cause(run, notices, monkeypatch):
    monkeypatch.setattr(restart_policy, "ENOUGH_ROOM", 1 << 60)
    monkeypatch.setattr(restart_policy, "_TRY_ANYWAY_SECONDS", 0.0)
    failure = Failure(Kind.FINAL, "Mkdirs failed to create file:/checkpoint")
    assert run.is_transient(failure)
    assert all(run.wait(failure, done=0) for _ in range(4))
    assert "is full" in notices[0]
    # But a disk that is always nearly full does not excuse failures forever.
    with pytest.raises(WallarooError, match="Mkdirs failed"):
        run.wait(failure, done=0)


@pytest.mark.parametrize("failure", LOST)
def test_workers_that_keep_dying_end_the_run_after_some_tries(run, notices, failure):
    for done in range(3):
        # Each time some blocks are delivered, the retries are counted again.
        assert all(run.wait(failure, done) for _ in range(4))
    with pytest.raises(WallarooError, match="The application cannot continue"):
        run.wait(failure, done=2)
    assert [notice.endswith("It resumes from the last commit; nothing is lost.") for notice in notices[::2]] == [
        True
    ] * 3
    assert notices[1::2] == ["The application has resumed."] * 2


def test_the_tries_start_over_with_each_message_that_is_found_to_be_fatal(run):
    for found in range(10):
        assert all(run.wait(LOST[0], done=0, fatal_calls=calls(found)) for _ in range(4))
    # Those that are known already make no difference.
    assert all(run.wait(LOST[0], done=1, fatal_calls=calls(found)) for found in (9, 9, 9, 10, 10, 10, 10))
    with pytest.raises(WallarooError, match="The application cannot continue"):
        run.wait(LOST[0], done=1, fatal_calls=calls(10))


def test_fatal_messages_are_reported_when_they_are_found_and_too_many_end_the_run(run, notices):
    for found in range(1, 10):
        for _ in range(2):
            assert run.wait(LOST[0], done=0, fatal_calls=calls(found))
    told = "A message has killed its worker twice, at step {}: it becomes a dead letter."
    assert [notice for notice in notices if "killed" in notice] == [told.format(number) for number in range(9)]
    with pytest.raises(WallarooError, match="10 messages in a row have killed their workers, the last at step 9"):
        run.wait(LOST[0], done=0, fatal_calls=calls(10))


def test_a_full_disk_is_waited_for_as_often_as_it_takes_and_uses_up_no_tries(run, monkeypatch):
    monkeypatch.setattr(restart_policy, "_LONGEST_PAUSE", 0.0)
    assert all(run.wait(DISK_FULL, done=0) for _ in range(2000))
    assert all(run.wait(LOST[0], done=0) for _ in range(4))
    with pytest.raises(WallarooError):
        run.wait(LOST[0], done=0)


def test_what_spark_lost_for_want_of_room_is_waited_for_though_it_does_not_say_so(run, notices, tmp_path, monkeypatch):
    monkeypatch.setattr(restart_policy, "is_full", lambda folder: folder == tmp_path)
    assert all(run.wait(LOST[0], done=0) for _ in range(20))
    assert notices == [
        f"A disk is full: {LOST[0].text}. The application waits for room there; nothing is lost.",
    ]
    monkeypatch.undo()
    monkeypatch.setattr(restart_policy, "_LONGEST_PAUSE", 0.001)
    assert all(run.wait(LOST[0], done=0) for _ in range(4))
    with pytest.raises(WallarooError):
        run.wait(LOST[0], done=0)


def test_other_failures_end_the_run(run, notices):
    assert not run.is_transient(FINAL)
    with pytest.raises(WallarooError, match="The application cannot continue: Pipeline 'p' failed"):
        run.wait(FINAL, done=0)
    assert notices == []


def test_a_program_that_has_to_be_changed_ends_the_run_with_a_code_of_its_own(run, notices, monkeypatch):
    # Even if there is something else to wait for.
    monkeypatch.setattr(restart_policy, "ENOUGH_ROOM", 1 << 60)
    monkeypatch.setattr(restart_policy, "is_full", lambda _: True)
    failure = Failure(Kind.APPLICATION, "State 'totals' cannot be loaded.")
    assert not run.is_transient(failure)
    with pytest.raises(ApplicationError) as refused:
        run.wait(failure, done=0, learned=True)
    assert str(refused.value) == (
        "State 'totals' cannot be loaded.\n"
        "Accepted messages are kept: once the program is fixed, the same command resumes from there."
    )
    assert refused.value.exit_code == 3
    assert notices == []


def test_any_number_of_fatal_messages_is_left_out_as_long_as_blocks_are_delivered_in_between(run):
    for found in range(1, 30):
        # None of them is committed yet, so all of them are passed again.
        assert run.wait(LOST[0], done=found, fatal_calls=calls(found))


def test_where_something_was_learned_nothing_is_waited_for(run, monkeypatch, interrupted):
    monkeypatch.setattr(restart_policy, "_LONGEST_PAUSE", 600.0)
    # Messages of as many tasks as there may be fatal messages: which they are takes three deaths each.
    assert all(run.wait(LOST[0], done=0, learned=True) for _ in range(30))
    with pytest.raises(WallarooError):
        run.wait(LOST[0], done=0, learned=True)
    run.progress(1)
    interrupted.set()
    assert not run.wait(LOST[0], done=1, learned=True)


def test_what_keeps_outputs_from_being_recorded_is_reported_once(run, notices):
    for _ in range(3):
        run.hold_up("No space left on device")
    run.progress(1)
    assert notices == [
        "A disk is full: No space left on device. The application waits for room there; nothing is lost.",
        "The application has resumed.",
    ]


def test_each_cause_of_a_disruption_is_reported_and_its_end_once(run, notices):
    assert run.wait(LOST[0], done=0)
    run.hold_up("No space left on device")
    run.progress(1)
    run.progress(2)
    assert len(notices) == 3
    assert notices[0].startswith("Processing failed: ")
    assert notices[1].startswith("A disk is full: ")
    assert notices[2] == "The application has resumed."


def test_a_run_that_is_asked_to_stop_does_not_wait(run, interrupted):
    interrupted.set()
    assert not run.wait(DISK_FULL, done=0)
    assert not run.wait(LOST[0], done=0)
