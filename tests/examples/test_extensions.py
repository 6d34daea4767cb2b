"""The README of `examples/extensions`, followed with a real Redis and a real broker of Kafka."""

from collections import Counter, defaultdict

import pytest

from .readme import EXAMPLES


def words_of(path):
    """Return the words of a text, counted by a plain loop."""
    words = Counter()
    for word in path.read_text().lower().split():
        words[word.strip(".,;:!?\"'()")] += 1
    del words[""]
    return words


@pytest.mark.timeout(900)
def test_every_word_is_counted_from_redis_to_redis_and_from_kafka_to_kafka(walkthrough, redis, kafka):
    expected = words_of(EXAMPLES / "extensions" / "documents.txt")
    walk = walkthrough("extensions", {6379: redis.port, 9092: kafka.port})

    to_redis = walk.start("python redis_hash.py")
    walk.start("machida")
    from_redis = walk.start("python redis_subscriber.py", "subscribed to text")
    walk.run("python publish.py")
    in_hash = {word.encode(): str(count).encode() for word, count in expected.items()}
    walk.wait_until(lambda: redis.client.hgetall("counts") == in_hash, "all counts being in the hash")
    assert walk.run("python show_counts.py").splitlines() == walk.shown
    walk.end(to_redis)
    walk.end(from_redis)

    walk.run("wallaroo send")
    shown = walk.start("wallaroo receive", "reading ")
    walk.start("python kafka_producer.py")
    walk.start("python kafka_consumer.py", "reading text")
    walk.wait_for_lines(shown, expected.total())
    walk.finish()

    counts = defaultdict(list)
    for line in shown.stdout.decode().splitlines():
        word, _, count = line.rpartition(" => ")
        counts[word].append(int(count))
    # Each count once, in order, and on from where Redis's texts have ended.
    assert counts == {word: list(range(count + 1, 2 * count + 1)) for word, count in expected.items()}
