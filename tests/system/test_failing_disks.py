"""Disks that are full, and disks that have damaged what was on them."""

import threading

import pytest

from wallaroo.ingress.log_format import segment_paths, segment_starts

from .harness import last_batch, machida_command, send
from .small_disk import make_small_disk
from .test_going_on import Sequences, expected, outcome, received, size


@pytest.mark.timeout(600)
def test_a_full_disk_is_waited_for_and_nothing_is_lost(machida, receiver, tmp_path):
    disk = make_small_disk(tmp_path / "disk")
    app = Sequences(machida, receiver, tmp_path)
    app.home = disk.folder / "home"
    run = app.start(command=disk.command(machida_command()))
    first = app.messages.stream(["a", "b", "c"], 3000)
    send(run.address("steps"), first)
    run.wait_until(lambda: app.steps.size >= size(first), "the first messages")

    held, gate = app.hold(run, "gate 1")
    disk.fill(run)
    # Those who send meanwhile have to wait; nothing that is read of them is lost.
    rest = app.messages.stream(["a", "b", "c", "d"], 200_000)
    sender = threading.Thread(target=send, args=(run.address("steps"), rest))
    sender.start()
    gate.touch()
    run.wait_until(lambda: "is full" in run.output, "noticing that the disk is full")
    run.wait_until(lambda: "cannot be written" in run.output, "holding the sender back")
    disk.free(run)
    sender.join()
    everything = [*first, held, *rest]
    run.wait_until(lambda: app.steps.size >= size(everything), "all the rest")
    run.wait_until(lambda: "The application goes on." in run.output, "going on")

    # Asked to stop while it waits for room, it stops.
    _, gate = app.hold(run, "gate 2")
    told = run.output.count("is full")
    disk.fill(run)
    gate.touch()

    def noticed():
        disk.fill(run)
        return run.output.count("is full") > told

    run.wait_until(noticed, "noticing that the disk is full again")
    run.stop()
    assert "The batch under way is left to the next run" in run.output
    assert "Traceback" not in run.output
    assert received(app.steps.everything()) == expected(everything)
    assert len(app.steps.connections) == 1


def empty(path):
    assert path.stat().st_size
    path.write_bytes(b"")


def tear(path):
    path.write_bytes(path.read_bytes()[:-1])


def flip_a_bit(path, position):
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def stop_with_some_left(app, run, name, blocks):
    """Stop while a batch is at work and more has come, in blocks of the log; return the message of the batch."""
    held, gate = app.hold(run, name)
    for block in blocks:
        send(run.address("steps"), block)
    run.ask_to_stop()
    run.wait_until(lambda: "Stopping after the batch" in run.output, "taking note")
    gate.touch()
    run.stop()
    return held


@pytest.mark.timeout(900)
def test_what_a_power_failure_or_a_bad_disk_has_damaged_is_found_and_told(machida, receiver, tmp_path):
    app = Sequences(machida, receiver, tmp_path)
    run = app.start()
    first = app.messages.stream(["a", "b", "c"], 3000)
    send(run.address("steps"), first)
    run.wait_until(lambda: app.steps.size >= size(first), "the first messages")
    # Each block has keys of its own, so that nobody misses the one that is lost.
    blocks = [app.messages.stream([f"{block}-{key}" for key in range(9)], 300) for block in range(3)]
    held = stop_with_some_left(app, run, "gate 1", blocks)
    assert received(app.steps.everything()) == expected([*first, held])

    # The batch is known to have been sent, so it is computed again and not sent again.
    checkpoint, batch = app.home / "checkpoint", last_batch(app.home)
    empty(checkpoint / "commits" / str(batch))
    tear(checkpoint / f"state/0/0/{batch + 1}.changelog")
    empty(checkpoint / "metadata")
    (app.home / "ledger").write_bytes((app.home / "ledger").read_bytes() + b"99")
    log = app.home / "log" / next(path.name for path in (app.home / "log").glob("steps-*"))
    data = segment_paths(log, segment_starts(log)[-1]).data
    flip_a_bit(data, data.read_bytes().index(b"1-4 1 "))
    with pytest.raises(AssertionError) as refused:
        app.start()
    said = str(refused.value)
    assert f"put aside in {app.home / 'damaged'}" in said
    assert str(checkpoint / "commits" / str(batch)) in said
    assert "What is missing is computed again; nothing is lost." in said
    assert "messages from 3301 to 3601 do not match their checksum" in said
    assert "--skip-damaged" in said
    run = app.start("--skip-damaged")
    assert "goes on without 300 messages, 3301 to 3600, which cannot be read" in run.output
    kept = [*blocks[0], *blocks[2]]
    run.wait_until(lambda: len(app.steps.connections[-1]) >= size(kept), "what is left of the log")
    more = app.messages.stream(["a", "b", "c", "wait-not"], 400)
    send(run.address("steps"), more)
    run.wait_until(lambda: len(app.steps.connections[-1]) >= size([*kept, *more]), "more messages")
    held = stop_with_some_left(app, run, "gate 2", [])
    app.steps.everything()
    assert received(app.steps.connections[-1]) == expected([*kept, *more, held])

    # Which messages the last batch had is not known any more: it is made anew, and what it had sent is sent again.
    batch = last_batch(app.home)
    empty(checkpoint / "offsets" / str(batch))
    empty(checkpoint / f"state/0/1/{batch + 1}.changelog")
    run = app.start()
    assert f"What was done from batch {batch} on is done again" in run.output
    last = app.messages.stream(["a", "b", "c", "wait-not", "0-1"], 500)
    send(run.address("steps"), last)
    run.wait_until(lambda: len(app.steps.connections[-1]) >= size([held, *last]), "the last messages")
    run.stop()
    app.steps.everything()
    assert received(app.steps.connections[-1]) == expected([held, *last])
    assert bytes(app.steps.connections[-1]).decode().startswith(outcome(held))
