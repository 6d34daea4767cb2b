"""A source whose messages branch, over real sockets: what is chosen goes to its receiver, the rest is summed up."""

import random
from collections import defaultdict

from click.testing import CliRunner

from wallaroo.cli.wallaroo import main

from .harness import dead_letters, message_of, send


def some_readings(number):
    choose = random.Random(number)
    return [(f"room{choose.randrange(20)}", each, choose.randrange(100)) for each in range(number)]


def chosen(readings):
    """Return what the receivers of normal readings and of alarms have to get."""
    normal = [reading for reading in readings if 0 < reading[2] < 50 or reading[2] >= 90]
    return text(normal), text(reading for reading in readings if reading[2] >= 50)


def sums(readings):
    """Return the running sum of each room: each reading, and its correction right behind it."""
    totals, lines = defaultdict(int), defaultdict(list)
    for room, number, degrees in readings:
        for each in (degrees, -1) if degrees % 10 == 0 else (degrees,):
            totals[room] += each
            lines[room].append(f"{room} {number} {totals[room]}")
    return lines


def text(readings):
    return "".join("{} {} {}\n".format(*reading) for reading in readings).encode()


def by_room(data):
    lines = defaultdict(list)
    for line in data.decode().splitlines():
        lines[line.split()[0]].append(line)
    return lines


def size_of(lines):
    return sum(len(line) + 1 for some in lines.values() for line in some)


def as_sent(readings):
    return ["{} {} {}".format(*reading) for reading in readings]


def test_branches_and_chosen_sinks(machida, receiver, tmp_path):
    normal, alarms, summed = receivers = [receiver() for _ in range(3)]
    command = ["--application-module", "routing", "--in", "127.0.0.1:0", "--resilience-dir", tmp_path / "home"]
    command += ["--out", ",".join(each.address for each in receivers)]
    readings = some_readings(6000)
    first, second = readings[:4000], readings[4000:]

    # Of what the first run reads, all that has 99 degrees is sent where there is no sink.
    run = machida(*command, BROKEN="1").wait_until_ready()
    send(run.address("Readings"), ["print", *as_sent(first)])
    refused = [reading for reading in first if reading[2] == 99]
    good, loud = chosen([reading for reading in first if reading[2] != 99])
    run.wait_until(lambda: normal.size >= len(good) and alarms.size >= len(loud), "the first readings")
    run.wait_until(lambda: summed.size >= size_of(sums(first)), "their sums")
    run.wait_until(lambda: "parsed once" in run.output, "what was printed")
    run.wait_until(lambda: len(dead_letters(tmp_path / "home")) == len(refused), "the dead letters")
    run.stop()
    assert run.output.count("parsed once") == 1
    letters = dead_letters(tmp_path / "home")
    assert [message_of(letter) for letter in letters] == refused
    assert {letter["place"] for letter in letters} == {"choose 1"}
    assert [letter["position"] for letter in letters] == [number + 1 for _, number, _ in refused]
    assert "there is no sink 'nobody' to choose; the sinks are 'normal', 'alarms'" in letters[0]["error"]
    assert (b"".join(normal.connections), b"".join(alarms.connections)) == (good, loud)

    # The second run, which is repaired, gets them back at the place where they failed.
    replay = ["dead-letters", "replay", "--resilience-dir", str(tmp_path / "home"), "--all"]
    assert CliRunner().invoke(main, replay).exit_code == 0
    mended = machida(*command).wait_until_ready()
    send(mended.address("Readings"), as_sent(second))
    all_good, all_loud = chosen(readings)
    mended.wait_until(lambda: normal.size >= len(all_good) and alarms.size >= len(all_loud), "all readings")
    mended.wait_until(lambda: summed.size >= size_of(sums(readings)), "all sums")
    mended.stop()

    for sink, data, before in ((normal, all_good, good), (alarms, all_loud, loud)):
        got = sink.everything()
        assert got.startswith(before)
        assert sorted(got.splitlines()) == sorted(data.splitlines())
        # But for the letters, which come when they are replayed, the order is that of the input.
        late = set(text(refused).splitlines())
        assert [line for line in got.splitlines() if line not in late] == [
            line for line in data.splitlines() if line not in late
        ]
    assert by_room(summed.everything()) == sums(readings)
    assert len(dead_letters(tmp_path / "home")) == len(refused)
