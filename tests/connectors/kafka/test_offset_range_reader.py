"""Ranges of offsets, read from a real broker as workers read them."""

import random
from itertools import pairwise

import pytest
from confluent_kafka import Producer

import wallaroo
from wallaroo.connectors.kafka.config import KafkaSourceConfig
from wallaroo.connectors.kafka.kind import KafkaSourceKind
from wallaroo.connectors.kafka.offset_range_reader import KafkaReader
from wallaroo.errors import WallarooError


@wallaroo.decoder
def plain(bs):
    return bs.decode()


@wallaroo.decoder
def with_message(bs, message):
    return bs.decode(), message


def reader_of(kafka, topic, decoder=plain, *, skip=False, **config):
    source = KafkaSourceConfig(topic, kafka.brokers, "Error", decoder, config=config)
    return KafkaReader(source, {**KafkaSourceKind().place(source), "skip_damaged": skip})


def read(reader, first, end, lane=0):
    """Return the payloads of a range by their offsets."""
    return {at + index: each for at, some in reader.read(first, end, lane) for index, each in enumerate(some)}


def test_ranges_in_turn_have_each_message_once_at_its_offset(kafka):
    topic = kafka.create_topic(partitions=3)
    chosen = random.Random(7)
    sent = [[] for _ in range(3)]
    messages = []
    for number in range(30_000):
        lane = chosen.randrange(3)
        value = b"%d " % number * chosen.randrange(1, 4)
        sent[lane].append(value)
        messages.append({"value": value, "partition": lane})
    kafka.produce(topic, messages)
    readers = [reader_of(kafka, topic), reader_of(kafka, topic)]
    found = [{} for _ in range(3)]
    turn = 0
    borders = [sorted({0, len(each), *chosen.sample(range(len(each)), 40)}) for each in sent]
    waiting = [list(pairwise(each)) for each in borders]
    while any(waiting):
        lane = chosen.choice([lane for lane in range(3) if waiting[lane]])
        found[lane].update(read(readers[turn % 2], *waiting[lane].pop(0), lane))
        turn += 1
    for lane in range(3):
        assert found[lane] == dict(enumerate(sent[lane]))
        # Anywhere, and backwards, as after a failure.
        low, high = sorted(chosen.sample(range(len(sent[lane])), 2))
        assert read(readers[0], low, high, lane) == {at: sent[lane][at] for at in range(low, high)}


def test_more_partitions_than_are_kept_open(kafka):
    topic = kafka.create_topic(partitions=20)
    kafka.produce(topic, [{"value": b"%d-%d" % (lane, n), "partition": lane} for n in range(6) for lane in range(20)])
    reader = reader_of(kafka, topic)
    for first in (0, 3):
        for lane in range(20):
            expected = {at: b"%d-%d" % (lane, at) for at in range(first, first + 3)}
            assert read(reader, first, first + 3, lane) == expected


def test_pieces_depend_on_the_messages_and_not_on_how_they_arrive(kafka):
    topic = kafka.create_topic()
    sizes = random.Random(3).choices([1, 50, 3_000, 700_000], weights=[50, 50, 30, 1], k=6_000)
    kafka.produce(topic, [bytes(size) for size in sizes], message_max_bytes=1_000_000)
    slow = {"max.partition.fetch.bytes": 1_000_000, "queued.max.messages.kbytes": 1_024}
    pieces = list(reader_of(kafka, topic).read(0, 6_000))
    assert list(reader_of(kafka, topic, **{"fetch.max.bytes": 1_000_000, **slow}).read(0, 6_000)) == pieces
    assert [len(payload) for _, some in pieces for payload in some] == sizes
    assert all(sum(map(len, some[:-1])) < 512 << 10 and len(some) <= 4096 for _, some in pieces)


def test_what_is_aborted_and_the_marks_of_transactions_are_left_out(kafka):
    topic = kafka.create_topic()
    producer = Producer(kafka.client(transactional_id=topic))
    producer.init_transactions()
    kept = []
    for number in range(12):
        producer.begin_transaction()
        for each in range(5):
            producer.produce(topic, b"%d-%d" % (number, each))
        if number % 3 == 1:
            producer.flush()
            producer.abort_transaction()
        else:
            producer.commit_transaction()
            kept += [b"%d-%d" % (number, each) for each in range(5)]
    (end,) = kafka.ends(topic).values()
    assert end == 12 * 6
    whole = read(reader_of(kafka, topic), 0, end)
    assert list(whole.values()) == kept
    # Each transaction by itself: its last offset is that of its mark.
    reader = reader_of(kafka, topic)
    assert [value for low in range(0, end, 6) for value in read(reader, low, low + 6).values()] == kept
    # Ranges in which there is nothing, the last offset of all among them.
    assert read(reader, end - 1, end) == {}
    assert read(reader, 6, 12) == {}


def test_the_decoder_may_be_given_what_kafka_knows(kafka):
    topic = kafka.create_topic(partitions=2)
    kafka.produce(
        topic,
        [
            {"value": b"a", "key": b"k", "partition": 1, "timestamp": 1_700_000_000_123, "headers": [("h", b"1")]},
            {"value": None, "key": b"gone", "partition": 1, "timestamp": 1_700_000_000_124},
        ],
    )
    found = read(reader_of(kafka, topic, with_message), 0, 2, 1)
    assert found == {
        0: (b"a", wallaroo.KafkaMessage(b"k", 1_700_000_000_123, (("h", b"1"),), topic, 1, 0)),
        1: (b"", wallaroo.KafkaMessage(b"gone", 1_700_000_000_124, (), topic, 1, 1)),
    }
    assert read(reader_of(kafka, topic), 0, 2, 1) == {0: b"a", 1: b""}


def test_messages_that_kafka_has_removed_are_reported_or_left_out(kafka):
    topic = kafka.create_topic()
    kafka.produce(topic, [b"%d" % number for number in range(100)])
    kafka.delete_before(topic, {0: 60})
    reader = reader_of(kafka, topic)
    with pytest.raises(WallarooError, match=rf"The messages 10 to 19 of partition 0 of the topic '{topic}' have not"):
        read(reader, 10, 20)
    assert read(reader, 60, 70) == {at: b"%d" % at for at in range(60, 70)}
    with pytest.raises(WallarooError, match=r"The messages 10 to 59 of partition 0 .* --skip-damaged"):
        read(reader_of(kafka, topic), 10, 70)
    careless = reader_of(kafka, topic, skip=True)
    assert read(careless, 10, 20) == {}
    assert read(careless, 20, 70) == {at: b"%d" % at for at in range(60, 70)}
    assert read(careless, 70, 100) == {at: b"%d" % at for at in range(70, 100)}


def test_a_broker_that_is_away_is_waited_for(new_kafka):
    kafka = new_kafka().start()
    topic = kafka.create_topic()
    kafka.produce(topic, [b"%d" % number for number in range(10)])
    reader = reader_of(kafka, topic, **{"reconnect.backoff.max.ms": 200})
    assert read(reader, 0, 5) == {at: b"%d" % at for at in range(5)}
    kafka.kill()
    kafka.start()
    kafka.produce(topic, [b"%d" % number for number in range(10, 20)])
    assert read(reader, 5, 20) == {at: b"%d" % at for at in range(5, 20)}
