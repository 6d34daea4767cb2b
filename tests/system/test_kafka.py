"""Applications from topic to topic, as whole processes, with a real broker."""

import random
import time
from collections import Counter, defaultdict

import pytest

from .harness import PATIENCE, Machida


@pytest.mark.timeout(900)
def test_every_output_is_in_the_topic_once_after_a_kill(kafka, tmp_path):
    chosen = random.Random(1)
    words = [f"w{number}" for number in range(200)]
    lines = [" ".join(chosen.choices(words, k=5)) for _ in range(4500)]
    text, counts = kafka.create_topic(partitions=4), kafka.create_topic(partitions=3)

    def send(some):
        kafka.produce(text, [{"value": line, "partition": number % 4} for number, line in enumerate(some)])

    def outputs(number):
        """Return the committed messages, when there are so many of them."""
        deadline = time.monotonic() + PATIENCE
        while len(found := kafka.consume(counts)) < number:
            assert time.monotonic() < deadline, f"{len(found)} of {number} outputs:\n{runs[-1].output}"
            time.sleep(0.2)
        return found

    def start():
        runs.append(
            Machida(
                *("--application-module", "kafka_word_count", "--resilience-dir", str(tmp_path / "state")),
                *("--kafka_source_topic", text, "--kafka_source_brokers", kafka.address),
                *("--kafka_sink_topic", counts, "--kafka_sink_brokers", kafka.address),
            )
        )
        return runs[-1].wait_until_ready()

    runs = []
    try:
        run = start()
        send(lines[:1500])
        outputs(5 * 1500)
        send(lines[1500:3000])
        # Somewhere in the middle of it.
        run.kill()
        send(lines[3000:])
        run = start()
        outputs(5 * 4500)
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
