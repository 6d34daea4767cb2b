"""Workers without Spark: blocks, first stage, stages with state, commits, chained as the query chains them."""

import gc
import json
import random
import sys
from collections import Counter, defaultdict
from itertools import count

import pytest
from tests.engine.blocks import Blocks

from wallaroo.engine.stages import worker
from wallaroo.engine.stages.stdout_capture import CapturedStream
from wallaroo.engine.transport.shuffle_format import UNLISTED_KEYS
from wallaroo.errors import WallarooError

TEXT = ["the", "the", "the", "cat", "and", "dog", "bird", "saw", "that", "a"]


def split(line):
    return line.split()


def first_letter(word):
    return word[0]


def count_word(word, totals):
    totals[word] = totals.get(word, 0) + 1
    return (word, totals[word]), True


def count_pairs(pair, seen):
    seen["n"] = seen.get("n", 0) + 1
    return (*pair, seen["n"]), True


def length_of(pair):
    return len(pair[0])


@pytest.fixture(autouse=True)
def unfreeze():
    """Undo what a worker does to the garbage collector of its process."""
    yield
    gc.unfreeze()


def text(number, seed=3):
    chance = random.Random(seed)
    return [" ".join(chance.choices(TEXT, k=8)).encode() for _ in range(number)]


def counted(lines):
    totals, outputs = Counter(), []
    for line in lines:
        for word in line.decode().split():
            totals[word] += 1
            outputs.append((word, totals[word]))
    return outputs


def by_key(outputs, key=lambda output: output[0]):
    found = defaultdict(list)
    for output in outputs:
        found[key(output)].append(output)
    return found


def evaluated(sent):
    return [eval(line) for line in sent.decode().splitlines()]


@pytest.mark.parametrize("partitions", [1, 2, 3, 8])
@pytest.mark.parametrize("buckets", [1, 7, 128])
def test_word_count_with_any_tasks_and_commits(make, tmp_path, partitions, buckets):
    line = make.pipeline("p", make.step(split, multi=True), make.state_step(count_word, key=first_letter))
    blocks = Blocks(make.plan(line, buckets=buckets), tmp_path, workers=3, partitions=partitions, seed=buckets)
    lines = text(120)
    for start in range(0, len(lines), 8):
        blocks.run(("p", lines[start : start + 8]))
        if start % 24 == 16:
            blocks.commit()
    assert by_key(evaluated(blocks.sent[1])) == by_key(counted(lines))


def test_the_order_of_outputs_does_not_depend_on_how_many_tasks_there_are(make, tmp_path):
    lines = text(60)
    sent = []
    for partitions in (1, 2, 5):
        line = make.pipeline("p", make.step(split, multi=True), make.state_step(count_word, key=first_letter))
        blocks = Blocks(make.plan(line, buckets=32), tmp_path / str(partitions), partitions=partitions)
        for start in range(0, len(lines), 20):
            blocks.run(("p", lines[start : start + 20]))
        sent.append(blocks.sent[1])
    assert sent[0] == sent[1] == sent[2]


def test_after_a_further_state_the_order_of_each_key_does_not_depend_on_it_either(make, tmp_path):
    def note(pair, seen):
        seen.setdefault("pairs", []).append(pair)
        return (len(pair[0]), list(seen["pairs"])), True

    found = []
    for partitions in (1, 2, 5):
        line = make.pipeline(
            "p",
            make.step(split, multi=True),
            make.state_step(count_word, key=first_letter),
            make.state_step(note, state="pairs", key=length_of),
        )
        blocks = Blocks(make.plan(line, buckets=32), tmp_path / str(partitions), partitions=partitions)
        for start in range(0, 40, 20):
            blocks.run(("p", text(40)[start : start + 20]))
        found.append(blocks.sent[2])
    assert by_key(evaluated(found[0])) == by_key(evaluated(found[1])) == by_key(evaluated(found[2]))
    # The order between keys does.
    assert len(set(found)) > 1


def test_what_was_not_committed_is_computed_again_and_comes_out_the_same(make, tmp_path):
    line = make.pipeline("p", make.step(split, multi=True), make.state_step(count_word, key=first_letter))
    blocks = Blocks(make.plan(line), tmp_path, workers=2)
    lines = text(40)
    blocks.run(("p", lines[:10]))
    blocks.commit()
    first = [blocks.run(("p", lines[10:20])), blocks.run(("p", lines[20:30]))]
    blocks.crash()
    blocks.chance.seed(5)
    again = blocks.run()
    assert again[1] == first[0][1] + first[1][1]
    blocks.commit()
    blocks.run(("p", lines[30:]))
    assert by_key(evaluated(blocks.sent[1])) == by_key(counted(lines)[80:])


def test_the_next_run_resumes_with_another_number_of_tasks(make, tmp_path):
    line = make.pipeline("p", make.step(split, multi=True), make.state_step(count_word, key=first_letter))
    lines = text(60)
    blocks = Blocks(make.plan(line, buckets=16), tmp_path, partitions=2)
    blocks.run(("p", lines[:20]))
    blocks.commit()
    blocks.run(("p", lines[20:40]))
    blocks = blocks.restart(partitions=5)
    blocks.run(("p", lines[40:]))
    assert by_key(evaluated(blocks.sent[1])) == by_key(counted(lines)[160:])


def test_two_consecutive_states(make, tmp_path):
    line = make.pipeline(
        "p",
        make.step(split, multi=True),
        make.state_step(count_word, key=first_letter),
        make.state_step(count_pairs, state="pairs", key=length_of),
    )
    blocks = Blocks(make.plan(line, buckets=16), tmp_path, workers=2, partitions=3)
    lines = text(60)
    for start in range(0, 60, 10):
        blocks.run(("p", lines[start : start + 10]))
        blocks.commit()
    sent = evaluated(blocks.sent[2])
    numbers = by_key(sent, lambda output: len(output[0]))
    assert all([output[2] for output in some] == list(range(1, len(some) + 1)) for some in numbers.values())
    assert sorted(output[:2] for output in sent) == sorted(counted(lines))


def test_pipelines_that_meet_in_a_state_are_computed_in_the_order_in_which_they_were_accepted(make, tmp_path):
    def note(word, state):
        state.setdefault("seen", []).append(word)
        return f"{word} after {len(state['seen']) - 1}", True

    first = make.pipeline("first", make.state_step(note, state="shared", key=None))
    second = make.pipeline("second", make.state_step(note, state="shared", key=None), port=5)
    blocks = Blocks(make.plan(first, second), tmp_path, partitions=2)
    numbers = count()
    expected = {1: [], 3: []}
    chance = random.Random(1)
    for _ in range(20):
        ranges = []
        for _ in range(chance.randrange(1, 6)):
            source = chance.choice(["first", "second"])
            words = [f"{source}{next(numbers)}" for _ in range(chance.randrange(1, 4))]
            ranges.append((source, [word.encode() for word in words]))
            already = sum(map(len, expected.values()))
            expected[1 if source == "first" else 3] += [f"{word} after {already + n}" for n, word in enumerate(words)]
        blocks.run(*ranges)
    assert {route: sent.decode().splitlines() for route, sent in blocks.sent.items()} == expected


def test_without_a_state_the_order_of_the_input_is_kept(make, tmp_path):
    blocks = Blocks(make.plan(make.pipeline("p", make.step(str.upper))), tmp_path, partitions=4)
    for start in range(0, 100, 10):
        blocks.run(("p", [f"m{number}".encode() for number in range(start, start + 10)]))
    assert blocks.sent[0].decode().split() == [f"M{number}" for number in range(100)]


def test_an_error_leaves_no_trace_in_a_state_however_long_ago_it_was_committed(make, tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "_KEPT_AT_MOST", 300)

    def fail_at_times(word, totals):
        totals["all"] = totals.get("all", 0) + 1
        if word.endswith("!"):
            raise ValueError(word)
        return (word[0], totals["all"]), True

    line = make.pipeline("p", make.state_step(fail_at_times, key=first_letter))
    blocks = Blocks(make.plan(line), tmp_path, workers=2)
    chance = random.Random(2)
    words = [chance.choice("abc") + ("!" if chance.random() < 0.1 else "") for _ in range(300)]
    for start in range(0, 300, 10):
        blocks.run(("p", [word.encode() for word in words[start : start + 10]]))
        if start == 150:
            blocks.commit()
    good = Counter()
    expected = []
    for word in words:
        if not word.endswith("!"):
            good[word] += 1
            expected.append((word, good[word]))
    assert by_key(evaluated(blocks.sent[1])) == by_key(expected)
    assert sorted(letter["position"] for letter in blocks.letters) == [n for n, w in enumerate(words) if w[1:]]


def test_messages_of_a_pipeline_that_is_gone_are_not_dropped(make, tmp_path):
    blocks = Blocks(make.plan(make.pipeline("p"), make.pipeline("q", port=5)), tmp_path)
    blocks.append(("q", [b"x"]))
    blocks.plan = make.plan(make.pipeline("p"))
    again = blocks.restart()
    with pytest.raises(WallarooError, match="'q', which the application no longer has"):
        again.run()


def test_what_user_code_prints_comes_with_its_block(make, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdout", CapturedStream(sys.stdout))

    def shout(word):
        print(word.upper())
        return word

    line = make.pipeline("p", make.step(shout), make.state_step(count_word, key=first_letter))
    blocks = Blocks(make.plan(line), tmp_path)
    blocks.run(("p", [b"one", b"two"]))
    assert blocks.printed == "ONE\nTWO\n"


def test_states_for_keys_that_were_not_listed_are_counted_where_they_are_made(make, tmp_path):
    line = make.pipeline("p", make.state_step(count_word, state="words", key=first_letter, keys=["a", "b"]))
    blocks = Blocks(make.plan(line), tmp_path, workers=2)

    def made(*words):
        blocks.append(("p", list(words)))
        (block,) = blocks.sequence.read_from(blocks.done)
        blocks.done = block.number + 1
        chunks = [chunk for chunk in blocks.chunks_of(block) if chunk.route == UNLISTED_KEYS]
        told = [json.loads(bytes(chunk.body)) for chunk in chunks]
        assert all(set(each) == {"words"} for each in told)
        return sum(each["words"][0] for each in told), {each["words"][1] for each in told}

    number, examples = made(b"a", b"x1", b"x2", b"y", b"z")
    assert number == 3
    assert examples <= {"'x'", "'y'", "'z'"}
    assert made(b"x", b"y", b"b") == (0, set())
    blocks.commit()
    assert made(b"z", b"w", b"a") == (1, {"'w'"})


def test_at_the_end_of_an_epoch_only_what_was_touched_in_it_is_written(make, tmp_path):
    def count_unsaved(word, totals):
        return count_word(word, totals)[0], word != "unsaved"

    blocks = Blocks(make.plan(make.pipeline("p", make.state_step(count_unsaved)), buckets=64), tmp_path, partitions=1)

    def epoch(*words):
        if words:
            blocks.run(("p", list(words)))
        stage, files = blocks.stages[0, 0]
        assert not stage.end()
        changed = files.changed()
        files.begin_epoch()
        blocks.commits.commit(blocks.done, changed, {})
        return len(changed)

    assert epoch(b"a", b"b", b"c", b"unsaved") == 4
    assert epoch(b"b") == 1
    assert epoch() == 0
    assert epoch(b"a", b"b") == 2
    # What the next run finds is all there, also what has not been touched for long, and what is not to last.
    blocks.crash()
    again = ["('a', 3)", "('b', 4)", "('c', 2)", "('unsaved', 2)"]
    assert sorted(blocks.run(("p", [b"a", b"b", b"c", b"unsaved"]))[1]) == again


def test_states_that_are_no_longer_needed_leave_the_disk(make, tmp_path):
    line = make.pipeline("p", make.state_step(count_word, key=first_letter))
    blocks = Blocks(make.plan(line), tmp_path)
    for number in range(60):
        blocks.run(("p", [b"a%d" % (number % 3), b"b"]))
        blocks.commit()
    files = list((tmp_path / "states").iterdir())
    assert len(files) < 20
    again = blocks.restart()
    assert again.run(("p", [b"b"]))[1] == ["('b', 61)"]
