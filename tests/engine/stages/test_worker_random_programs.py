"""Random programs give in blocks, with their functions in the loops, what they give in memory.

WALLAROO_TEST_SEEDS=1000 tries more of them.
"""

import gc
import importlib
import os
import random

import pytest
from tests.engine.blocks import Blocks
from tests.random_programs import Program, known_of

from wallaroo.engine.plan import Plan, new_layout
from wallaroo.testing import InMemory

SEEDS = range(1, 1 + int(os.environ.get("WALLAROO_TEST_SEEDS", "12")))
ADDRESSES = ["--out", "127.0.0.1:1"]


@pytest.fixture(autouse=True)
def unfreeze():
    """Undo what a worker does to the garbage collector of its process."""
    yield
    gc.unfreeze()


@pytest.fixture
def application(tmp_path, monkeypatch):
    """Return a function that makes the application of a program; workers import the same module."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(program, name):
        (tmp_path / f"{name}.py").write_text(program.text)
        return importlib.import_module(name).application_setup(ADDRESSES)

    return make


def in_memory(application, program):
    """Return what the program gives in memory: its outputs, and what is known of its dead letters."""
    memory = InMemory(application, keep_errors=True)
    for source, payloads in (*program.inputs(), *program.questions()):
        memory.send(payloads, to=source)
    lines = [line for sink in memory.sinks for line in memory.outputs(sink, encoded=True)]
    return program.promised(lines), known_of(memory.errors)


def in_blocks(application, program, folder, seed):
    """Return the same of a run in blocks of any size, with commits and other numbers of tasks in between."""
    chance = random.Random(seed)
    plan = Plan(application, new_layout(application.pipelines, 4))
    blocks = Blocks(plan, folder, workers=2, partitions=chance.randint(1, 3), seed=seed)
    for ranges in (program.inputs(), program.questions()):
        while ranges:
            number = chance.randint(1, 4)
            blocks.run(*ranges[:number])
            del ranges[:number]
            if chance.random() < 0.3:
                blocks.commit()
    blocks.commit()
    lines = [line + b"\n" for data in blocks.sent.values() for line in data.splitlines()]
    return program.promised(lines), known_of(blocks.letters)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_programs_give_the_same_in_blocks_and_in_memory(application, tmp_path, seed):
    made = application(Program(seed), f"random_{seed}")
    expected, failed = in_memory(made, Program(seed))
    outputs, letters = in_blocks(made, Program(seed), tmp_path / "blocks", seed)
    assert letters == failed
    assert outputs == expected
