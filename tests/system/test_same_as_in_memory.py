"""Any topology gives on Spark what it gives in memory, in the order that is promised.

WALLAROO_TEST_SEEDS=30 tries more of them.
"""

import importlib
import json
import os
import random
from collections import defaultdict

import pytest

from wallaroo.testing import InMemory

from ..random_programs import MESSAGES as OF_EACH_SOURCE  # noqa: TID252 - tests are not installed
from ..random_programs import Program, known_of  # noqa: TID252
from .harness import APPS, dead_letters, messages_planned, send

SEEDS = range(1, 1 + int(os.environ.get("WALLAROO_TEST_SEEDS", "3")))
SEEDS_AT_ONCE = 3
"""Starting an application takes longer than all that it does here, so it has the pipelines of several seeds."""

MESSAGES = 200
ASKING = 60
"""Every key of every state is met by one of so many messages in a row: it is a multiple of all numbers of keys."""


def topology(seeds):
    """Return the description of some pipelines: up to three steps each, some with states, some of those shared."""
    pipelines = []
    for seed in seeds:
        chance = random.Random(seed)
        shared = {"kind": "keyed" if seed % 2 else "single", "state": f"shared {seed}", "amount": 5}
        pipelines += [pipeline(chance, len(pipelines) + number, shared) for number in range(8)]
    return pipelines


def pipeline(chance, number, shared):
    steps = []
    states = []
    for position in range(chance.choice([0, 1, 2, 2, 3, 3])):
        kind = chance.choice(["add", "drop", "fan", "single", "keyed", "shared", "shared"])
        if kind in ("add", "drop", "fan"):
            steps.append({"kind": kind, "amount": chance.randint(2, 4)})
            continue
        if kind == "shared" and not states:
            # It comes before all others, so that no two pipelines disagree on the order of states.
            step = dict(shared)
        else:
            kind = "keyed" if kind == "shared" else kind
            step = {"kind": kind, "state": f"state {number} {position}", "amount": chance.randint(1, 6)}
        # Behind a state with keys, messages of different keys may change places.
        step["exact"] = all(state["kind"] == "single" for state in states)
        states.append(step)
        steps.append(step)
    # What has no sink cannot be waited for, and what shares a state has to be.
    sinks = 1 if shared["state"] in [state["state"] for state in states] else chance.choice([0, 1, 1, 2])
    return {"name": f"pipeline {number}", "steps": steps, "sinks": [10 * number + i for i in range(sinks)]}


def by_sink(lines):
    sinks = defaultdict(list)
    for line in lines:
        number, message = json.loads(line)
        sinks[number].append(message)
    return sinks


def promised(pipeline, outputs):
    """Return the outputs in the order that is promised: that of the input, for those with the same key at each state.

    Without a state, and where each has only one key, that is all of them.
    """
    states = [step for step in pipeline["steps"] if "state" in step]
    amounts = [1 if state["kind"] == "single" else state["amount"] for state in states]
    found = defaultdict(list)
    for output in outputs:
        found[tuple(output[0] % amount for amount in amounts)].append(output)
    return found


def check(seeds, folder, machida, receiver):
    pipelines = topology(seeds)
    chance = random.Random(str(seeds))
    plan = folder / "plan.json"
    plan.write_text(json.dumps(pipelines))
    inputs = {p["name"]: [[n, chance.randrange(100), []] for n in range(MESSAGES)] for p in pipelines}
    questions = [[n, None, []] for n in range(ASKING)]

    with_sinks = {p["name"]: p for p in pipelines if p["sinks"]}
    memory = InMemory(
        importlib.import_module("generated").application_setup, args=["--plan", str(plan), "--out", "127.0.0.1:1"]
    )
    for name, messages in inputs.items():
        memory.send(messages, to=name)
    before = {name: len(memory.outputs(name, encoded=True)) for name in memory.sinks}
    for name in with_sinks:
        memory.send(questions, to=name)
    expected = {name: memory.outputs(name, encoded=True) for name in memory.sinks}

    sink = receiver()
    run = machida(
        "--application-module", "generated", "--plan", plan, "--out", sink.address,
        "--resilience-dir", folder / "home", "--worker-count", "2",
    )  # fmt: skip
    run.wait_until_ready()
    for name, messages in inputs.items():
        send(run.address(name), [json.dumps(message) for message in messages])
    answered = sum(len(b"".join(lines[: before[name]])) for name, lines in expected.items())
    run.wait_until(lambda: sink.size >= answered, "all messages coming out")
    for name in with_sinks:
        send(run.address(name), [json.dumps(message) for message in questions])
    complete = sum(len(b"".join(lines)) for lines in expected.values())
    run.wait_until(lambda: sink.size >= complete, "all totals coming out")
    run.stop()
    came = by_sink(sink.everything().splitlines())

    wanted = by_sink(line for lines in expected.values() for line in lines)
    assert came.keys() == wanted.keys()
    for pipeline in with_sinks.values():
        for number in pipeline["sinks"]:
            assert promised(pipeline, came[number]) == promised(pipeline, wanted[number]), pipeline


@pytest.mark.parametrize(
    "seeds", [SEEDS[at : at + SEEDS_AT_ONCE] for at in range(0, len(SEEDS), SEEDS_AT_ONCE)], ids=str
)
def test_spark_agrees_with_memory(tmp_path, machida, receiver, monkeypatch, seeds):
    monkeypatch.syspath_prepend(APPS)
    check(seeds, tmp_path, machida, receiver)


PROGRAMS = range(1, 1 + int(os.environ.get("WALLAROO_TEST_SEEDS", "1")))
"""Each is as large as several, as each takes a start."""


def whole_lines(data):
    return [line + b"\n" for line in data.splitlines()]


@pytest.mark.parametrize("seed", PROGRAMS)
def test_random_programs_give_the_same_on_spark_and_in_memory(tmp_path, machida, receiver, monkeypatch, seed):
    monkeypatch.syspath_prepend(tmp_path)
    name = f"random_for_spark_{seed}"
    program = Program(seed, sources=6, declarations=50)
    (tmp_path / f"{name}.py").write_text(program.text)
    inputs, questions = program.inputs(), program.questions()
    setup = importlib.import_module(name).application_setup
    memory = InMemory(setup, args=["--out", "127.0.0.1:1"], keep_errors=True)
    for source, payloads in inputs + questions:
        memory.send(payloads, to=source)
    expected = b"".join(line for each in memory.sinks for line in memory.outputs(each, encoded=True))

    sink, home = receiver(), tmp_path / "home"
    run = machida(
        *("--application-module", name, "--out", sink.address, "--resilience-dir", home, "--worker-count", "2"),
        folder=tmp_path,
    ).wait_until_ready()
    for source, payloads in inputs:
        send(run.address(source), payloads)
    for source in program.sources:
        # What is asked later is then in later blocks, and comes after it to every state.
        run.wait_until(lambda source=source: messages_planned(home, source) == OF_EACH_SOURCE, "all messages in blocks")
    for source, payloads in questions:
        send(run.address(source), payloads)
    run.wait_until(lambda: sink.size >= len(expected), "all outputs")
    run.wait_until(lambda: len(dead_letters(home)) >= len(memory.errors), "all dead letters")
    run.stop()
    assert known_of(dead_letters(home)) == known_of(memory.errors)
    assert program.promised(whole_lines(sink.everything())) == program.promised(whole_lines(expected))
