"""A project made by `wallaroo new`, run as its README says, but for the addresses."""

import re
import shlex
from collections import defaultdict
from random import Random

from tests.processes import WALLAROO, run_to_end

from .harness import environment, values_by_key


def commands_of(readme):
    """Return the words of each command that a README shows, by its program."""
    shown = [shlex.split(line) for line in re.findall(r"^    (\S.* .*)$", readme, re.MULTILINE)]
    return {" ".join(words[:2]) if words[0] == "wallaroo" else words[0]: words for words in shown}


def with_address(words, old, new):
    return [new if word == old else word for word in words]


def test_the_commands_of_the_readme(machida, receiver, tmp_path):
    run_to_end(*WALLAROO, "new", "fruit_stand", cwd=tmp_path, env=environment())
    project = tmp_path / "fruit_stand"
    commands = commands_of((project / "README.md").read_text())
    assert commands["wallaroo receive"] == ["wallaroo", "receive", "127.0.0.1:7002"]

    choose = Random(3)
    amounts = [(choose.choice(["apples", "pears", "plums"]), choose.randrange(100)) for _ in range(500)]
    expected, totals = defaultdict(list), defaultdict(int)
    for name, amount in amounts:
        totals[name] += amount
        expected[name].append(totals[name])
    size = sum(len(f"{name} => {total}\n") for name, found in expected.items() for total in found)

    sink = receiver()
    words = with_address(commands["machida"], "127.0.0.1:7010", "127.0.0.1:0")
    words = with_address(words, "127.0.0.1:7002", sink.address)
    run = machida(*words[1:], "--log-level", "debug", folder=project).wait_until_ready()
    assert "│ add up           ├──▶│" in run.output

    send = commands["printf"][commands["printf"].index("|") + 1 :]
    assert send[:2] == ["wallaroo", "send"]
    source = "{}:{}".format(*run.address("amounts"))
    lines = "".join(f"{name} {amount}\n" for name, amount in amounts)
    run_to_end(*WALLAROO, *with_address(send[1:], "127.0.0.1:7010", source), input=lines, env=environment())
    run.wait_until(lambda: sink.size >= size, "all totals")
    run.stop()

    assert values_by_key(sink.everything()) == expected
    assert (project / "state").is_dir()
    assert "state/" in (project / ".gitignore").read_text().splitlines()
