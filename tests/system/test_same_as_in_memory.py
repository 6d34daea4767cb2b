"""Any topology gives on Spark what it gives in memory, up to the order that is promised."""

import importlib
import json
import random
from collections import Counter, defaultdict

import pytest

from wallaroo.testing import InMemory

from .harness import APPS, send

MESSAGES = 300
ASKING = 60
"""Every key of every state is met by one of so many messages in a row: it is a multiple of all numbers of keys."""


def topology(chance):
    """Return the description of some pipelines: up to three steps each, some with states, some of those shared."""
    shared = chance.choice(["single", "keyed"])
    return [pipeline(chance, number, shared) for number in range(12)]


def pipeline(chance, number, shared):
    steps = []
    states = []
    for position in range(chance.randint(0, 3)):
        kind = chance.choice(["add", "drop", "fan", "single", "keyed", "shared"])
        if kind in ("add", "drop", "fan"):
            steps.append({"kind": kind, "amount": chance.randint(2, 4)})
            continue
        # The shared state comes before all others, so that no two pipelines disagree on the order of states.
        is_shared = kind == "shared" and not states
        if kind == "shared":
            kind = shared if is_shared else "keyed"
        states.append("shared" if is_shared else f"state {number} {position}")
        exact = len(states) == 1 and not is_shared
        amount = 5 if is_shared else chance.randint(1, 6)
        steps.append({"kind": kind, "state": states[-1], "amount": amount, "exact": exact})
    # What has no sink cannot be waited for, and what shares a state has to be.
    sinks = 1 if "shared" in states else chance.choice([0, 1, 1, 2])
    return {"name": f"pipeline {number}", "steps": steps, "sinks": [10 * number + i for i in range(sinks)]}


def by_sink(lines):
    sinks = defaultdict(list)
    for line in lines:
        number, message = json.loads(line)
        sinks[number].append(message)
    return sinks


def promised(pipeline, outputs):
    """Return the part of an output's order that is promised, in a form that can be compared."""
    states = [step for step in pipeline["steps"] if "state" in step]
    if not states or (len(states) == 1 and states[0]["kind"] == "single" and states[0]["exact"]):
        return outputs
    if len(states) == 1 and states[0]["exact"]:
        return {key: [o for o in outputs if o[0] % states[0]["amount"] == key] for key in range(states[0]["amount"])}
    return Counter(map(json.dumps, outputs))


def check(chance, folder, machida, receiver):
    pipelines = topology(chance)
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


@pytest.mark.parametrize("seed", [1])
def test_spark_agrees_with_memory(tmp_path, machida, receiver, monkeypatch, seed):
    monkeypatch.syspath_prepend(APPS)
    check(random.Random(seed), tmp_path, machida, receiver)
