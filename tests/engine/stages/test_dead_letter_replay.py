"""Dead letters that are replayed: each at the step that failed, as if it had not failed."""

import base64
import gc
import json
from collections import Counter, defaultdict

import pytest
from tests.engine.query import Query

import wallaroo
from wallaroo.engine.stages.dead_letter_replay import NoPlaceError
from wallaroo.engine.transport.dead_letter_record import make_letter, message_in
from wallaroo.topology.model import REPLAYS, KeyBy, State, StateComputation


@pytest.fixture(autouse=True)
def unfreeze():
    """Undo what a worker does to the garbage collector of its process."""
    yield
    gc.unfreeze()


WORDS = ["fine", "decode", "split", "single", "key", "state", "second", "encode", "other"]


@pytest.fixture
def program(make, tmp_path):  # noqa: C901 - one function for each kind of step
    """Return a query for a program with every kind of step, each of which fails for its word until it is repaired."""

    def troubled(word, text):
        if f"!{word}" in text and not (tmp_path / "mended").exists():
            raise ValueError(text)
        return text

    def decode(bs):
        return troubled("decode", bs.decode())

    def split(text):
        return troubled("split", text).split()

    def single(word):
        return troubled("single", word)

    def first_letter(word):
        return troubled("key", word)[0]

    def count(word, state):
        state[word] = state.get(word, 0) + 1
        return f"{troubled('state', word)} {state[word]}", True

    def last_letter(output):
        return output[-1]

    def collect(output, seen):
        seen.append(output)
        return troubled("second", output), True

    def encode(output):
        return troubled("encode", output) + "\n"

    def encode_other(output):
        return troubled("other", output) + " too\n"

    pipeline = make.pipeline(
        "p",
        make.step(split, multi=True),
        make.step(single),
        make.state_step(count, key=first_letter),
        KeyBy("last letter", wallaroo.partition(last_letter)),
        StateComputation("collect", wallaroo.state_computation("collect")(collect), False, _COLLECTED, None),
        decode=decode,
        encoders=(encode, encode_other),
    )
    return Query(make.plan(pipeline), tmp_path)


_COLLECTED = State("collected", list, partitioned=True, keys=None)


def replay(query, letters):
    query.append(REPLAYS, [json.dumps(letter).encode() for letter in letters], block=2)


def named(letters, prefix="letter"):
    return [{"id": f"{prefix}{number}", **letter} for number, letter in enumerate(letters)]


def lines_of(chunks):
    """Return what each sink was sent."""
    sent = defaultdict(list)
    for chunk in chunks:
        if chunk.route >= 0:
            sent[chunk.route] += chunk.body.decode().splitlines()
    return sent


def complete(lines):
    """Return what the repaired program makes of all lines: only the order among the messages of a key may vary."""
    counts = Counter(word for line in lines for word in line.split())
    outputs = [f"{word} {number}" for word, most in counts.items() for number in range(1, most + 1)]
    return sorted(outputs), sorted(f"{output} too" for output in outputs)


def some_lines():
    lines = []
    for number in range(30):
        word = WORDS[number % len(WORDS)]
        lines.append(f"a!{word} bfine c!{WORDS[(number * 5 + 1) % len(WORDS)]} afine")
    return lines


def test_everything_is_there_once_after_all_letters_were_replayed(program, tmp_path, dead_letters):
    lines = some_lines()
    program.append("p", [line.encode() for line in lines])
    first = program.chunks()
    letters = named(dead_letters(first))
    places = ["decoder", "step 1", "step 2", "step 3", "step 5", "encoder 1", "encoder 2"]
    assert sorted({letter["place"] for letter in letters}) == sorted(places)
    (tmp_path / "mended").touch()
    replay(program, letters)
    second = program.chunks(tasks=3)
    assert dead_letters(second) == []
    one, two = (sorted(lines_of(first)[route] + lines_of(second)[route]) for route in (2, 3))
    assert (one, two) == complete(lines)


def test_a_letter_that_fails_again_names_the_original_and_its_source(program, dead_letters):
    lines = some_lines()
    program.append("p", [line.encode() for line in lines])
    letters = named(dead_letters(program.chunks()))
    # Something else that is processed at the same time is not taken for what is replayed.
    program.append("p", [b"afine"] * 7)
    replay(program, letters)
    again = dead_letters(program.chunks(tasks=1))

    def known(letter):
        same = ("pipeline", "step", "place", "key", "payload", "encoding", "error", "source", "position")
        return {name: letter.get(name) for name in same}

    by_id = {letter["id"]: known(letter) for letter in letters}
    assert {letter["replay_of"]: known(letter) for letter in again} == by_id


def test_a_letter_that_has_no_place_in_a_changed_application_is_reported(make, tmp_path, dead_letters):
    def double(data):
        return data * 2

    def before(data):
        return f"<{data}>"

    # The step was the first one; now another one is in front of it.
    query = Query(make.plan(make.pipeline("p", make.step(before), make.step(double))), tmp_path)
    whole = {"pipeline": "p", "step": "double", "place": "step 1", "key": None, "key_pickle": None, "encoding": "bytes"}
    whole |= {"payload": base64.b64encode(b"ab").decode(), "message": "b'ab'", "source": "p", "position": 5}
    whole |= {"partition": 2}
    changes = [
        {},
        {"step": "gone"},
        {"pipeline": "gone"},
        {"place": "encoder 2", "step": "encoder"},
        {"encoding": "pickle"},
    ]
    replay(query, [{"id": str(number), **whole, **change} for number, change in enumerate(changes)])
    chunks = query.chunks()
    assert lines_of(chunks) == {0: ["b'abab'"]}
    letters = dead_letters(chunks)
    assert [(letter["replay_of"], letter["error"].rpartition(".")[2].partition(":")[0]) for letter in letters] == [
        ("1", NoPlaceError.__name__),
        ("2", NoPlaceError.__name__),
        ("3", NoPlaceError.__name__),
        ("4", "UnpicklingError"),
    ]
    assert "pipeline 'p' has no step 'gone' any more" in letters[0]["error"]
    for letter in letters:
        assert (letter["payload"], letter["source"]) == (whole["payload"], "p")
        assert (letter["partition"], letter["position"]) == (2, 5)


def test_messages_packed_by_the_application_itself_are_unpacked_by_it(make, tmp_path, dead_letters):
    def fail(data):
        if data == "bad" and not (tmp_path / "mended").exists():
            raise ValueError(data)
        return data

    own = {"serialize": lambda data: data.encode("utf-16"), "deserialize": lambda bs: bs.decode("utf-16")}
    query = Query(make.plan(make.pipeline("p", make.step(fail)), **own), tmp_path)
    query.append("p", [b"good", b"bad"])
    (letter,) = named(dead_letters(query.chunks()))
    assert (letter["encoding"], message_in(letter, query.plan.serializer)) == ("serialize", "bad")
    (tmp_path / "mended").touch()
    replay(query, [letter])
    assert lines_of(query.chunks()) == {0: ["bad"]}


def test_replayed_letters_come_after_other_messages_of_a_state_and_in_their_own_order(make, tmp_path, dead_letters):
    def number(word, seen):
        seen.append(word)
        return f"{len(seen)} {word}", True

    query = Query(make.plan(make.pipeline("p", make.state_step(number, make=list, key=None))), tmp_path)
    place = query.workers[0].step(0).place
    letters = [
        {
            "id": "x",
            **make_letter(place, f"old {each}", ValueError(), key=None, origin={}, serializer=query.plan.serializer),
        }
        for each in range(5)
    ]
    query.append("p", [f"new {each}".encode() for each in range(4)], block=1)
    replay(query, letters)
    assert lines_of(query.chunks(tasks=2)) == {
        1: [*(f"{each + 1} new {each}" for each in range(4)), *(f"{each + 5} old {each}" for each in range(5))]
    }
