"""Programs whose parts cannot be sent anywhere: every process builds the application by itself."""

import random
from collections import defaultdict

import pytest

from .harness import send

PRICES = {"apple": 2, "bread": 5, "gold": 1000}


@pytest.fixture
def start(machida, tmp_path):
    """Start the application; the last argument is one that it looks for in `sys.argv`."""
    (tmp_path / "prices").write_text("".join(f"{item} {price}\n" for item, price in PRICES.items()))

    def run(out, *more):
        arguments = ["--in", "127.0.0.1:0", "--out", out, "--resilience-dir", tmp_path / "home"]
        own = ["--factor", "3", "--prices", tmp_path / "prices", *more, "--last=word"]
        return machida("--application-module", "own_parts", *arguments, *own)

    return run


def expected(lines):
    """Return what comes out for each shop, computed in the plainest way."""
    found = defaultdict(list)
    sums = defaultdict(int)
    for line in lines:
        shop, item = line.split()
        sums[shop, item] += PRICES[item] * 3
        found[shop].append(f"{shop} {item} {sums[shop, item]} --last=word")
    return found


def received(data):
    found = defaultdict(list)
    for line in data.decode().splitlines():
        found[line.split()[0]].append(line)
    return found


@pytest.mark.timeout(600)
def test_locks_files_loggers_and_globals_are_there_in_every_process(start, receiver):
    sink = receiver()
    choose = random.Random(4)
    lines = [f"shop{choose.randrange(40)} {choose.choice(list(PRICES))}" for _ in range(5000)]
    outputs = expected(lines)
    size = sum(len(line) + 1 for of_shop in outputs.values() for line in of_shop)
    run = start(sink.address).wait_until_ready()
    send(run.address("sales"), lines)
    run.wait_until(lambda: sink.size >= size, "all outputs")
    run.stop()
    assert received(sink.everything()) == outputs
    # What the setup says is on the screen once, and what parts log meanwhile each time.
    assert run.output.count("setting up\n") == 1
    assert run.output.count("setting up without Python\n") == 1
    for shop in outputs:
        gold = sum(line == f"{shop} gold" for line in lines)
        assert run.output.count(f"gold in {shop}\n") == gold


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        ("ingress", "application_setup failed in the process that accepts connections, though not in machida:"),
        ("a worker", "application_setup failed in a worker, though not in machida:"),
        ("fewer in ingress", "gave the pipeline 'sales' 1 step, and 2 in machida: it must give the same each time"),
        ("fewer in a worker", "In a worker, application_setup gave the pipeline 'sales' 1 step, and 2 in machida: it"),
    ],
)
@pytest.mark.timeout(600)
def test_a_process_in_which_the_program_does_something_else_is_reported(start, receiver, trouble, words):
    run = start(receiver().address, "--trouble", trouble)
    assert run.exit_code() != 0
    assert words in run.output
    if not trouble.startswith("fewer"):
        assert f"RuntimeError: no model for {trouble}" in run.output
    # The only traceback is that of the program itself.
    assert run.output.count("Traceback") == (not trouble.startswith("fewer"))
    run.nothing_left()
