"""The oracle finds what it is there to find: each test damages a run that was in order."""

import random
from collections import Counter, defaultdict

import pytest

from .oracle import Known, Received, Sent, judge, judge_topic

KEYS = ["a", "b", "c"]
BLOCKS = {0: 0, 1: 40, 2: 90, 3: 160}
"""After how many messages each block ends."""


def run_of(sent):
    """Return the lines for all messages of some connections in turn: what an exact application puts out."""
    totals, last, lines = Counter(), defaultdict(int), []
    longest = max(len(record.keys) for record in sent.values())
    for number in range(1, longest + 1):
        for name, record in sent.items():
            if number <= len(record.keys):
                key = record.keys[number - 1]
                totals[key] += 1
                lines.append(f"{key} {name} {number} {last[key, name]} {totals[key]}\n".encode())
                last[key, name] = number
    return lines


@pytest.fixture
def sent():
    choose = random.Random(1)
    return {name: Sent(choose.choices(KEYS, k=80), accepted=True) for name in ("x", "y")}


@pytest.fixture
def lines(sent):
    return run_of(sent)


def received(*connections, recorded=-1, part=(-1, 0)):
    """Return connections, the second and later ones made when the blocks were known and `recorded` was the last."""
    known = [Known(), *[Known(recorded, BLOCKS, part)] * len(connections)]
    return [Received(b"".join(lines), known) for lines, known in zip(connections, known, strict=False)]


def violations(sent, *connections, **known):
    return judge(sent, received(*connections, **known)).violations


def test_a_run_in_order_holds(sent, lines):
    verdict = judge(sent, received(lines))
    assert not verdict.violations
    assert (verdict.messages, verdict.repeats, verdict.repeated_blocks) == (160, 0, 0)


def test_a_whole_block_may_come_again_on_a_new_connection(sent, lines):
    verdict = judge(sent, received(lines[:60], lines[40:], recorded=1))
    assert not verdict.violations
    assert (verdict.messages, verdict.repeats, verdict.repeated_blocks) == (160, 20, 1)


def test_a_line_cut_off_is_part_of_the_block_that_comes_again(sent, lines):
    torn = lines[60][:-4]
    assert not violations(sent, [*lines[:60], torn], lines[40:], recorded=1)
    assert not violations(sent, [*lines[:40], lines[40][:3]], lines[40:], recorded=1)
    assert not violations(sent, [*lines[:60], torn], lines[40:50], [b"a x"], lines[40:], recorded=1)


def test_a_resumed_block_that_does_not_continue_the_cut_off_line_is_found(sent, lines):
    assert violations(sent, [*lines[:40], b"b y 5"], lines[40:], recorded=1)


@pytest.mark.parametrize("missing", [0, 77, 159])
def test_a_lost_line_is_found(sent, lines, missing):
    assert violations(sent, lines[:missing] + lines[missing + 1 :])


def test_a_lost_end_is_found_only_if_it_was_accepted(sent, lines):
    assert violations(sent, lines[:158])
    for record in sent.values():
        record.accepted = False
    assert not violations(sent, lines[:158])


def test_a_gap_is_found_even_if_it_is_unknown_what_was_accepted(sent):
    sent["y"].accepted = False
    fewer = run_of({"x": sent["x"], "y": Sent(sent["y"].keys[:50])})
    assert not violations(sent, fewer)
    assert violations(sent, [line for line in fewer if not line.startswith(b"a y")])


def test_a_line_that_comes_twice_is_found(sent, lines):
    assert violations(sent, [*lines[:70], lines[69], *lines[70:]])


def test_a_message_that_was_computed_twice_is_found(sent):
    sent["x"].keys[10] = sent["x"].keys[9] = "a"
    lines = run_of(sent)
    twice = [line.replace(b" x 11 ", b" x 10 ") for line in lines]
    assert violations(sent, twice)


def test_a_wrong_order_is_found(sent, lines):
    first, second = [place for place, line in enumerate(lines) if line.startswith(b"a ")][10:12]
    lines[first], lines[second] = lines[second], lines[first]
    assert violations(sent, lines)


def test_a_state_that_went_back_is_found(sent, lines):
    key, connection, number, last, total = lines[100].split()
    lines[100] = b" ".join([key, connection, number, last, b"%d\n" % (int(total) - 1)])
    assert violations(sent, lines)


def test_a_message_that_was_not_sent_is_found(sent, lines):
    assert violations(sent, [*lines, b"d x 81 0 1\n"])
    assert violations(sent, [*lines, b"d \xff x\n"])


def test_a_repeat_of_a_block_that_was_recorded_is_found(sent, lines):
    assert violations(sent, lines[:60], lines[40:], recorded=2)


def test_a_repeat_of_two_blocks_is_found(sent, lines):
    assert violations(sent, lines[:100], lines[40:], recorded=1)


def test_a_repeat_of_a_part_of_a_block_is_found(sent, lines):
    assert violations(sent, lines[:60], lines[50:], recorded=1)


def test_a_block_may_resume_at_its_recorded_position(sent, lines):
    size = sum(map(len, lines[40:55]))
    verdict = judge(sent, received(lines[:60], lines[55:], recorded=1, part=(2, size)))
    assert not verdict.violations
    assert verdict.repeats == 5
    assert violations(sent, lines[:60], lines[55:], recorded=1, part=(2, size - 30))
    assert violations(sent, lines[:60], lines[55:], recorded=1, part=(3, size))


def test_a_block_that_was_noted_to_have_got_further_than_it_has_is_found(sent, lines):
    size = sum(map(len, lines[40:70]))
    assert violations(sent, lines[:60], lines[70:], recorded=1, part=(2, size))


def test_a_connection_that_starts_inside_a_block_is_found(sent, lines):
    assert violations(sent, lines[:60], lines[60:], recorded=1)


def test_a_repeat_in_another_order_is_found(sent, lines):
    again = [*reversed(lines[40:60]), *lines[60:]]
    assert violations(sent, lines[:60], again, recorded=1)


@pytest.fixture
def topic(lines):
    """Return what a topic of two partitions has: by partition, keys and values in order."""
    found = defaultdict(list)
    for line in lines:
        key = line.decode().split()[0]
        found[KEYS.index(key) % 2].append((key, line.rstrip()))
    return found


def in_topic(sent, topic, seen=None):
    """Return what is wrong with a topic, while a consumer has seen the same, or something else, all the time."""
    values = {partition: [value for _, value in records] for partition, records in topic.items()}
    return judge_topic(sent, topic, values if seen is None else seen).violations


def test_a_topic_in_order_holds(sent, topic):
    assert not in_topic(sent, topic)


def test_in_a_topic_lost_repeated_and_swapped_messages_are_found(sent, topic):
    whole = topic[0]
    topic[0] = whole[:-1]
    assert in_topic(sent, topic)
    topic[0] = [*whole, whole[-1]]
    assert in_topic(sent, topic)
    topic[0] = whole + whole[20:]
    assert in_topic(sent, topic)
    first, second = [place for place, (key, _) in enumerate(whole) if key == "a"][5:7]
    topic[0] = list(whole)
    topic[0][first], topic[0][second] = whole[second], whole[first]
    assert in_topic(sent, topic)


def test_a_key_in_two_partitions_or_with_another_name_is_found(sent, topic):
    whole = topic[1]
    topic[1] = [*whole[:-1], ("a", whole[-1][1])]
    assert in_topic(sent, topic)
    topic[1] = whole
    topic[0], topic[2] = topic[0][:-1], topic[0][-1:]
    assert in_topic(sent, topic)


def test_what_was_seen_and_is_no_longer_there_is_found(sent, topic):
    values = {partition: [value for _, value in records] for partition, records in topic.items()}
    assert in_topic(sent, topic, {**values, 0: [*values[0], b"a x 99 0 1"]})
    assert in_topic(sent, topic, {**values, 0: values[0][:-1]})
