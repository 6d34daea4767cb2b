"""Errors in user code: the application goes on, and the message is kept with all there is to know about it."""

import re
from collections import defaultdict

from .harness import APPS, dead_letters, message_of, send

FILE = re.escape(str(APPS / "troubles.py"))


def traceback(function, source, error):
    """Return a pattern for a traceback of one frame, in the program's own file."""
    return (
        r"Traceback \(most recent call last\):\n"
        rf'  File "{FILE}", line \d+, in {function}\n    {re.escape(source)}\n(?: +[\^~]+\n)?{re.escape(error)}'
    )


def shape(text):
    return re.escape(f"wallaroo.engine.steps.ReturnShapeError: {text}")


LOCK = (
    "wallaroo.engine.outbox.NotPicklableError: the message cannot be sent to the worker of its key: "
    "cannot pickle '_thread.lock' object"
)
UNKNOWN = (
    "wallaroo.engine.outbox.UnknownKeyError: the partition function returned the key 'z', "
    "which is not among the 3 partition keys of state 'memory'"
)
BROKEN = b"a broken \xff\xfe"

# The message that was sent, what the failing step was given, the step, and its traceback.
TROUBLES = [
    (
        BROKEN,
        BROKEN,
        "decoder",
        traceback(
            "decoder",
            'return bs.decode("utf-8")',
            "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 9: invalid start byte",
        ),
    ),
    (
        "a boom",
        "a boom",
        "check",
        traceback("check", 'raise ValueError("cannot work with " + text)', "ValueError: cannot work with a boom"),
    ),
    (
        "a one not many",
        "a one not many",
        "expand",
        shape("expected a list of results or None, got a str: 'a one not many'"),
    ),
    ("a lock", b"Locked(a lock)", "remember", re.escape(LOCK)),
    (
        "a",
        "a",
        "remember",
        traceback(
            "first_word",
            'first, second = text.split(" ")[:2]',
            "ValueError: not enough values to unpack (expected 2, got 1)",
        ),
    ),
    ("z unknown", "z unknown", "remember", re.escape(UNKNOWN)),
    (
        "a explode",
        "a explode",
        "remember",
        traceback("remember", 'raise RuntimeError("exploded")', "RuntimeError: exploded"),
    ),
    (
        "b shapeless",
        "b shapeless",
        "remember",
        shape("expected a tuple (output, save_state), got a str: 'b shapeless'"),
    ),
    (
        "b unsendable",
        ("b", "unsendable"),
        "encoder",
        traceback("encoder", "raise KeyError(word)", "KeyError: 'unsendable'"),
    ),
    ("a number", ("a", "number"), "encoder", shape("expected bytes (or text, sent as UTF-8), got a int: ")),
]


def outcome(messages):
    """Return the lines for each key: what fails before or in the state is as if it had never come."""
    found, remembered = defaultdict(list), defaultdict(int)
    for message in messages:
        key, _, word = message.partition(" ") if isinstance(message, str) else ("", "", "")
        if key in {"a", "b", "c"} and word.startswith(("word", "unsendable", "number")):
            remembered[key] += 1
            if word.startswith("word"):
                found[key].append(f"{key} {word} => {remembered[key]}")
    return found


def received(data):
    found = defaultdict(list)
    for line in data.decode().splitlines():
        found[line[0]].append(line)
    return found


def test_the_application_goes_on_and_the_messages_are_kept(machida, receiver, tmp_path):
    messages = []
    for number in range(50):
        for trouble, *_ in TROUBLES:
            messages += [f"a word{number}", trouble, f"b word{number}"]
    messages += [f"boom {number}" for number in range(500)]
    first = outcome(messages)
    size = sum(len(line) + 1 for lines in first.values() for line in lines)
    sink = receiver()
    arguments = ["--in", "127.0.0.1:0", "--out", sink.address, "--resilience-dir", tmp_path / "home"]
    run = machida("--application-module", "troubles", *arguments).wait_until_ready()
    send(run.address("Troubles"), messages)
    run.wait_until(lambda: sink.size >= size, "the outputs")

    def letters():
        return [letter for letter in dead_letters(tmp_path / "home") if "boom " not in letter["message"]]

    # A state that cannot be saved goes back to what it was.
    send(run.address("Troubles"), ["c word1", "c word2"])
    run.wait_until(lambda: sink.size >= size + 2 * len("c word1 => 1\n"), "the state before the poison")
    send(run.address("Troubles"), ["c poison"])
    run.wait_until(lambda: len(letters()) > 50 * len(TROUBLES), "the poison among the dead letters")
    send(run.address("Troubles"), ["c word3"])
    run.wait_until(lambda: b"c word3" in sink.connections[0], "the state after the poison")
    run.stop()

    *rest, poison = letters()
    assert (poison["step"], message_of(poison)) == ("remember", "c poison")
    assert poison["error"].endswith("the state of 'c' cannot be saved: cannot pickle '_thread.lock' object")
    # Whether the output that led to the failure is sent is left open: it had been computed when the state failed.
    found = received(sink.everything().replace(b"c poison => 3\n", b""))
    assert found == {**first, "c": ["c word1 => 1", "c word2 => 2", "c word3 => 3"]}

    kept = defaultdict(list)
    for letter in rest:
        assert letter["pipeline"] == "Troubles"
        kept[letter["step"]].append(letter)
    assert len(rest) == 50 * len(TROUBLES)
    for sent, given, step, pattern in TROUBLES:
        matching = [letter for letter in kept[step] if re.match(pattern, letter["traceback"])]
        assert len(matching) == 50, sent
        for letter in matching:
            message = message_of(letter)
            assert (message[:2] if isinstance(given, tuple) else message) == given
        # The screen shows the first of its kind in full, and where the others are.
        where = f"Pipeline 'Troubles', step '{step}' failed for the message .*\n"
        told = re.findall(where + pattern, run.output)
        assert len(told) == 1, (sent, run.output)
    booms = [letter for letter in dead_letters(tmp_path / "home") if "boom " in letter["message"]]
    assert [message_of(letter) for letter in booms] == [f"boom {number}" for number in range(500)]
    summed_up = re.findall(r"step 'check': ValueError: .* — ([\d,]+) more times\.", run.output)
    assert sum(int(number.replace(",", "")) for number in summed_up) == 50 + 500 - 1
    assert f"The message is kept in {tmp_path / 'home' / 'dead-letters.jsonl'}; the application goes on." in run.output
