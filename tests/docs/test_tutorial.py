"""The tutorial's program: stage by stage as the page grows it, and at the end run as the page says."""

import json
import random
import re
import sys
import types
from collections import defaultdict
from pathlib import Path

import pytest
from tests.processes import environment, run_python

from wallaroo import testing

from ..examples.readme import blocks  # noqa: TID252 - tests are not installed
from ..system.harness import Machida, Receiver, dead_letters, send  # noqa: TID252

DOCS = Path(__file__).parents[2] / "docs"
TUTORIAL = (DOCS / "tutorial.md").read_text()
FORMATS = (DOCS / "reference" / "wire-formats.md").read_text()
MIGRATE = (DOCS / "how-to" / "migrate.md").read_text()

TEST_FILE = "# test_rooms.py\n"
REPAIR = "# the repaired step\n"
CHAINED = "# chained.py\n"


def pieces(until=None):
    """Return the pieces of `rooms.py`, in order, up to a heading of the page; the repair comes after all of them."""
    page = TUTORIAL if until is None else TUTORIAL.partition(f"\n## {until}\n")[0]
    assert until is None or page != TUTORIAL, until
    return [block for block in blocks(page, "python") if not block.startswith((TEST_FILE, REPAIR, CHAINED))]


def files_of_tests():
    return [block for block in blocks(TUTORIAL, "python") if block.startswith(TEST_FILE)]


def write_program(folder, until=None):
    path = folder / "rooms.py"
    path.write_text("\n\n".join(pieces(until)))
    return path


def load(path):
    module = types.ModuleType(path.stem)
    exec(compile(path.read_text(), path, "exec"), vars(module))
    return module


@pytest.fixture
def program(tmp_path):
    """Write the whole program to `rooms.py`, as the page tells its readers to."""
    return write_program(tmp_path)


def shown_below(heading):
    """Return the lines that the page shows in a section."""
    section = TUTORIAL.partition(f"\n{heading}\n")[2]
    assert section, heading
    return blocks(section, "text")[0].splitlines()


def a_day(rooms):
    """Return all messages that the tutorial's own source makes."""
    generator = rooms.OneDay()
    made = [generator.initial_value()]
    while (following := generator.apply(made[-1])) is not None:
        made.append(following)
    return made


def machida_options(first, module="rooms"):
    """Return the options of the page's first command for the module, which begin with the option `first`."""
    return re.search(rf"^\$ machida --application-module {module} ({first} .*)$", TUTORIAL, re.MULTILINE)[1].split()


def test_the_first_pipeline_makes_its_own_messages(tmp_path):
    path = write_program(tmp_path, until="State")
    readings = [reading for report in a_day(load(path)) for reading in plausible(report)]
    expected = [f"{room} {degrees}" for room, degrees in zip(["hall", "kitchen"] * 12, readings, strict=True)]
    sink = Receiver()
    options = machida_options("--out")
    options[1] = sink.address
    run = Machida("--application-module", path.stem, *options, folder=tmp_path)
    try:
        run.wait_until_ready()
        run.wait_until(lambda: sink.size >= sum(len(line) + 1 for line in expected), "all readings")
        run.stop()
        received = sink.everything().decode().splitlines()
        assert received == expected
        shown = shown_below("### Run it")
        assert received[: len(shown)] == shown
        assert f"and so on until `{received[-1]}`" in TUTORIAL
    finally:
        run.clean_up()
        sink.clean_up()


def test_the_state_reports_the_records_of_the_day(tmp_path, monkeypatch):
    rooms = load(write_program(tmp_path, until="Test it"))
    monkeypatch.setitem(sys.modules, "rooms", rooms)  # Messages are pickled, and pickle looks for their class there.
    reports = a_day(rooms)
    lines = b"".join(testing.run(rooms.application_setup, reports, encoded=True)).decode().splitlines()
    by_room = defaultdict(list)
    for line in lines:
        by_room[line.partition(" ")[0]].append(line)
    assert by_room == rising(reports)
    assert shown_below("## State") == [by_room[room][-1] for room in ("hall", "kitchen")]
    assert f"there are {len(lines)} lines" in TUTORIAL


def test_a_chained_pipeline_reports_the_same_records(tmp_path):
    path = write_program(tmp_path)
    [chained] = [block for block in blocks(TUTORIAL, "python") if block.startswith(CHAINED)]
    (tmp_path / "chained.py").write_text(chained)
    expected = rising(a_day(load(path)))
    sink = Receiver()
    options = machida_options("--out", "chained")
    options[1] = sink.address
    run = Machida("--application-module", "chained", *options, folder=tmp_path)
    try:
        run.wait_until_ready()
        size = sum(len(line) + 1 for lines in expected.values() for line in lines)
        run.wait_until(lambda: sink.size >= size, "the records of the day")
        run.stop()
        received = defaultdict(list)
        for line in sink.everything().decode().splitlines():
            received[line.partition(" ")[0]].append(line)
        assert received == expected
        assert f"the same {sum(map(len, expected.values()))} lines" in TUTORIAL
    finally:
        run.clean_up()
        sink.clean_up()


@pytest.mark.parametrize(("number", "until"), [(0, "Test it"), (1, None)], ids=["one pipeline", "two pipelines"])
def test_the_tests_on_the_page_pass(number, until, tmp_path):
    write_program(tmp_path, until)
    assert len(files_of_tests()) == 2
    (tmp_path / "test_rooms.py").write_text(files_of_tests()[number])
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "test_rooms.py"]
    done = run_python(*command, cwd=tmp_path, env=environment())
    assert "1 passed" in done.stdout


def test_the_repaired_step_takes_a_report_without_readings(program):
    rooms = load(program)
    with pytest.raises(KeyError):
        rooms.one_by_one({"room": "hall"})
    [repair] = [block for block in blocks(TUTORIAL, "python") if block.startswith(REPAIR)]
    exec(repair, vars(rooms))
    assert rooms.one_by_one({"room": "hall"}) == []
    assert rooms.one_by_one({"room": "hall", "degrees": [20]}) == [rooms.Reading("hall", 20)]


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


def test_the_program_does_what_the_tutorial_says(program, tmp_path):
    sink = Receiver()
    options = machida_options("--in")
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
        # The last reading of each room has been computed, and so have those before it.
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
        fields = re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`time`|`\w+`.*?) \|", FORMATS, re.MULTILINE)))
        assert set(letter) <= set(fields)
    finally:
        run.clean_up()
        sink.clean_up()


def test_classes_do_what_the_functions_do(program):
    rooms = load(program)
    exec("\n\n".join(blocks(MIGRATE, "python")), vars(rooms))
    report = {"room": "hall", "degrees": [19.5, 21]}
    readings = rooms.one_by_one(report)
    assert rooms.OneByOne().compute_multi(report) == readings
    assert [rooms.RoomOf().partition(reading) for reading in readings] == ["hall", "hall"]
    assert [rooms.room_of(reading) for reading in readings] == ["hall", "hall"]
    assert type(rooms.RoomBuilder().build()) is rooms.Room
