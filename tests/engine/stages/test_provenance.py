"""Where messages that fail came from: positions are found afterwards, exactly or not at all."""

import gc
import io
import random
import threading
from collections import Counter
from pathlib import Path

import pytest
from tests.engine.query import Query

import wallaroo
from wallaroo.engine.stages.stdout_capture import CapturedStream
from wallaroo.engine.transport.dead_letter_record import message_in
from wallaroo.ingress.log.writer import LogWriter
from wallaroo.topology.model import KeyBy, State, StateComputation


@pytest.fixture(autouse=True)
def unfreeze():
    """Undo what a worker does to the garbage collector of its process."""
    yield
    gc.unfreeze()


class Locked:
    """A message that cannot be sent to another process."""

    def __init__(self, word):
        self.word = word
        self.lock = threading.Lock()

    def __repr__(self):
        return f"Locked({self.word!r})"


def words(line):
    return [Locked(word) if "lock" in word else word for word in line.split()]


def first_letter(word):
    return (word.word if isinstance(word, Locked) else word)[0]


def remember(word, state):
    if "fail" in word:
        raise ValueError(word)
    return (word if "silent" not in word else None), True


def encode(word):
    if "unsendable" in word:
        raise KeyError(word)
    return word


KINDS = ["fine", "fail", "lock", "silent", "unsendable"]
STEPS = {"fail": "remember", "lock": "remember", "unsendable": "encoder", "unknown": "remember"}


def some_lines(number, seed):
    """Return lines whose words say what will become of them, many of them the same."""
    chance = random.Random(seed)
    lines = []
    for _ in range(number):
        words = [chance.choice("abc") + chance.choice(KINDS) for _ in range(chance.randrange(4))]
        lines.append(" ".join([*words, *(["unknown"] if chance.random() < 0.1 else [])]))
    return lines


def expected(lines, first=0):
    """Return for each word that fails its step and the number of the line that it came from, as often as it does."""
    found = Counter()
    for position, line in enumerate(lines, first):
        for word in line.split():
            for kind, step in STEPS.items():
                if kind in word:
                    found[step, word, position] += 1
    return found


def told(records):
    found = Counter()
    for record in records:
        word = record["message"].removeprefix("Locked(").removesuffix(")")
        found[record["step"], eval(word), record["position"]] += 1
        assert record["source"] == "p"
    return found


@pytest.fixture
def query(make, tmp_path):
    def build(*steps, buckets=4, strict_keys=False, **options):
        plan = make.plan(make.pipeline("p", *steps, **options), buckets=buckets, strict_keys=strict_keys)
        return Query(plan, tmp_path)

    return build


@pytest.mark.parametrize("most", [7, 250_000], ids=["many parts", "one part"])
@pytest.mark.parametrize("block", [1, 5])
def test_every_message_that_fails_is_reported_with_its_position(query, make, dead_letters, monkeypatch, most, block):
    monkeypatch.setattr("wallaroo.engine.stages.outbox._FANOUT_AT_MOST", most)
    monkeypatch.setattr("wallaroo.ingress.log.reader.PIECE_BYTES", 100)
    tried = query(
        make.step(words, multi=True),
        make.state_step(remember, key=first_letter, keys=["a", "b", "c"]),
        encoders=(encode,),
        strict_keys=True,
    )
    first = 0
    for seed, tasks in enumerate([1, 2, 3]):
        lines = some_lines(60, seed)
        tried.append("p", [line.encode() for line in lines], block=block)
        assert told(dead_letters(tried.chunks(tasks=tasks))) == expected(lines, first)
        first += len(lines)


def test_also_where_the_log_has_lost_messages(query, make, dead_letters, tmp_path):
    tried = query(make.state_step(remember, key=first_letter))
    tried.append("p", [b"a1", b"afail2", b"bfail3", b"b4"])
    with LogWriter(tmp_path / "p") as log:
        log.advance_to(100)
    tried.append("p", [b"afail5", b"bfail6"])
    positions = {record["message"]: record["position"] for record in dead_letters(tried.chunks())}
    assert positions == {"'afail2'": 1, "'bfail3'": 2, "'afail5'": 100, "'bfail6'": 101}


def test_also_where_numbers_stand_for_listed_letters(query, make, dead_letters):
    def number_of(word):
        return ord(word[0]) if word.endswith("#") else word[0]

    tried = query(make.state_step(remember, key=number_of, keys=["a", "b"]))
    lines = ["a1", "a2#", "afail3", "b4", "bfail5", "a6", "afail7#"]
    tried.append("p", [line.encode() for line in lines], block=1)
    records = dead_letters(tried.chunks())
    known = {record["message"]: record.get("position") for record in records}
    # Messages of 'a' came under two keys, and their order is unknown afterwards.
    assert known == {"'afail3'": None, "'bfail5'": 4, "'afail7#'": None}
    assert {record["source"] for record in records} == {"p"}


def test_after_another_state_only_the_source_is_known(query, make, dead_letters):
    def count(word, state):
        return word, True

    tried = query(make.state_step(count, state="one"), make.state_step(remember, state="two", key=first_letter))
    tried.append("p", [b"a", b"afail", b"b"])
    (record,) = dead_letters(tried.chunks())
    assert (record["source"], record["key"]) == ("p", "'a'")
    assert "position" not in record


def test_a_program_that_is_not_deterministic_gets_no_position(query, make, dead_letters, tmp_path):
    def number(text):
        # Each worker has its own copy, so what they share is on the disk.
        with Path(tmp_path / "calls").open("a") as file:
            file.write(".")
            return f"{text} {file.tell()}"

    tried = query(make.step(number), make.state_step(remember, key=first_letter))
    tried.append("p", [b"afail", b"b", b"afail"])
    records = dead_letters(tried.chunks(tasks=1))
    assert [(record["message"], record["source"]) for record in records] == [("'afail 1'", "p"), ("'afail 3'", "p")]
    assert not any("position" in record for record in records)


def test_many_errors_cost_one_more_run_of_the_first_stage_and_print_nothing(
    query, make, dead_letters, tmp_path, monkeypatch
):
    def note(text):
        print("seen", text)
        with Path(tmp_path / "calls").open("a") as file:
            file.write("x")
        return text

    screen = io.StringIO()
    monkeypatch.setattr("sys.stdout", CapturedStream(screen))

    def note_state(text, state):
        print("state", text)
        return remember(text, state)

    note_state.__name__ = "remember"
    tried = query(make.step(note), make.state_step(note_state, key=first_letter), buckets=8)
    lines = [f"{letter}{kind}{number}" for number in range(50) for letter in "abcd" for kind in ("fail", "fine")]
    tried.append("p", [line.encode() for line in lines], block=10)
    chunks = tried.chunks(tasks=1)
    assert told(dead_letters(chunks)) == expected(lines)
    assert len(Path(tmp_path / "calls").read_text()) == 2 * len(lines)
    printed = b"".join(chunk.body for chunk in chunks if chunk.route == -2).decode()
    # A state computation may be run again for a message that succeeded, to make a state as it was.
    noted = Counter(line for line in printed.splitlines() if line.startswith("seen"))
    assert noted == {f"seen {line}": 1 for line in lines}
    assert {line for line in printed.splitlines() if line not in noted} == {f"state {line}" for line in lines}
    assert screen.getvalue() == ""


def test_a_message_is_kept_as_it_arrived_even_if_the_computation_changed_it(query, make, dead_letters):
    def into_dict(text):
        return {"word": text}

    def spoil(message, state):
        word = message.pop("word")
        if "fail" in word:
            raise ValueError(word)
        state[word] = state.get(word, 0) + 1
        return f"{word} {state[word]}", True

    tried = query(make.step(into_dict), make.state_step(spoil, key=lambda message: message["word"][0]))
    tried.append("p", [b"a", b"a", b"afail", b"a"])
    chunks = tried.chunks()
    (record,) = dead_letters(chunks)
    assert message_in(record, tried.plan.serializer) == {"word": "afail"}
    assert record["position"] == 2
    # The state is made again from the messages before it, which the computation had emptied.
    assert b"".join(chunk.body for chunk in chunks if chunk.route >= 0) == b"a 1\na 2\na 3\n"


def test_a_key_of_a_later_step_belongs_to_its_own_message(make, tmp_path, dead_letters):
    def shout(word, state):
        return word.upper(), True

    def check(word):
        if "FAIL" in word:
            raise ValueError(word)
        return word

    def last_letter(word):
        return word[-1]

    computation = wallaroo.state_computation("again")(lambda word, state: (word, True))
    pipeline = make.pipeline(
        "p",
        make.state_step(shout, state="one", key=first_letter),
        make.step(check),
        KeyBy("last letter", wallaroo.partition(last_letter)),
        StateComputation("again", computation, False, State("two", dict, True, None), None),
    )
    tried = Query(make.plan(pipeline), tmp_path)
    tried.append("p", [b"ax", b"afail", b"ay"])
    (record,) = dead_letters(tried.chunks())
    assert (record["message"], record["key"], record["position"]) == ("'AFAIL'", "'a'", 1)


def test_a_key_that_equals_nothing_is_handled(query, make, dead_letters):
    def refuse(word, state):
        raise ValueError(word)

    tried = query(make.state_step(refuse, key=float))
    tried.append("p", [b"nan", b"1", b"nan"])
    records = dead_letters(tried.chunks())
    assert sorted((record["message"], record["key"]) for record in records) == [
        ("'1'", "1.0"),
        ("'nan'", "nan"),
        ("'nan'", "nan"),
    ]
