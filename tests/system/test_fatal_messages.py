"""Messages that kill their worker become dead letters; the application continues with everything else."""

import shutil
from collections import Counter, defaultdict

import pytest
from click.testing import CliRunner

from wallaroo.cli.wallaroo import main

from .harness import APPS, dead_letters, message_of, send

KILLED = "it was killed by a user, or by the system for lack of memory, or has ended itself"
CRASHED = "Segmentation fault"

# The message, what of it fails at which step, and what is known of how the process ended.
FATAL = [
    ("a fatal-decoder-exit", "a fatal-decoder-exit", "decoder", KILLED),
    ("b x,a fatal-count-kill,b y", "a fatal-count-kill", "count", KILLED),
    ("c fatal-encoder-crash", "c fatal-encoder-crash", "encoder", CRASHED),
]
FAILING = [
    ("c raise", "c raise", "check", None),
    ("a explode", "a explode", "count", None),
]


def oracle(messages):
    """Return the outputs of each key, in order. What fails behind the state has changed it."""
    numbers, outputs = Counter(), defaultdict(list)
    for message in messages:
        if any(word in message for word in ("fatal-decoder", "raise")):
            continue
        for text in message.split(","):
            key = text.partition(" ")[0]
            if any(word in text for word in ("fatal-count", "explode")):
                continue
            numbers[key] += 1
            if "fatal" not in text:
                outputs[key].append(f"{text} => {numbers[key]}")
    return dict(outputs)


def by_key(data):
    found = defaultdict(list)
    for line in data.decode().splitlines():
        found[line.partition(" ")[0]].append(line)
    return dict(found)


def size(messages):
    return sum(len(line) + 1 for lines in oracle(messages).values() for line in lines)


def mixed():
    """Return a stream with all that is fatal, and all that fails, among messages that are not."""
    messages = [f"{'abc'[number % 3]} word{number}" for number in range(3000)]
    for number, (message, *_) in enumerate([*FATAL, *FAILING]):
        messages.insert(150 + 500 * number, message)
    return messages


@pytest.fixture
def app(tmp_path):
    return shutil.copy(APPS / "fatal.py", tmp_path)


@pytest.mark.timeout(900)
def test_the_application_continues_without_them(machida, receiver, tmp_path, app):
    home, sink = tmp_path / "home", receiver()

    def start(*options, to=sink):
        places = ("--application-module", "fatal", "--in", "127.0.0.1:0", "--out", to.address)
        return machida(*places, "--resilience-dir", home, "--worker-count", 2, *options, folder=tmp_path)

    run = start().wait_until_ready()
    messages = mixed()
    send(run.address("Fatal"), messages)
    run.wait_until(lambda: sink.size >= size(messages), "all that is not fatal")
    # The states are as if what did not reach them had never come.
    messages += [f"{key} after{number}" for number in range(10) for key in "abc"]
    send(run.address("Fatal"), messages[-30:])
    run.wait_until(lambda: sink.size >= size(messages), "the messages behind them")

    letters = dead_letters(home)
    expected = {
        what if isinstance(what, str) else what[0]: (message, *rest) for message, what, *rest in FATAL + FAILING
    }
    assert len(letters) == len(expected)
    for letter in letters:
        failed = message_of(letter)
        failed = failed.decode() if isinstance(failed, bytes) else failed if isinstance(failed, str) else failed[0]
        message, step, words = expected.pop(failed)
        assert (letter["step"], letter["source"]) == (step, "Fatal")
        assert letter["position"] == messages.index(message)
        if words is not None:
            assert letter["error"].endswith(f"WorkerDiedError: the process that ran it died twice: {words}")

    # A replay is as fatal: it becomes another dead letter, once.
    (letter,) = [letter for letter in letters if letter["step"] == "encoder"]
    replayed = CliRunner().invoke(main, ["dead-letters", "replay", "--resilience-dir", str(home), letter["id"]])
    assert replayed.exit_code == 0, replayed.output
    run.wait_until(lambda: len(dead_letters(home)) > len(letters), "the dead letter of the replay")
    (again,) = dead_letters(home)[len(letters) :]
    assert (again["replay_of"], again["step"], again["position"]) == (letter["id"], "encoder", letter["position"])
    messages.append("c last")
    send(run.address("Fatal"), messages[-1:])
    run.wait_until(lambda: sink.size >= size(messages), "a message behind the replay")
    run.stop()
    assert by_key(sink.everything()) == oracle(messages)
    assert len(dead_letters(home)) == len(letters) + 1

    # By policy the application stops before such a message, and continues with it when the program is repaired.
    other = receiver()
    run = start("--on-error", "fail", to=other).wait_until_ready()
    send(run.address("Fatal"), ["a fatal-count-kill"])
    assert run.exit_code() == 7
    assert "step 'count' failed for the message 'a fatal-count-kill'" in run.output
    assert (other.size, len(dead_letters(home))) == (0, len(letters) + 1)
    (tmp_path / "mended").touch()
    run = start("--on-error", "fail", to=other).wait_until_ready()
    number = int(oracle(messages)["a"][-1].rpartition(" ")[2]) + 1
    output = f"a fatal-count-kill => {number}\n".encode()
    run.wait_until(lambda: other.size >= len(output), "the message that is no longer fatal")
    run.stop()
    assert other.everything() == output


@pytest.mark.timeout(600)
def test_asked_to_stop_while_it_looks_for_the_message_the_application_stops(machida, receiver, tmp_path, app):
    home, sink = tmp_path / "home", receiver()

    def start():
        places = ("--application-module", "fatal", "--in", "127.0.0.1:0", "--out", sink.address)
        return machida(*places, "--resilience-dir", home, "--worker-count", 2, folder=tmp_path).wait_until_ready()

    run = start()
    send(run.address("Fatal"), ["a fatal-count-kill"])
    run.wait_until(lambda: "Processing failed" in run.output, "the first death")
    run.stop()
    assert "Traceback" not in run.output
    assert (sink.size, dead_letters(home)) == (0, [])
    # The message is still there, for a program that can bear it.
    (tmp_path / "mended").touch()
    run = start()
    run.wait_until(lambda: sink.size, "the message that is no longer fatal")
    run.stop()
    assert sink.everything() == b"a fatal-count-kill => 1\n"
