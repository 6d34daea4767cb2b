"""The text of generated loops, as it is kept beside this file and shown in the document on the design.

After a change on purpose: run this file's tests, and put what they show into `golden/` and into the document.
"""

import linecache
import re
from pathlib import Path

import pytest

import wallaroo
from wallaroo.engine.plan import Plan, new_layout
from wallaroo.engine.stages.outbox import Outbox
from wallaroo.engine.stages.steps import source_line, state_loop

GOLDEN = Path(__file__).parent / "golden"
(DESIGN,) = (Path(__file__).parents[3] / "docs").rglob("design.md")


@wallaroo.decoder
def decode(bs):
    return bs.decode()


@wallaroo.computation("lower case")
def lower(line):
    return line.lower()


@wallaroo.computation_multi("split into words")
def split(line):
    return line.split()


@wallaroo.partition
def by_word(word):
    return word


class Count:
    def __init__(self):
        self.number = 0


@wallaroo.state_computation("count")
def count(word, state):
    state.number += 1
    return (word, state.number), True


@wallaroo.encoder
def encode(counted):
    return f"{counted[0]} => {counted[1]}\n"


@pytest.fixture
def loops():
    """Return the loops of an application, by the names of the files that have their text."""
    ab = wallaroo.ApplicationBuilder("Word Count")
    ab.new_pipeline("words", wallaroo.TCPSourceConfig("127.0.0.1", 7010, decode))
    ab.to(lower).to(split)
    ab.to_state_partition(count, Count, "counts", by_word)
    ab.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", 7002, encode))
    application = ab.build()
    plan = Plan(application, new_layout(application.pipelines, 4))
    outbox = Outbox(plan)
    return {
        "first_stage": source_line(plan, outbox, application.pipelines[0]),
        "state": state_loop(plan, outbox, plan.routes[0]),
    }


@pytest.mark.parametrize("name", ["first_stage", "state"])
def test_the_text_of_a_loop_is_the_one_that_is_kept(loops, name):
    # Where profilers and debuggers find it.
    text = "".join(linecache.getlines(loops[name].__code__.co_filename))
    assert text.rstrip("\n") == (GOLDEN / f"{name}.txt").read_text().rstrip("\n")


def test_the_document_on_the_design_shows_the_same_text():
    section = DESIGN.read_text().partition("\n## A generated loop\n")[2].partition("\n## ")[0]
    shown = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    assert shown == [(GOLDEN / f"{name}.txt").read_text() for name in ("first_stage", "state")]
