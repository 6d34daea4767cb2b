"""The output of a task: chunks for buckets and sinks, dead letters and printed text."""

import base64
import pickle
import threading
from array import array

import pytest
from tests.engine.outbox_chunks import taken

from wallaroo.engine.stages.outbox import Outbox
from wallaroo.engine.stages.steps import source_line
from wallaroo.engine.transport.buckets import stable_hash
from wallaroo.engine.transport.shuffle_format import DEAD_LETTERS, PRINTED, Chunk


def count(data, state):
    return data, True


def first(data):
    return data[0]


@pytest.fixture
def outbox_of(make):
    """Return a function that makes a plan with one state step, its outbox and the way into it."""

    def build(*, key=first, keys=None, steps=(), buckets=4, **rest):
        line = make.pipeline("p", *steps, make.state_step(count, key=key, keys=keys))
        plan = make.plan(line, buckets=buckets, **rest)
        outbox = Outbox(plan)
        return plan, outbox, source_line(plan, outbox, line)

    return build


def by_bucket(plan, chunks):
    """Return the messages for the state by bucket and key."""
    found = {}
    for chunk in chunks:
        if chunk.route >= 0:
            messages = iter(plan.serializer.load_messages(chunk.body).items())
            for bucket, number in zip(chunk.marks[::2], chunk.marks[1::2], strict=True):
                found[bucket] = dict(next(messages) for _ in range(number))
            assert not list(messages)
    return found


@pytest.mark.parametrize("partitions", [1, 2, 3])
def test_messages_travel_to_the_bucket_of_their_key(outbox_of, partitions):
    plan, outbox, run = outbox_of()
    words = ["acorn", "bark", "alder", "cone", "birch", "ash"]
    run(word.encode() for word in words)
    shares = [[] for _ in range(partitions)]
    outbox.share_out(7, shares, 0)
    expected = {}
    for word in words:
        expected.setdefault(stable_hash(word[0]) % 4, {}).setdefault(word[0], []).append(word)
    place = plan.placement("state", partitions)
    for partition, share in enumerate(shares):
        mine = {bucket: messages for bucket, messages in expected.items() if place(bucket) == partition}
        assert by_bucket(plan, share) == mine
        assert {(chunk.route, chunk.part) for chunk in share} <= {(0, 7)}
    assert sum(chunk.number for share in shares for chunk in share) == 6


def test_taking_the_output_empties_the_outbox(outbox_of):
    _, outbox, run = outbox_of(buckets=1)
    run([b"a"])
    outbox.printed.write("hello")
    run([b"\xff"])
    parts = [taken(outbox, part) for part in range(2)]
    run([b"b"])
    parts.append(taken(outbox, 2))
    assert [[(chunk.route, chunk.part) for chunk in part] for part in parts] == [
        [(0, 0), (DEAD_LETTERS, 0), (PRINTED, 0)],
        [],
        [(0, 2)],
    ]


def test_clearing_forgets_everything(outbox_of):
    _, outbox, run = outbox_of()
    run([b"a"])
    run([b"\xff"])
    outbox.printed.write("half a line")
    list(taken(outbox))
    run([b"b"])
    run([b"\xff"])
    outbox.clear()
    assert list(taken(outbox)) == []


def test_sinks_dead_letters_and_printed_text_ride_on_the_carrier(make, dead_letters):
    plan = make.plan(make.pipeline("p"))
    outbox = Outbox(plan)
    run = source_line(plan, outbox, plan.application.pipelines[0])
    run((b"a", b"\xff", b"b"))
    outbox.printed.write("é\udc80\n")
    shares = [[], []]
    outbox.share_out(12, shares, 1)
    nothing, (sink, dead, printed) = shares
    assert nothing == []
    assert sink == Chunk(0, 12, 2, b"a\nb\n", array("I", [2, 2]))
    assert (dead.part, dead.number) == (12, 1)
    assert len(dead_letters([dead])) == 1
    assert printed == Chunk(PRINTED, 12, 0, "é?\n".encode())
    assert taken(outbox) == []


def test_too_much_printed_text_is_truncated(outbox_of):
    _, outbox, _ = outbox_of()
    outbox.printed.write("x" * 1_000_000)
    (chunk,) = taken(outbox)
    assert chunk.route == PRINTED
    assert 1000 <= len(chunk.body) <= 100_000


def test_keys_that_were_not_listed_travel_like_others(outbox_of):
    plan, outbox, run = outbox_of(keys=["a", "b"])
    run((b"a1", b"x1", b"b1", b"x2"))
    chunks = list(taken(outbox))
    groups = {key: some for groups in by_bucket(plan, chunks).values() for key, some in groups.items()}
    assert groups == {"a": ["a1"], "b": ["b1"], "x": ["x1", "x2"]}
    assert {chunk.route for chunk in chunks} == {0}


def test_keys_that_were_not_listed_are_dead_letters(outbox_of, dead_letters):
    plan, outbox, run = outbox_of(keys=["a", "b"], strict_keys=True)
    for _ in range(2):
        run((b"a1", b"x1", b"b1", b"x2"))
        chunks = list(taken(outbox))
        messages = [each for groups in by_bucket(plan, chunks).values() for some in groups.values() for each in some]
        assert sorted(messages) == ["a1", "b1"]
        records = dead_letters(chunks)
        assert [(record["message"], record["key"]) for record in records] == [("'x1'", "'x'"), ("'x2'", "'x'")]
        assert "the key 'x', which is not among the 2 partition keys of state 'state'" in records[0]["error"]


def test_a_single_listed_key_is_counted_in_the_singular(outbox_of, dead_letters):
    _, outbox, run = outbox_of(keys=["a"], strict_keys=True)
    run((b"x1",))
    (record,) = dead_letters(list(taken(outbox)))
    assert "which is not among the 1 partition key of state 'state'" in record["error"]


def test_a_partition_function_that_raises_or_gives_an_unhashable_key_loses_only_its_message(outbox_of, dead_letters):
    def key(data):
        return {"a": "a", "list": ["not", "a", "key"], "tuple": ("a", [])}[data]

    plan, outbox, run = outbox_of(key=key)
    run((b"a", b"list", b"missing", b"tuple", b"a"))
    chunks = list(taken(outbox))
    assert list(by_bucket(plan, chunks).values()) == [{"a": ["a", "a"]}]
    records = dead_letters(chunks)
    assert [record["message"] for record in records] == ["'list'", "'missing'", "'tuple'"]
    assert "unhashable type: 'list'" in records[0]["error"]
    assert {record["step"] for record in records} == {"count"}


def test_a_single_state_has_one_bucket_and_no_keys(make):
    plan = make.plan(make.pipeline("p", make.state_step(count, key=None)), buckets=16)
    outbox = Outbox(plan)
    run = source_line(plan, outbox, plan.application.pipelines[0])
    run((b"a", b"b"))
    assert list(by_bucket(plan, taken(outbox)).values()) == [{None: ["a", "b"]}]


def test_messages_that_cannot_be_pickled_are_dead_letters_and_the_others_continue(make, outbox_of, dead_letters):
    def lock(data):
        return (data[0], threading.Lock()) if data.endswith("!") else (data[0], data)

    plan, outbox, run = outbox_of(steps=[make.step(lock)])
    run((b"a1", b"a!", b"b!", b"a2", b"c3"))
    chunks = list(taken(outbox))
    groups = {key: some for groups in by_bucket(plan, chunks).values() for key, some in groups.items()}
    assert groups == {"a": [("a", "a1"), ("a", "a2")], "c": [("c", "c3")]}
    assert sum(chunk.number for chunk in chunks if chunk.route >= 0) == 3
    records = dead_letters(chunks)
    assert sorted(record["key"] for record in records) == ["'a'", "'b'"]
    assert all("cannot pickle" in record["error"] for record in records)
    assert all(record["encoding"] == "repr" for record in records)


def test_the_applications_own_serialisation_packs_each_message(outbox_of, dead_letters):
    packed = []

    def serialize(data):
        packed.append(data)
        return data.encode("utf-16")

    rest = {"serialize": serialize, "deserialize": lambda bs: bs.decode("utf-16"), "strict_keys": True}
    plan, outbox, run = outbox_of(keys=["a"], **rest)
    run((b"a1", b"a2", b"x"))
    chunks = list(taken(outbox))
    (group,) = by_bucket(plan, chunks).values()
    assert group == {"a": ["a1", "a2"]}
    assert set(packed) == {"a1", "a2", "x"}
    assert "a1".encode("utf-16") in next(chunk.body for chunk in chunks if chunk.route == 0)
    (record,) = dead_letters(chunks)
    assert (record["encoding"], base64.b64decode(record["payload"])) == ("serialize", "x".encode("utf-16"))


def test_a_dead_letter_has_all_fields(make, dead_letters):
    def refuse(data):
        raise ValueError("no")

    plan = make.plan(make.pipeline("the pipeline", make.step(refuse)))
    outbox = Outbox(plan)
    outbox.current.begin(lambda: {"source": "s", "position": 42}, lambda: 42)
    source_line(plan, outbox, plan.application.pipelines[0])([b"hello" * 1000])
    (record,) = dead_letters(taken(outbox))
    assert record["time"] > 1.7e9
    assert pickle.loads(base64.b64decode(record["payload"])) == "hello" * 1000
    assert len(record["message"]) < 600
    told = {name: record[name] for name in ("pipeline", "step", "key", "source", "position", "encoding", "error")}
    assert told == {
        "pipeline": "the pipeline",
        "step": "refuse",
        "key": None,
        "source": "s",
        "position": 42,
        "encoding": "pickle",
        "error": "ValueError: no",
    }


class Mute:
    """An object without a usable repr."""

    def __init__(self, name):
        self.name = name

    def __eq__(self, other):
        return isinstance(other, Mute) and self.name == other.name

    def __hash__(self):
        return hash(self.name)

    def __repr__(self):
        raise RuntimeError("no words")

    def __reduce__(self):
        raise TypeError("no pickle either")


def test_messages_and_keys_without_a_repr_are_still_described(outbox_of, make, dead_letters):
    _, outbox, run = outbox_of(steps=[make.step(Mute)], key=lambda data: data, keys=["a"], strict_keys=True)
    run([b"a"])
    (record,) = dead_letters(taken(outbox))
    assert "Mute object at" in record["message"]
    assert "Mute object at" in record["key"]
