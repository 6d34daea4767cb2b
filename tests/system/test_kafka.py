"""Applications from topic to topic, as whole processes, with a real broker."""

import random
import struct
import threading
import time
from collections import Counter, defaultdict
from itertools import pairwise

import pytest

from .harness import PATIENCE, Machida, send


def topics(kafka, source, sink):
    """Return the options of the original for both topics."""
    return (
        *("--kafka_source_topic", source, "--kafka_source_brokers", kafka.address),
        *("--kafka_sink_topic", sink, "--kafka_sink_brokers", kafka.address),
    )


def wait_for_outputs(kafka, topic, number, run):
    """Return the committed messages of a topic, when there are so many of them."""
    deadline = time.monotonic() + PATIENCE
    while len(found := kafka.consume(topic)) < number:
        assert time.monotonic() < deadline, f"{len(found)} of {number} outputs:\n{run.output}"
        time.sleep(0.2)
    return found


@pytest.mark.timeout(900)
def test_every_output_is_in_the_topic_once_after_a_kill(kafka, tmp_path):
    chosen = random.Random(1)
    words = [f"w{number}" for number in range(200)]
    lines = [" ".join(chosen.choices(words, k=5)) for _ in range(4500)]
    text, counts = kafka.create_topic(partitions=4), kafka.create_topic(partitions=3)

    def send(some):
        kafka.produce(text, [{"value": line, "partition": number % 4} for number, line in enumerate(some)])

    def start():
        runs.append(
            Machida(
                *("--application-module", "kafka_word_count", "--resilience-dir", str(tmp_path / "state")),
                *topics(kafka, text, counts),
            )
        )
        return runs[-1].wait_until_ready()

    runs = []
    try:
        run = start()
        send(lines[:1500])
        wait_for_outputs(kafka, counts, 5 * 1500, run)
        send(lines[1500:3000])
        # Somewhere in the middle of it.
        run.kill()
        send(lines[3000:])
        run = start()
        wait_for_outputs(kafka, counts, 5 * 4500, run)
        run.stop()
        found = kafka.consume(counts)
    finally:
        for each in runs:
            each.clean_up()
    by_word = defaultdict(list)
    for message in found:
        word, total = message.value().decode().split(" => ")
        assert message.key().decode() == word
        by_word[word].append(int(total))
    # Each total once, those of a word in order.
    expected = Counter(word for line in lines for word in line.split())
    assert dict(by_word) == {word: list(range(1, total + 1)) for word, total in expected.items()}
    assert sum(kafka.committed("lines").values()) == len(lines)


@pytest.mark.timeout(900)
def test_celsius_with_the_options_of_the_original(kafka, machida, tmp_path):
    celsius, fahrenheit = kafka.create_topic(partitions=2), kafka.create_topic()
    degrees = [[number / 8 - 40 for number in range(part, 3000, 2)] for part in range(2)]
    for part, some in enumerate(degrees):
        kafka.produce(celsius, [{"value": struct.pack(">f", each), "partition": part} for each in some])
    module = "--application-module", "kafka_celsius", "--resilience-dir", str(tmp_path / "state")
    run = machida(*module, *topics(kafka, celsius, fahrenheit)).wait_until_ready()
    found = wait_for_outputs(kafka, fahrenheit, 3000, run)
    run.stop()
    values = [struct.unpack(">d", message.value())[0] for message in found]
    expected = [[each * 1.8 + 32 for each in some] for some in degrees]
    # Exactly these; what was in one partition is in its order.
    assert Counter(values) == Counter(expected[0] + expected[1])
    assert [each for each in values if each in set(expected[0])] == expected[0]
    assert [each for each in values if each in set(expected[1])] == expected[1]
    assert {message.key() for message in found} == {None}


@pytest.mark.timeout(900)
def test_topics_and_connections_in_one_application_without_transactions_through_a_kill(
    kafka, machida, receiver, tmp_path
):
    chosen = random.Random(2)
    words = [f"{'wn'[number % 5 == 0]}{number}" for number in range(100)]
    lines = [" ".join(chosen.choices(words, k=5)) for _ in range(4000)]
    of_topic, of_connections = lines[:2000], lines[2000:]
    text, counts, receiving = kafka.create_topic(partitions=3), kafka.create_topic(partitions=3), receiver()

    def start():
        return machida(
            *("--application-module", "kafka_and_tcp", "--resilience-dir", str(tmp_path / "state")),
            *topics(kafka, text, counts),
            *("--in", "127.0.0.1:0", "--out", receiving.address),
        ).wait_until_ready()

    def send_both(run, first, last):
        """Send some of the lines on each way, both at the same time."""
        messages = [{"value": line, "partition": number % 3} for number, line in enumerate(of_topic[first:last])]
        producing = threading.Thread(target=kafka.produce, args=(text, messages))
        producing.start()
        send(run.address("connections"), of_connections[first:last])
        producing.join()

    run = start()
    send_both(run, 0, 1000)
    wait_for_outputs(kafka, counts, 1000, run)
    run.kill()
    run = start()
    send_both(run, 1000, 2000)
    expected = {word: list(range(1, total + 1)) for word, total in Counter(" ".join(lines).split()).items()}
    last = {f"{word} => {totals[-1]}".encode() for word, totals in expected.items()}
    run.wait_until(lambda: last <= {each.value() for each in kafka.consume(counts)}, "all outputs", pause=0.2)
    run.stop()

    found = kafka.consume(counts)
    by_partition = defaultdict(list)
    for message in found:
        by_partition[message.partition()].append(message.value().decode())
    once = {number: without_the_repeat(values) for number, values in by_partition.items()}
    assert totals_of(value for values in once.values() for value in values) == expected
    before, after = (connection.decode().splitlines() for connection in receiving.connections)
    if not receiving.connections[0].endswith(b"\n"):
        before.pop()  # The kill has cut it off, and its block was sent again.
    assert totals_of(without_the_repeat(before + after)) == expected
    assert {message.partition() for message in found if message.key().startswith(b"n")} == {2}
    # All others are where Kafka's own clients would write their keys.
    elsewhere = kafka.create_topic(partitions=3)
    kafka.produce(elsewhere, [{"value": b"", "key": word} for word in words], partitioner="murmur2")
    by_key = {message.key(): message.partition() for message in kafka.consume(elsewhere)}
    assert all(by_key[each.key()] == each.partition() for each in found if each.key().startswith(b"w"))


def without_the_repeat(values):
    """Return values in order without what a second run has repeated: the last of the first one, as they were."""
    places = {}
    again = next((place for place, value in enumerate(values) if places.setdefault(value, place) != place), len(values))
    first = places.get(values[again], again) if again < len(values) else again
    repeated = again - first
    assert values[again : again + repeated] == values[first:again]
    left = values[:again] + values[again + repeated :]
    assert len(set(left)) == len(left), "something else came again"
    return left


def totals_of(values):
    """Return the totals of each word, which have to be in order."""
    found = defaultdict(list)
    for value in values:
        word, total = value.split(" => ")
        found[word].append(int(total))
    assert all(one < other for totals in found.values() for one, other in pairwise(totals))
    return dict(found)
