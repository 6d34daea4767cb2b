"""An application that is stopped, or killed, continues: nothing lost, nothing counted twice, every key in order."""

import random
import signal
from collections import Counter, defaultdict

import pytest

from .harness import dead_letters, message_of, refuses, send, send_at_the_same_time, values_by_key

ANIMALS = ["ant", "bee", "cat", "dog", "eel", "fox", "gnu"]
GARBAGE = "garbage"
MOST_REPEATED = 1 << 20
"""Bytes: a block has half a MiB of messages, and its outputs are a little longer here."""


class Steps:
    """Makes numbered messages, and knows what has to come out for them."""

    def __init__(self):
        self._last = Counter()

    def message(self, key, more=""):
        self._last[key] += 1
        return f"{key} {self._last[key]} {more}"

    def numbers(self):
        """Return for each key the numbers so far."""
        return {key: list(range(1, last + 1)) for key, last in self._last.items()}

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

    def __init__(self, machida, receiver, folder):
        self._machida = machida
        self._folder = folder
        self.home = folder / "home"
        self.words, self.numbers, self.steps = receiver(), receiver(), receiver()
        self.messages = Steps()

    def start(self, *more, **options):
        return self.launch(*more, **options).wait_until_ready()

    def launch(self, *more, **options):
        """Start the application, without waiting for it."""
        sinks = ",".join(sink.address for sink in (self.words, self.numbers, self.steps))
        arguments = ["--in", "127.0.0.1:0,127.0.0.1:0", "--out", sinks, "--resilience-dir", self.home]
        return self._machida("--application-module", "sequences", *arguments, *more, **options)

    def hold(self, run, name):
        """Send a message that keeps its block from ending until a file is there; return the message and the file."""
        gate = self._folder / name
        message = self.messages.message("wait", str(gate))
        send(run.address("steps"), [message])
        run.wait_until(gate.with_name(gate.name + ".waiting").exists, "the message at the gate")
        return message, gate


def count_words_of_three_senders(app, run):
    """Return the counts that have to come out, after they have."""
    choose = random.Random(3)
    texts = [[" ".join(choose.choices(ANIMALS, k=6)) for _ in range(8000)] for _ in range(3)]
    totals = Counter(word for text in texts for line in text for word in line.split(" "))
    counts = {word: list(range(1, total + 1)) for word, total in totals.items()}
    words_size = sum(len(f"{word} => {count}\n") for word in counts for count in counts[word])
    send_at_the_same_time(run.address("words"), *texts)
    run.wait_until(lambda: app.words.size >= words_size, "all counts")
    return counts


def stop_with_much_left(app, run):
    """Stop while a block is at work and more has been accepted: what is in progress is finished, and the rest is kept.

    Return what was accepted.
    """
    first, gate = app.hold(run, "gate 1")
    streams = [app.messages.stream([f"{sender}{key}" for key in range(30)], 70_000) for sender in "xyz"]
    address = run.address("steps")
    send_at_the_same_time(address, *streams)
    run.ask_to_stop(signal.SIGINT)
    run.wait_until(lambda: refuses(address), "closing the door")
    gate.touch()
    run.stop()
    assert app.steps.everything().decode().startswith(outcome(first))
    return [first, *(message for stream in streams for message in stream)]


def kill_while_sending(app, run):
    """Kill while a sink takes a block: after the start that sink gets the rest of it again, and nothing else.

    Another sink had taken the same block before, and a message of it had become a dead letter: neither is repeated.
    """
    last, gate = app.hold(run, "gate 2")
    more = app.messages.stream([f"x{key}" for key in range(30)], 14_000, "-" * 1000)
    send(run.address("steps"), [*more[:100], GARBAGE, *more[100:]])
    whole = len(app.steps.connections[-1]) + size([last])
    app.steps.hold_at(app.steps.size + size([last]) + 1000)
    gate.touch()
    run.wait_until(lambda: len(app.steps.connections[-1]) >= whole + 1000, "the beginning of the rest")
    run.kill()
    app.steps.hold_at(None)
    restarted = app.start()
    run.nothing_left()
    torn, again = app.steps.connections[-2][whole:], app.steps.connections[-1]
    # It resumes at a border, because what had been sent is computed again unchanged.
    first_line = bytes(again).partition(b"\n")[0]
    border = bytes(torn).rfind(first_line) if first_line in torn else len(torn)
    restarted.wait_until(lambda: border + len(again) >= size(more), "the rest")
    assert again.startswith(torn[border:])
    assert len(torn) - border <= MOST_REPEATED
    assert received(torn[:border] + again) == expected(more)
    return restarted


def kill_while_computing(app, run):
    """Kill while a block is at work and more has been accepted: nothing had been sent, so nothing is repeated."""
    sent = bytes(app.steps.connections[-1])
    held, gate = app.hold(run, "gate 3")
    more = app.messages.stream(["x1", "y1", "z1"], 3000)
    send(run.address("steps"), more)
    run.kill()
    gate.touch()
    restarted = app.start()
    run.nothing_left()
    restarted.wait_until(lambda: len(app.steps.connections[-1]) >= size([held, *more]), "what had been accepted")
    restarted.stop()
    app.steps.everything()
    assert app.steps.connections[-2] == sent
    assert received(app.steps.connections[-1]) == expected([held, *more])


@pytest.mark.timeout(900)
def test_stopped_and_killed_at_many_places(machida, receiver, tmp_path):
    app = Sequences(machida, receiver, tmp_path)
    run = app.start()
    counts = count_words_of_three_senders(app, run)
    accepted = stop_with_much_left(app, run)

    run = app.start()
    run.wait_until(lambda: app.steps.size >= size(accepted), "what had been left")
    assert received(b"".join(map(bytes, app.steps.connections))) == expected(accepted)
    run = kill_while_sending(app, run)
    kill_while_computing(app, run)
    assert values_by_key(app.numbers.everything()) == app.messages.numbers()
    assert [message_of(letter) for letter in dead_letters(app.home)] == [GARBAGE]
    assert values_by_key(app.words.everything()) == counts
