"""An application that is stopped, or killed, goes on: nothing lost, nothing counted twice, every key in order."""

import random
from collections import Counter, defaultdict

import pytest

from .harness import refuses, send, send_at_the_same_time, values_by_key


class Steps:
    """Makes numbered messages, and knows what has to come out for them."""

    def __init__(self):
        self._last = Counter()

    def message(self, key, more=""):
        self._last[key] += 1
        return f"{key} {self._last[key]} {more}"

    def stream(self, keys, number, more=""):
        """Return `number` messages for `keys` in turn."""
        return [self.message(keys[i % len(keys)], more) for i in range(number)]


def outcome(message):
    """Return the line for a message of `Steps`: its key came before as often as its number says."""
    key, number, more = message.split(" ", 2)
    return f"{key}: {number} by 1, {number} in all {more}\n"


def by_key(lines):
    found = defaultdict(list)
    for line in lines:
        found[line.partition(":")[0]].append(line)
    return found


def expected(messages):
    return by_key(outcome(message) for message in messages)


def received(data):
    return by_key(bytes(data).decode().splitlines(keepends=True))


def size(messages):
    return sum(len(outcome(message)) for message in messages)


class Sequences:
    """The application `sequences` in one directory, started again and again."""

    def __init__(self, machida, receiver, home):
        self._machida = machida
        self._home = home
        self.words, self.steps = receiver(), receiver()

    def start(self):
        arguments = ["--in", "127.0.0.1:0,127.0.0.1:0", "--out", f"{self.words.address},{self.steps.address}"]
        return self._machida("--application-module", "sequences", *arguments, "--resilience-dir", self._home)


def hold(run, steps, gate):
    """Send a message that keeps its batch from ending until the file `gate` exists; return it."""
    message = steps.message("wait", str(gate))
    send(run.address("steps"), [message])
    waiting = gate.with_name(gate.name + ".waiting")
    run.wait_until(waiting.exists, "the message at the gate")
    return message


@pytest.mark.timeout(900)
def test_stopped_and_killed_in_all_sorts_of_places(machida, receiver, tmp_path):
    home = tmp_path / "home"
    app = Sequences(machida, receiver, home)
    steps = Steps()

    # Three senders at once, everything comes out.
    run = app.start().wait_until_ready()
    choose = random.Random(3)
    texts = [
        [" ".join(choose.choices("ant bee cat dog eel fox gnu".split(), k=6)) for _ in range(8000)] for _ in range(3)
    ]
    totals = Counter(word for text in texts for line in text for word in line.split(" "))
    counts = {word: list(range(1, total + 1)) for word, total in totals.items()}
    lines = (f"{word} => {count}\n" for word in counts for count in counts[word])
    send_at_the_same_time(run.address("words"), *texts)
    words_size = sum(map(len, lines))
    run.wait_until(lambda: app.words.size >= words_size, "all counts")

    # Stopped while a batch is at work and much more has been accepted: the batch is finished, the rest is kept.
    first = hold(run, steps, tmp_path / "gate 1")
    streams = [steps.stream([f"{sender}{key}" for key in range(30)], 70_000) for sender in "xyz"]
    send_at_the_same_time(run.address("steps"), *streams)
    address = run.address("steps")
    run.ask_to_stop()
    run.wait_until(lambda: refuses(address), "closing the door")
    (tmp_path / "gate 1").touch()
    run.stop()
    assert values_by_key(app.words.everything()) == counts
    assert app.steps.everything().decode() == outcome(first)

    # Started again: the rest comes out, and only that.
    run = app.start().wait_until_ready()
    accepted = [message for stream in streams for message in stream]
    run.wait_until(lambda: app.steps.size >= size([first]) + size(accepted), "what had been left")
    assert received(app.steps.connections[1]) == expected(accepted)

    # Killed while the sink takes a batch: that batch is sent again, as a whole, and nothing else is.
    gate = hold(run, steps, tmp_path / "gate 2")
    large = [steps.message(f"x{number % 30}", "-" * 1000) for number in range(14_000)]
    send(run.address("steps"), large)
    before = len(app.steps.connections[1]) + size([gate])
    app.steps.hold_at(app.steps.size + size([gate]) + 1000)
    (tmp_path / "gate 2").touch()
    run.wait_until(lambda: len(app.steps.connections[1]) >= before + 1000, "the beginning of the batch")
    run.kill()
    app.steps.hold_at(None)
    restarted = app.start().wait_until_ready()
    run.nothing_left()
    restarted.wait_until(lambda: len(app.steps.connections[2]) >= size(large), "the batch once more")
    assert received(app.steps.connections[2]) == expected(large)
    torn = app.steps.connections[1][before:]
    assert 1000 <= len(torn) < size(large)
    assert app.steps.connections[2].startswith(torn)

    # Killed while it computes: nothing had been sent, so nothing is repeated.
    last = hold(restarted, steps, tmp_path / "gate 3")
    more = steps.stream(["x1", "y1", "z1"], 3000)
    send(restarted.address("steps"), more)
    restarted.kill()
    (tmp_path / "gate 3").touch()
    run = app.start().wait_until_ready()
    restarted.nothing_left()
    run.wait_until(lambda: len(app.steps.connections[3]) >= size([last, *more]), "what had been accepted")
    run.stop()
    app.steps.everything()
    assert received(app.steps.connections[3]) == expected([last, *more])
    assert values_by_key(app.words.everything()) == counts
