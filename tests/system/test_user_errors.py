"""Errors in user code: the application stops, or continues and keeps the messages, to be replayed when it is fixed."""

import json
import re
import shutil
from collections import Counter, defaultdict

import pytest
from click.testing import CliRunner

from wallaroo.cli.wallaroo import main

from .harness import APPS, Machida, Receiver, dead_letters, is_committed, message_of, send

FILE = r"\S+/failing\.py"


def traceback(function, source, error):
    """Return a pattern for a traceback of one frame, in the program's own file."""
    return (
        r"Traceback \(most recent call last\):\n"
        rf'  File "{FILE}", line \d+, in {function}\n    {re.escape(source)}\n(?: +[\^~]+\n)?{re.escape(error)}'
    )


def shape(text):
    return re.escape(f"wallaroo.engine.stages.result_checks.ReturnShapeError: {text}")


LOCK = (
    "wallaroo.engine.stages.outbox.NotPicklableError: the message cannot be sent to the worker of its key: "
    "cannot pickle '_thread.lock' object"
)
UNKNOWN = (
    "wallaroo.engine.stages.outbox.UnknownKeyError: the partition function returned the key 'z', "
    "which is not among the 3 partition keys of state 'memory'"
)
BROKEN = b"a broken\xff\xfe"

EXPLODED = traceback("remember", 'raise RuntimeError("exploded")', "RuntimeError: exploded")

# The message that was sent, what the failing step was given, the step, and its traceback.
TROUBLES = [
    (
        BROKEN,
        BROKEN,
        "decoder",
        traceback(
            "decoder",
            'return bs.decode("utf-8")',
            "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 8: invalid start byte",
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
        EXPLODED,
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
    ("a number", ("a", "number"), "encoder", shape("expected bytes (or text, sent as UTF-8), got an int: ")),
]


POISON = ["c word1", "c word2", "c poison", "c word3"]
LATER = [f"b later{number}" for number in range(20)]
ROUNDS = 50


class Story:
    """A program with mistakes: stopped by one, then running with them, then fixed."""

    def __init__(self, folder):
        self.home = folder / "home"
        self.program = folder / "failing.py"
        shutil.copy(APPS / "failing.py", self.program)
        self.sink = Receiver()
        self.runs = []
        self.messages = ["a word", "a explode"]
        """All that was ever sent, in this order."""

    def start(self, *options):
        arguments = ["--in", "127.0.0.1:0", "--out", self.sink.address, "--resilience-dir", self.home, *options]
        arguments += ["--strict-keys", "--time-between-checkpoints", "1s"]
        run = Machida("--application-module", "failing", *arguments, folder=self.program.parent)
        self.runs.append(run)
        return run

    def send(self, messages):
        self.messages += messages
        send(self.runs[-1].address("Failing"), messages)

    def letters(self):
        return dead_letters(self.home)

    def command(self, *arguments):
        result = CliRunner().invoke(main, ["dead-letters", *arguments, "--resilience-dir", str(self.home)])
        assert result.exit_code == 0, result.output
        return result.output

    def stopped_by_an_error(self):
        run = self.start("--on-error", "fail").wait_until_ready()
        send(run.address("Failing"), self.messages[:1])
        run.wait_until(lambda: self.sink.size == len("a word => 1\n"), "the output before the error")
        send(run.address("Failing"), self.messages[1:])
        self.code = run.exit_code()
        self.kept_by_then = self.letters()

    def running_with_errors(self):
        run = self.start().wait_until_ready()
        run.wait_until(lambda: len(self.letters()) == 1, "the message that had stopped it")
        messages = []
        for number in range(ROUNDS):
            for trouble, *_ in TROUBLES:
                messages += [f"a word{number}", trouble, f"b word{number}"]
        self.send([*messages, *(f"b boom{number}" for number in range(500)), *LATER])
        before = 1 + ROUNDS * len(TROUBLES) + 500 + len(LATER)
        run.wait_until(lambda: len(self.letters()) == before, "the dead letters")
        # A state that cannot be saved goes back to what it was.
        self.send(POISON[:2])
        run.wait_until(lambda: b"c word2" in self.received(), "the state before the poison")
        run.wait_until(lambda: is_committed(self.home), "its commit")
        self.send(POISON[2:3])
        run.wait_until(lambda: len(self.letters()) == before + 1, "the poison among the dead letters")
        self.send(POISON[3:])
        run.wait_until(lambda: b"c word3" in self.received(), "the state after the poison")
        self.sent_with_errors = self.received()
        # What was missing is there now: the application takes its messages back while it runs.
        self.program.with_name("now").touch()
        self.told_running = self.command("replay", "--error", "LookupError")
        run.wait_until(lambda: self.received().count(b"b later") == len(LATER), "the replayed messages")
        run.stop()

    def fixed(self):
        text = self.program.read_text()
        self.program.write_text(text.replace("FIXED = False", "FIXED = True"))
        self.told_stopped = self.command("replay", "--all")
        run = self.start("--on-error", "fail")
        replayable = sum(letter["encoding"] != "repr" for letter in self.letters()) - len(LATER)
        lines = self.received().count(b"\n") + replayable
        run.wait_until(lambda: self.received().count(b"\n") >= lines, "what was replayed")
        run.wait_until_ready().stop()

    def received(self):
        return b"".join(self.sink.connections)


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    story = Story(tmp_path_factory.mktemp("story"))
    try:
        story.stopped_by_an_error()
        story.running_with_errors()
        story.fixed()
        yield story
    finally:
        for run in story.runs:
            run.clean_up()
        story.sink.clean_up()


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


def by_key(data):
    found = defaultdict(list)
    for line in data.decode().splitlines():
        found[line[0]].append(line)
    return found


def test_with_on_error_fail_the_first_error_stops_the_application_before_its_message(story):
    assert story.code == 7
    _, _, error = story.runs[0].output.partition("Error: ")
    pattern = (
        r"Pipeline 'Failing', step 'remember' failed for the message 'a explode', with the key 'a', from message 1 of "
        rf"'Failing'\n{EXPLODED}\nThe application stops, as --on-error fail says\. .*\n"
    )
    assert re.fullmatch(pattern, error), story.runs[0].output
    assert story.runs[0].output.count("Traceback") == 1
    assert "apache" not in story.runs[0].output
    assert story.kept_by_then == []
    # Started again without that option, the application continues with this very message.
    first, *_ = story.letters()
    assert (first["step"], first["key"], first["source"], first["position"]) == ("remember", "'a'", "Failing", 1)
    assert message_of(first) == "a explode"


def test_the_application_continues_and_the_messages_are_kept(story):
    _, *letters = story.letters()
    # The output that led to the poison's failure had been computed when the state failed, and leaves.
    assert by_key(story.sent_with_errors.replace(b"c poison => 3\n", b"")) == outcome(story.messages)
    poison = letters.pop()
    assert (poison["step"], message_of(poison)) == ("remember", "c poison")
    assert poison["error"].endswith("the state of 'c' cannot be saved: cannot pickle '_thread.lock' object")
    assert story.messages[poison["position"]] == "c poison"

    kept = defaultdict(list)
    for letter in letters:
        assert (letter["pipeline"], letter["source"]) == ("Failing", "Failing")
        kept[letter["step"]].append(letter)
    run = story.runs[1]
    for sent, given, step, pattern in TROUBLES:
        matching = [
            letter
            for letter in kept[step]
            if re.match(pattern, letter["traceback"]) and "b boom" not in letter["message"]
        ]
        assert len(matching) == ROUNDS, sent
        for letter in matching:
            message = message_of(letter)
            assert (message[:2] if isinstance(given, tuple) else message) == given
            assert story.messages[letter["position"]] == sent
        # The screen shows the first of its kind in full, and where the others are.
        where = f"Pipeline 'Failing', step '{step}' failed for the message .*\n"
        told = re.findall(where + pattern, run.output)
        assert len(told) == 1, (sent, run.output)
    booms = [letter for letter in letters if "b boom" in letter["message"]]
    assert [message_of(letter) for letter in booms] == [f"b boom{number}" for number in range(500)]
    assert len(letters) == ROUNDS * len(TROUBLES) + len(booms) + len(LATER)
    # The same error many times is a line now and then.
    summed_up = re.findall(r"step 'check': ValueError: .* — ([\d,]+) more times\.", run.output)
    assert sum(int(number.replace(",", "")) for number in summed_up) == ROUNDS + 500 - 1
    assert f"The message is kept in {story.home / 'dead-letters.jsonl'}; the application continues." in run.output


def test_after_a_replay_everything_is_there_once(story):
    lost = [message for message in story.messages if message == "a lock"]
    count = len(story.letters()) - len(lost) - len(LATER)
    assert story.told_running == "Queued 20 messages for the running application.\n"
    assert story.told_stopped == (
        f"{len(lost)} dead letters cannot be replayed; `wallaroo dead-letters show` says why.\n"
        f"Queued {count:,} messages for the next start of the application.\n"
    )
    expected = defaultdict(Counter)
    for message in story.messages:
        if message not in lost:
            key, _, word = (message.decode("utf-8", "ignore") if isinstance(message, bytes) else message).partition(" ")
            expected[key][word] += 1
    found, numbers = defaultdict(Counter), defaultdict(list)
    for line in story.sink.everything().replace(b"c poison => 3\n", b"").decode().splitlines():
        words, _, number = line.rpartition(" => ")
        key, _, word = words.partition(" ")
        found[key][word] += 1
        numbers[key].append(int(number))
    assert found == expected
    # Every message has changed the state of its key once.
    assert {key: sorted(some) for key, some in numbers.items()} == {
        key: list(range(1, words.total() + 1)) for key, words in expected.items()
    }
    assert len(story.letters()) == count + len(lost) + len(LATER)
    states = Counter(json.loads(line)["state"] for line in story.command("list", "--json").splitlines())
    assert states == {"replayed": count + len(LATER), "waiting": len(lost)}
