"""Disks that are full, and disks that have damaged what was on them."""

import shutil
import threading

import pytest

from wallaroo.ingress.log.format import segment_paths, segment_starts

from .harness import machida_command, send
from .small_disk import make_small_disk
from .test_resume import Sequences, expected, received, size


@pytest.mark.timeout(600)
def test_a_full_disk_is_waited_for_and_nothing_is_lost(machida, receiver, tmp_path):
    disk = make_small_disk(tmp_path / "disk")
    app = Sequences(machida, receiver, tmp_path)
    app.home = disk.folder / "home"
    run = app.start("--time-between-checkpoints", "1s", command=disk.command(machida_command()))
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
    run.wait_until(lambda: "The application has resumed." in run.output, "going on")

    # Asked to stop while it waits for room, it stops.
    last, gate = app.hold(run, "gate 2")
    told = run.output.count("is full")
    disk.fill(run)
    gate.touch()

    def noticed():
        disk.fill(run)
        return run.output.count("is full") > told

    run.wait_until(noticed, "noticing that the disk is full again")
    run.stop()
    assert "What was in progress is left to the next run" in run.output
    assert "Traceback" not in run.output
    # Space for the record of what is sent was reserved, so the last message may have left, and its commit not come.
    assert received(app.steps.everything()) in (expected(everything), expected([*everything, last]))
    assert len(app.steps.connections) == 1


def flip_a_bit(path, position):
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


@pytest.mark.timeout(900)
def test_what_a_power_failure_or_a_bad_disk_has_damaged_is_found_and_reported(machida, receiver, tmp_path):
    app = Sequences(machida, receiver, tmp_path)
    run = app.start()
    first = app.messages.stream(["a", "b", "c"], 3000)
    send(run.address("steps"), first)
    run.wait_until(lambda: app.steps.size >= size(first), "the first messages")
    # Each part has keys of its own, so that the lost one is not expected.
    stretches = [app.messages.stream([f"{stretch}-{key}" for key in range(9)], 300) for stretch in range(3)]
    held, gate = app.hold(run, "gate 1")
    for stretch in stretches:
        send(run.address("steps"), stretch)
    run.kill()
    gate.touch()
    sent = app.steps.size

    # What was being written when the power failed is left out; what is damaged elsewhere is named.
    (app.home / "ledger").write_bytes((app.home / "ledger").read_bytes() + b"99")
    *_, sequence = sorted((app.home / "sequence").glob("*.sequence"))
    sequence.write_bytes(sequence.read_bytes() + b"torn")
    log = app.home / "log" / next(path.name for path in (app.home / "log").glob("steps-*"))
    data = segment_paths(log, segment_starts(log)[-1]).data
    flip_a_bit(data, data.read_bytes().index(b"1-4 1 "))
    run = app.launch()
    assert run.exit_code() == 1, run.output
    said = run.output
    assert "messages from 3301 to 3601 do not match their checksum" in run.output
    assert "--skip-damaged" in run.output
    run = app.start("--skip-damaged")
    assert "4 bytes at its end were not written completely" in said + run.output
    assert "continues without 300 messages, 3301 to 3600, that cannot be read" in run.output
    kept = [held, *stretches[0], *stretches[2]]
    run.wait_until(lambda: app.steps.size >= sent + size(kept), "what is left of the log")
    more = app.messages.stream(["a", "b", "c", "wait-not"], 400)
    send(run.address("steps"), more)
    everything = [*first, *kept, *more]
    run.wait_until(lambda: app.steps.size >= size(everything), "more messages")
    run.stop()

    # Without the commit it is unknown where the states are: nothing is changed until it is back.
    commit = app.home / "commit.json"
    content = commit.read_bytes()
    commit.write_bytes(content[:-1])
    run = app.launch()
    assert run.exit_code() == 5, run.output
    assert f"{commit} is damaged, and the state cannot be found without it" in run.output
    commit.write_bytes(content)
    run = app.start()
    last = app.messages.stream(["a", "b", "c", "wait-not", "0-1"], 500)
    send(run.address("steps"), last)
    everything += last
    run.wait_until(lambda: app.steps.size >= size(everything), "the last messages")
    run.stop()
    assert received(app.steps.everything()) == expected(everything)


@pytest.mark.timeout(600)
def test_a_sequence_that_is_lost_after_a_crash_is_reported_and_can_be_made_again(machida, receiver, tmp_path):
    app = Sequences(machida, receiver, tmp_path)
    run = app.start()
    first = app.messages.stream(["a", "b", "c"], 300)
    send(run.address("steps"), first)
    run.wait_until(lambda: app.steps.size >= size(first), "the first messages")
    run.kill()
    shutil.rmtree(app.home / "sequence")
    # Not only the first time, and nothing is made in its place.
    for _ in range(2):
        run = app.launch()
        assert run.exit_code() == 5, run.output
        assert f" on are missing in {app.home / 'sequence'}, and outputs of them may have been sent." in run.output
        assert "Traceback" not in run.output
    run = app.start("--skip-damaged")
    more = app.messages.stream(["a", "b", "c"], 300)
    send(run.address("steps"), more)
    # What was sent before the crash was not committed: its messages are computed again, and sent again.
    run.wait_until(lambda: app.steps.size >= 2 * size(first) + size(more), "all messages")
    run.stop()
    again = b"".join(map(bytes, app.steps.connections[1:]))
    assert received(again) == expected([*first, *more])
