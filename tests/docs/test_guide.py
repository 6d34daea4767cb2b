"""The guide's program, run as the guide says, and its tables of options."""

import json
import random
import re
from collections import defaultdict
from pathlib import Path

import pytest

from wallaroo.cli.machida import main
from wallaroo.cli.options import MEANINGLESS

from ..examples.readme import blocks  # noqa: TID252 - tests are not installed
from ..system.harness import Machida, Receiver, dead_letters, send  # noqa: TID252

GUIDE = (Path(__file__).parents[2] / "docs" / "guide.md").read_text()


@pytest.fixture
def program(tmp_path):
    """Write the guide's program to `rooms.py`, as it tells its readers to."""
    path = tmp_path / "rooms.py"
    path.write_text("\n\n".join(blocks(GUIDE, "python")))
    return path


ROOMS = ["hall", "kitchen", "cellar", "attic"]


def reports(number):
    """Return reports with some readings that are not plausible; the last of each room is its highest."""
    choose = random.Random(number)
    some = []
    for _ in range(number):
        degrees = [choose.choice([round(choose.uniform(-49, 59), 1), -60.0, 70.0]) for _ in range(choose.randrange(4))]
        some.append({"room": choose.choice(ROOMS), "degrees": degrees})
    return some + [{"room": room, "degrees": [60.0]} for room in ROOMS]


def plausible(report):
    return [degrees for degrees in report["degrees"] if -50 <= degrees <= 60]


def rising(some):
    """Return for each room the lines that report a new highest temperature."""
    found = defaultdict(list)
    for report in some:
        for degrees in plausible(report):
            if degrees > max(found[report["room"]], default=-100):
                found[report["room"]].append(degrees)
    return {room: [f"{room} {degrees}" for degrees in found[room]] for room in found if found[room]}


def test_the_program_does_what_the_guide_says(program, tmp_path):
    sink = Receiver()
    options = re.search(r"^machida --application-module rooms (--in .*? --out .*)$", GUIDE, re.MULTILINE)[1].split()
    options[1], options[3] = "127.0.0.1:0,127.0.0.1:0", sink.address
    home = tmp_path / "home"
    run = Machida("--application-module", program.stem, *options, "--resilience-dir", home, folder=tmp_path)
    try:
        run.wait_until_ready()
        some = reports(2000)
        broken = {"room": "hall"}
        send(run.address("reports"), [json.dumps(report) for report in [*some[:1000], broken, *some[1000:]]])
        expected = rising(some)
        size = sum(len(line) + 1 for lines in expected.values() for line in lines)
        run.wait_until(lambda: sink.size >= size, "the highest temperatures")
        # The last reading of each room has been computed, and so have those in front of it.
        counts = {room: sum(len(plausible(report)) for report in some if report["room"] == room) for room in expected}
        send(run.address("questions"), list(counts))
        answers = {room: f"{room} {count} readings" for room, count in counts.items()}
        size += sum(len(answer) + 1 for answer in answers.values())
        run.wait_until(lambda: sink.size >= size, "the answers")
        run.stop()
        received = defaultdict(list)
        for line in sink.everything().decode().splitlines():
            received[line.partition(" ")[0]].append(line)
        assert received == {room: [*lines, answers[room]] for room, lines in expected.items()}
        [letter] = dead_letters(home)
        assert (letter["step"], letter["position"], letter["error"]) == ("one by one", 1000, "KeyError: 'degrees'")
        fields = re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`time`|`\w+`.*?) \|", GUIDE, re.MULTILINE)))
        assert set(letter) <= set(fields)
    finally:
        run.clean_up()
        sink.clean_up()


def test_classes_do_what_the_functions_do(program):
    rooms = {}
    exec(compile(program.read_text(), program, "exec"), rooms)
    report = {"room": "hall", "degrees": [19.5, 21]}
    readings = rooms["one_by_one"](report)
    assert rooms["OneByOne"]().compute_multi(report) == readings
    assert [rooms["RoomOf"]().partition(reading) for reading in readings] == ["hall", "hall"]
    assert [rooms["room_of"](reading) for reading in readings] == ["hall", "hall"]
    assert type(rooms["RoomBuilder"]().build()) is rooms["Room"]


def options_in(section):
    """Return the options in the first column of a section's tables."""
    cells = re.findall(r"^\| (.*?) \|", section, re.MULTILINE)
    return set(re.findall(r"`(--?[a-z][a-z-]*)", " ".join(cells)))


def test_every_option_of_machida_is_in_the_tables_and_no_other():
    section = GUIDE.partition("### Options of machida")[2].partition("\n## ")[0]
    ours, _, original = section.partition("Start scripts written for the original")
    known = {option: parameter.opts for parameter in main.params for option in parameter.opts}
    assert options_in(original) == {option for long in MEANINGLESS for option in known[long]}
    # What the help does not list, and the original did not have, is not for users yet.
    unlisted = {option for parameter in main.params if getattr(parameter, "hidden", False) for option in parameter.opts}
    assert options_in(ours) == set(known) - options_in(original) - unlisted | {"--help", "-h"}
