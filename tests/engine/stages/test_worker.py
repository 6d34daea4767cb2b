"""A worker without Spark: log, first stage, stages with state and sinks, chained as the query chains them."""

import base64
import gc
import random
import sys
import weakref
from array import array
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from tests.engine.query import Query

from wallaroo.engine.stages.stdout_capture import CapturedStream
from wallaroo.engine.transport.shuffle_format import BLOCK, DEAD_LETTERS, PRINTED, Chunk, pack_share, unpack_share
from wallaroo.errors import WallarooError
from wallaroo.ingress.block_sequence import SequencedBlock
from wallaroo.topology.model import Computation

TEXT = ["the", "the", "the", "cat", "and", "dog", "bird", "saw", "that", "a"]


def split(line):
    return line.split()


def first_letter(word):
    return word[0]


def count_word(word, totals):
    totals[word] = totals.get(word, 0) + 1
    return (word, totals[word]), True


@pytest.fixture(autouse=True)
def unfreeze():
    """Undo what a worker does to the garbage collector of its process."""
    yield
    gc.unfreeze()


@pytest.fixture
def lines():
    chance = random.Random(3)
    return [" ".join(chance.choices(TEXT, k=8)).encode() for _ in range(200)]


def counted(lines):
    """Return the outputs of word count, each with how often it comes: once."""
    totals, outputs = Counter(), []
    for line in lines:
        for word in line.decode().split():
            totals[word] += 1
            outputs.append(str((word, totals[word])))
    return outputs


def of_word(outputs):
    """Return the outputs of each word in their order."""
    found = defaultdict(list)
    for output in outputs:
        found[eval(output)[0]].append(output)
    return found


@pytest.mark.parametrize(("partitions", "buckets"), [(1, 1), (1, 4), (2, 2), (2, 8), (3, 7), (8, 32)])
def test_word_count_in_any_layout(make, tmp_path, lines, partitions, buckets):
    line = make.pipeline("p", make.step(split, multi=True), make.state_step(count_word, key=first_letter))
    query = Query(make.plan(line, buckets=buckets), tmp_path, workers=2, partitions=partitions)
    outputs = []
    for start in range(0, len(lines), 50):
        query.append("p", lines[start : start + 50])
        outputs += query.output(tasks=partitions)[1]
    assert of_word(outputs) == of_word(counted(lines))


def test_a_moved_bucket_finds_its_state_in_the_store(make, tmp_path):
    line = make.pipeline("p", make.state_step(count_word, key=first_letter))
    query = Query(make.plan(line, buckets=1), tmp_path, workers=3)
    for number in range(12):
        query.append("p", [b"word"])
        query.choose = lambda workers, chosen=number % 3: workers[chosen]
        assert query.output() == {1: [f"('word', {number + 1})"]}


def test_an_attempt_that_never_commits_changes_nothing(make, tmp_path):
    line = make.pipeline("p", make.state_step(count_word, key=first_letter))
    query = Query(make.plan(line, buckets=2), tmp_path)
    query.append("p", [b"word", b"other"])
    query.output()
    query.append("p", [b"word", b"more"])
    query.cut(1)
    first = query.compute_all()
    query.crash()
    assert query.output() == first
    assert sorted(first[1]) == ["('more', 1)", "('word', 2)"]


class TaskKilledError(BaseException):
    """Ends a task wherever it is, as Spark may."""


def test_a_task_that_dies_half_way_changes_nothing(make, tmp_path):
    def count_and_die(data, totals):
        totals["count"] = totals.get("count", 0) + 1
        if data == "die" and not (tmp_path / "mended").exists():
            raise TaskKilledError
        return totals["count"], True

    line = make.pipeline("p", make.step(str), make.state_step(count_and_die, key=None))
    query = Query(make.plan(line), tmp_path)
    query.append("p", [b"a"])
    assert query.output() == {1: ["1"]}
    query.append("p", [b"b", b"die", b"c"])
    query.cut(1)
    for _ in range(2):
        with pytest.raises(TaskKilledError):
            query.compute_all()
        query.crash()
    (tmp_path / "mended").touch()
    assert query.output() == {1: ["2", "3", "4"]}


def count_pairs(pair, state):
    state["pairs"] = state.get("pairs", 0) + 1
    return f"{pair[0]} {pair[1]} {state['pairs']}", True


def test_states_in_a_chain_run_level_after_level(make, tmp_path, lines):
    line = make.pipeline(
        "p",
        make.step(split, multi=True),
        make.state_step(count_word, key=first_letter, state="words"),
        make.state_step(count_pairs, key=lambda pair: pair[1] % 3, state="thirds"),
    )
    query = Query(make.plan(line, buckets=4), tmp_path, workers=2)
    query.append("p", lines)
    outputs = query.output()[2]
    assert Counter(output.rpartition(" ")[0] for output in outputs) == Counter(
        "{} {}".format(*eval(output)) for output in counted(lines)
    )
    thirds = defaultdict(list)
    for output in outputs:
        _, count, pairs = output.split()
        thirds[int(count) % 3].append(int(pairs))
    assert all(sorted(pairs) == list(range(1, len(pairs) + 1)) for pairs in thirds.values())


def test_pipelines_share_a_state_and_skip_the_levels_of_others(make, tmp_path):
    def hello(data):
        return f"hello {data}"

    one = make.pipeline("one", make.state_step(count_word, key=first_letter, state="words"))
    two = make.pipeline("two", make.state_step(count_word, key=first_letter, state="words"))
    plain = make.pipeline("plain", make.step(hello))
    single = make.pipeline("single", make.state_step(count_word, key=None, state="single"))
    query = Query(make.plan(one, two, plain, single, buckets=3), tmp_path)
    for pipeline in query.plan.application.pipelines:
        query.append(pipeline.name, [b"cat", b"dog", b"cat"])
    numbers = {route.pipeline.name: route.number for route in query.plan.routes if not hasattr(route, "step")}
    output = query.output()
    assert sorted(output[numbers["one"]]) == ["('cat', 1)", "('cat', 2)", "('dog', 1)"]
    assert sorted(output[numbers["two"]]) == ["('cat', 3)", "('cat', 4)", "('dog', 2)"]
    assert output[numbers["plain"]] == ["hello cat", "hello dog", "hello cat"]
    assert output[numbers["single"]] == ["('cat', 1)", "('dog', 1)", "('cat', 2)"]


def test_sinks_get_the_order_of_the_input(make, tmp_path):
    line = make.pipeline("p", make.step(int), encoders=[lambda data: f"{data}\n", lambda data: f"{data * 2}\n"])
    query = Query(make.plan(line), tmp_path, partitions=4)
    query.append("p", [b"%d" % number for number in range(500)], block=7)
    output = query.output(tasks=4)
    assert output == {0: [str(n) for n in range(500)], 1: [str(2 * n) for n in range(500)]}


def test_large_input_goes_out_in_parts_that_keep_their_order(make, tmp_path):
    line = make.pipeline("p", make.state_step(count_word, key=None))
    query = Query(make.plan(line), tmp_path)
    query.append("p", [b"x" * 2000 + b"%05d" % number for number in range(4000)], block=100)
    query.cut(1)
    assert len(first_stage(query)) > 2
    output = query.output()[1]
    assert [eval(line)[0][-5:] for line in output] == [f"{number:05d}" for number in range(4000)]


def fan_out(data):
    return [f"{data}{number}" for number in range(int(data))]


def first_stage(query):
    """Return what the first stage makes of the blocks that have been cut."""
    blocks = query.sequence.read_from(query.done)
    shares = [share for block in blocks for share in query.workers[0].run_first(block, query.partitions)]
    return [chunk for share in shares for chunk in share if chunk.route != BLOCK]


def messages_in_parts(chunks):
    found = Counter()
    for chunk in chunks:
        found[chunk.part] += chunk.number
    return found.values()


@pytest.mark.parametrize("before", [0, 3000, 100_000])
def test_a_message_that_becomes_thousands_does_not_fill_the_memory(make, tmp_path, before):
    line = make.pipeline("p", make.step(fan_out, multi=True), make.state_step(count_word, key=len))
    query = Query(make.plan(line), tmp_path)
    # It may do so late.
    payloads = [b"0001"] * before + [b"5000"] * 200
    query.append("p", payloads, block=1000)
    query.cut(1)
    chunks = first_stage(query)
    assert sum(chunk.number for chunk in chunks) == before + 200 * 5000
    assert max(messages_in_parts(chunks)) <= 105_000
    # The parts keep the order, and nothing is left out between them.
    output = query.output()[1]
    assert sorted(output) == sorted(f"('{word}', {count})" for word, count in fanned_out(payloads))


def fanned_out(payloads):
    """Yield what `count_word` has to give for each word of a fan-out, in order."""
    counts = Counter()
    for payload in payloads:
        for word in fan_out(payload.decode()):
            counts[word] += 1
            yield word, counts[word]


def test_a_state_that_gives_thousands_for_a_message_does_not_fill_the_memory(make, tmp_path):
    def tell(data, state):
        state["count"] = state.get("count", 0) + 1
        return [f"{state['count']} {number}" for number in range(int(data))], True

    line = make.pipeline("p", make.state_step(tell, key=None, multi=True))
    query = Query(make.plan(line), tmp_path)
    for _ in range(8):
        # Each time half a MiB of the log is a chunk.
        query.append("p", [b" " * 65536 + b"5000"] * 8, block=1)
    chunks = query.chunks(tasks=1)
    assert len(chunks) > 2
    assert max(messages_in_parts(chunks)) <= 140_000
    output = b"".join(chunk.body for chunk in chunks).decode().splitlines()
    assert output == [f"{count} {number}" for count in range(1, 65) for number in range(5000)]


class TestDeadLetters:
    def test_a_failing_message_is_reported_with_its_position(self, make, tmp_path, dead_letters):
        def invert(data):
            return 1 // int(data)

        query = Query(make.plan(make.pipeline("p", make.step(invert))), tmp_path)
        query.append("p", [b"1", b"0", b"1", b"x", b"\xff", b"1", b"0"], block=2)
        records = dead_letters(query.chunks(tasks=3))
        assert [(record["source"], record["position"], record["step"]) for record in records] == [
            ("p", 1, "invert"),
            ("p", 3, "invert"),
            ("p", 4, "decoder"),
            ("p", 6, "invert"),
        ]

    def test_a_failing_state_computation_is_reported_with_its_key(self, make, tmp_path, dead_letters):
        def fail_on_b(data, state):
            if data.startswith("b"):
                raise ValueError(data)
            return data, True

        query = Query(make.plan(make.pipeline("p", make.state_step(fail_on_b, key=first_letter))), tmp_path)
        query.append("p", [b"a1", b"b1", b"a2"])
        chunks = query.chunks()
        (record,) = dead_letters(chunks)
        assert (record["step"], record["key"], record["error"]) == ("fail_on_b", "'b'", "ValueError: b1")
        assert b"".join(chunk.body for chunk in chunks if chunk.route != DEAD_LETTERS) == b"a1\na2\n"


def test_printed_text_travels_to_the_driver(make, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdout", CapturedStream(sys.stdout))

    def tell(data):
        print("stateless", data)
        return data

    def tell_state(data, state):
        print("stateful", data)
        return data, True

    query = Query(make.plan(make.pipeline("p", make.step(tell), make.state_step(tell_state))), tmp_path)
    query.append("p", [b"a"])
    printed = [chunk.body.decode() for chunk in query.chunks() if chunk.route == PRINTED]
    assert sorted(printed) == ["stateful a\n", "stateless a\n"]
    assert capsys.readouterr().out == ""


def test_classes_are_made_once_in_a_worker(make, tmp_path):
    made = []

    class Numbered:
        def __init__(self):
            made.append(self)

        def name(self):
            return "numbered"

        def compute(self, data):
            return data

    step = make.step(split)
    object.__setattr__(step, "target", Numbered)
    query = Query(make.plan(make.pipeline("p", step)), tmp_path)
    for _ in range(3):
        query.append("p", [b"a"])
        assert query.output() == {0: ["a"]}
    kind = query.workers[0].plan.application.pipelines[0].steps[0].target
    (instances,) = [cell.cell_contents for cell in kind.__init__.__closure__]
    assert len(instances) == 1


def test_messages_that_cannot_be_read_on_arrival_become_a_dead_letter(make, tmp_path, dead_letters):
    query = Query(make.plan(make.pipeline("p", make.state_step(count_word))), tmp_path)
    block = Chunk(BLOCK, 0, 0, SequencedBlock(0, 0, 1).pack())
    broken = Chunk(query.plan.routes[0].number, 0, 3, b"no pickle", array("I", [0, 3]))
    [onward, _] = query.stage(0, 0).run([[block, broken]])
    (record,) = dead_letters(onward)
    assert "3 messages that were packed together cannot be read" in record["error"]
    assert base64.b64decode(record["payload"]) == b"no pickle"


class OneWayKey:
    """A key of which a part, by which keys differ, is not sent."""

    def __init__(self, name, session=None):
        self.name, self.session = name, session

    def __eq__(self, other):
        return (self.name, self.session) == (other.name, other.session)

    def __hash__(self):
        return hash(self.name)

    def __reduce__(self):
        return OneWayKey, (self.name,)


def test_messages_whose_keys_are_equal_only_on_arrival_become_a_dead_letter(make, tmp_path, dead_letters):
    query = Query(make.plan(make.pipeline("p", make.state_step(count_word)), buckets=1), tmp_path)
    groups = {OneWayKey("a", 1): ["a"], OneWayKey("a", 2): ["a"], OneWayKey("b"): ["b"]}
    body = query.plan.serializer.dump_messages(groups)
    block = Chunk(BLOCK, 0, 0, SequencedBlock(0, 0, 1).pack())
    [onward, _] = query.stage(0, 0).run([[block, Chunk(0, 0, 3, body, array("I", [0, 3]))]])
    (record,) = dead_letters(onward)
    assert "3 messages that were packed together cannot be read: some of their keys" in record["error"]


class Row(bytearray):
    """Bytes that can be watched."""


def test_a_failed_message_does_not_keep_the_rows_of_others_in_memory(make, tmp_path):
    def fail_once(word, state):
        if word == "bad":
            raise ValueError(word)
        return word, True

    query = Query(make.plan(make.pipeline("p", make.state_step(fail_once)), buckets=1), tmp_path)
    stage = query.stage(0, 0)
    rows = []
    for number, word in enumerate(["bad", "good", "good"]):
        body = query.plan.serializer.dump_messages({"k": [word]})
        block = Chunk(BLOCK, 0, 0, SequencedBlock(number, 0, 1).pack())
        row = Row(pack_share([block, Chunk(0, 0, 1, body, array("I", [0, 1]))]))
        rows.append(weakref.ref(row))
        stage.run([unpack_share(memoryview(row))])
    del row
    gc.collect()
    assert [each() for each in rows] == [None] * 3


def test_a_step_that_cannot_be_made_in_a_worker_is_reported_before_the_first_message(make, tmp_path):
    class OnlyOnce:
        def __init__(self):
            # Each worker has its own copy, so what they share is on the disk.
            Path(tmp_path / "made").touch(exist_ok=False)

        def name(self):
            return "once"

        def compute(self, data):
            return data

    query = Query(make.plan(make.pipeline("p", Computation("once", OnlyOnce, multi=False))), tmp_path, workers=2)
    query.workers[0].prepare_sources()
    with pytest.raises(WallarooError, match=r"Pipeline 'p': .* cannot be made in a worker: FileExistsError"):
        query.workers[1].prepare_sources()
