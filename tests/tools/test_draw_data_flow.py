"""The picture of a message's path: up to date, readable, and confirmed by the code."""

import itertools
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from tests.processes import run_python
from tools.draw_data_flow import FLOW, Code, drawn, placed, read_flow, untrue

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "draw_data_flow.py"
SOURCE = ROOT / "src" / "wallaroo"

MODULES = {
    "intake": "from wallaroo.log import Writer\nclass Intake:\n    def take(self):\n        self.log.append(b'')\n",
    "log": "class Writer:\n    def append(self, data): ...\n    def __init__(self):\n        self.end = 0\n",
    "task": (
        "from wallaroo import wire\nfrom wallaroo.wire import pack\nfrom wallaroo.log import Writer\n"
        "def run(log):\n    return pack(log.end)\n"
    ),
    "sink": "from wallaroo.wire import unpack\nclass Sink:\n    def send(self):\n        unpack()\n",
    "wire": "def pack(x): ...\ndef unpack(): ...\n",
}
PATH = """
[[station]]
name = "sender"
kind = "end"
[[station]]
name = "intake"
kind = "ours"
texts = ["takes", "messages in"]
code = ["intake:Intake.take"]
[[station]]
name = "task"
kind = "yours"
code = ["task:run"]
[[station]]
name = "sink"
kind = "ours"
code = ["sink:Sink"]
[[station]]
name = "log"
kind = "disk"
below = "intake"
code = ["log:Writer"]
[[hand_over]]
start = "sender"
end = "intake"
label = "TCP"
uses = []
[[hand_over]]
start = "intake"
end = "log"
uses = [["intake:Intake", "log:Writer.append"]]
[[hand_over]]
start = "log"
end = "task"
label = "in <blocks>"
uses = [["task:run", "log:Writer.end"]]
[[hand_over]]
start = "task"
end = "sink"
uses = [["task:run", "wire:pack"], ["sink:Sink", "wire:unpack"]]
[frame]
text = "many tasks"
stations = ["task"]
uses = [["sink:Sink.send", "wire:unpack"]]
"""


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "wallaroo"
    folder.mkdir()
    for name, text in MODULES.items():
        (folder / f"{name}.py").write_text(text)
    return folder


@pytest.fixture
def flow(tmp_path):
    path = tmp_path / "flow.toml"
    path.write_text(PATH)
    return path


def run(*arguments):
    return run_python(TOOL, *arguments, code=None)


def test_the_picture_is_up_to_date_and_confirmed_by_the_code():
    done = run("--check")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_path_that_the_code_confirms_has_no_problems(source, flow):
    assert list(untrue(Code(source), read_flow(flow))) == []


@pytest.mark.parametrize(
    ("module", "old", "new", "problem"),
    [
        ("intake", "class Intake", "class Renamed", "intake: there is no intake:Intake.take"),
        ("intake", "def take", "def renamed", "intake: there is no intake:Intake.take"),
        ("log", "def append", "def add", "intake -> log: there is no log:Writer.append"),
        ("intake", ".append(", ".add(", "intake -> log: intake:Intake does not use log:Writer.append"),
        ("intake", "import Writer", "import Reader", "intake -> log: intake:Intake does not use log:Writer.append"),
        ("task", "log.end", "0", "log -> task: task:run does not use log:Writer.end"),
        ("task", "import pack", "import other", "task -> sink: task:run does not use wire:pack"),
        ("sink", "unpack()", "0", "many tasks: sink:Sink.send does not use wire:unpack"),
    ],
)
def test_what_the_code_no_longer_confirms_is_reported(source, flow, module, old, new, problem):
    path = source / f"{module}.py"
    path.write_text(path.read_text().replace(old, new))
    assert problem in list(untrue(Code(source), read_flow(flow)))


@pytest.mark.parametrize("left_out", [0, 1])
def test_uses_that_do_not_lead_from_one_station_to_the_other_are_reported(source, flow, left_out):
    known = read_flow(flow)
    last = known.hand_overs[-1]
    shorter = replace(last, uses=last.uses[:left_out] + last.uses[left_out + 1 :])
    changed = replace(known, hand_overs=(*known.hand_overs[:-1], shorter))
    problem = "task -> sink: the uses do not lead from one to the other"
    assert list(untrue(Code(source), changed)) == [problem]


def test_a_module_that_is_gone_and_a_picture_out_of_date_fail(source, flow, tmp_path):
    picture = tmp_path / "picture.svg"
    places = ("--flow", flow, "--source", source, "--picture", picture)
    done = run("--check", *places)
    assert done.returncode == 1
    assert re.search("out of date: run python tools/draw_data_flow.py", done.stdout)
    assert run(*places).returncode == 0
    assert run("--check", *places).returncode == 0
    flow.write_text(PATH.replace('"TCP"', '"UDP"'))
    assert run("--check", *places).returncode == 1
    (source / "sink.py").unlink()
    done = run(*places)
    assert done.returncode == 1
    assert "sink: there is no sink:Sink" in done.stdout


def test_every_arrow_and_every_station_is_drawn(flow):
    picture = ET.fromstring(drawn(read_flow(flow)))
    words = [each.text for each in picture.iter() if each.text]
    assert {"sender", "intake", "takes", "messages in", "task", "sink", "log", "many tasks", "in <blocks>"} <= set(
        words
    )
    assert sum(each.get("class") == "way" for each in picture.iter()) == 4


def test_no_station_covers_another_or_a_label():
    flow = read_flow(FLOW)
    boxes = list(placed(flow).values())
    for one, other in itertools.combinations(boxes, 2):
        beside = one.right < other.x or other.right < one.x
        assert beside or one.bottom < other.y or other.bottom < one.y, (one.station.name, other.station.name)
    places = placed(flow)
    for over in flow.hand_overs:
        start, end = places[over.start], places[over.end]
        if over.label:
            assert end.middle - start.right > 7 * len(over.label)
