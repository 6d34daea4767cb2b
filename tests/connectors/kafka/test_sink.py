"""The Kafka sink, with a real broker."""

import json
import random
import subprocess
import sys
import threading
import uuid

import pytest
from tests.connectors.kafka.written_blocks import PATIENCE, expected, found_in

from wallaroo.connectors.kafka.sink import transactional_id
from wallaroo.errors import AddressError

BOTH = pytest.mark.parametrize("exactly_once", [True, False], ids=["transactions", "idempotent"])
SEED = 20_261_118


@BOTH
def test_blocks_are_written_in_order_and_reported_when_the_brokers_have_them(kafka, open_sink, exactly_once):
    topic = kafka.create_topic(partitions=3)
    written = open_sink(topic, exactly_once=exactly_once)
    for number in range(50):
        written.deliver(number)
    assert written.wait_for(50) == list(range(50))
    assert found_in(kafka.consume(topic)) == expected(range(50))
    assert written.notices == []


@BOTH
def test_values_keys_and_partitions_are_as_the_encoder_says(kafka, open_sink, exactly_once):
    topic = kafka.create_topic(partitions=3)
    written = open_sink(topic, exactly_once=exactly_once)
    written.deliver(0, [("é", "ü", 0), (b"\x00", b"\xff", 1), ("alone", None, 2), (None, "gone", 1), (b"", "empty", 0)])
    written.wait_for(1)
    found = {(each.partition(), each.key(), each.value()) for each in kafka.consume(topic)}
    assert found == {
        (0, "ü".encode(), "é".encode()),
        (1, b"\xff", b"\x00"),
        (2, None, b"alone"),
        (1, b"gone", None),
        (0, b"empty", b""),
    }


def test_a_key_has_the_partition_that_producers_in_java_give_it(kafka, open_sink):
    topic = kafka.create_topic(partitions=5)
    written = open_sink(topic)
    keys = [f"key {number}" for number in range(40)]
    written.deliver(0, [("value", key) for key in keys])
    written.wait_for(1)
    found = {each.key().decode(): each.partition() for each in kafka.consume(topic)}
    assert found == {key: (murmur2(key.encode()) & 0x7FFFFFFF) % 5 for key in keys}


def murmur2(data):
    """Return the hash of Kafka's Java client."""
    mask, magic = 0xFFFFFFFF, 0x5BD1E995
    result = (0x9747B28C ^ len(data)) & mask
    for at in range(0, len(data) // 4 * 4, 4):
        part = int.from_bytes(data[at : at + 4], "little") * magic & mask
        part = (part ^ part >> 24) * magic & mask
        result = (result * magic & mask) ^ part
    if rest := data[len(data) // 4 * 4 :]:
        result = (result ^ int.from_bytes(rest, "little")) * magic & mask
    result = (result ^ result >> 13) * magic & mask
    return result ^ result >> 15


def test_blocks_that_come_meanwhile_are_in_one_transaction_and_durable_before(kafka, open_sink):
    topic = kafka.create_topic()
    written = open_sink(topic)
    for number in range(1000):
        written.deliver(number, [(f"{number}", None)])
    assert written.wait_for(1000) == list(range(1000))
    # Each transaction leaves a mark behind its messages. Its last block is made durable; those before are with it.
    transactions = kafka.ends(topic)[0] - 1000
    assert transactions == len(written.durable) < 100
    assert written.durable[-1] == 999


def test_what_a_transaction_holds_is_seen_when_its_number_is(kafka, open_sink, application):
    topic = kafka.create_topic()
    written = open_sink(topic)
    written.deliver(7)
    written.wait_for(1)
    assert kafka.committed(transactional_id(application, topic)) == {(topic, 0): 8}


def test_the_next_process_drops_what_was_written(kafka, open_sink):
    topic = kafka.create_topic(partitions=2)
    first = open_sink(topic)
    for number in range(20):
        first.deliver(number)
    first.wait_for(20)
    first.sink.close()
    second = open_sink(topic)
    for number in range(10, 30):
        second.deliver(number)
    assert second.wait_for(20) == list(range(10, 30))
    assert found_in(kafka.consume(topic)) == expected(range(30))


def test_a_state_that_starts_afresh_has_numbers_of_its_own(kafka, open_sink):
    topic = kafka.create_topic()
    for application, text in ((uuid.uuid4().hex, "before"), (uuid.uuid4().hex, "after")):
        written = open_sink(topic, application=application)
        written.deliver(5, [(text, None)])
        written.wait_for(1)
    assert [each.value() for each in kafka.consume(topic)] == [b"before", b"after"]


def start_writing(kafka, topic, application, first, end):
    command = [sys.executable, "-m", "tests.connectors.kafka.written_blocks", kafka.address, topic, application]
    return subprocess.Popen([*command, str(first), str(end)], stdout=subprocess.PIPE, text=True)


def test_killed_at_any_moment_every_output_is_there_once(kafka, application):
    topic = kafka.create_topic(partitions=3)
    chance = random.Random(SEED)
    end, first, recorded, kills = 4000, 0, -1, 0
    while recorded < end - 1:
        with start_writing(kafka, topic, application, first, end) as process:
            # Some blocks later, in the middle of whatever it is doing then; or while it starts.
            until = recorded + chance.randrange(600)
            killing = threading.Timer(chance.uniform(0, 0.02), process.kill)
            if not chance.randrange(8):
                killing.start()
            for line in process.stdout:
                recorded = max(recorded, json.loads(line))
                if recorded >= until and killing.ident is None:
                    killing.start()
            process.wait(PATIENCE)
            kills += process.returncode != 0
        # The last commit is some blocks back; the ledger may know all but the last.
        first = max(0, recorded + 1 - chance.choice([0, 1, 5, 300]))
    assert kills > 5
    assert found_in(kafka.consume(topic)) == expected(range(end))


def test_a_process_that_was_replaced_is_fenced_and_reports_it(kafka, open_sink, application):
    topic = kafka.create_topic()
    zombie, successor = open_sink(topic), open_sink(topic)
    zombie.deliver(0)
    zombie.wait_for(1)
    successor.deliver(0)
    successor.deliver(1)
    successor.wait_for(2)
    zombie.deliver(1)
    zombie.deliver(2)
    [_, error] = zombie.wait_for(2)
    assert isinstance(error, AddressError)
    assert "another process writes the outputs of this application's state" in str(error)
    assert transactional_id(application, topic) in str(error)
    successor.deliver(2)
    successor.wait_for(3)
    assert found_in(kafka.consume(topic)) == expected(range(3))


def test_of_two_processes_with_one_state_the_later_continues(kafka, application):
    topic = kafka.create_topic(partitions=2)
    with start_writing(kafka, topic, application, 0, 1_000_000) as former:
        former.stdout.readline()
        with start_writing(kafka, topic, application, 0, 300) as later:
            *_, last = later.stdout
        *_, why = former.stdout
    assert "another process writes" in why
    assert (former.returncode, later.returncode, last) == (1, 0, "299\n")
    [end] = kafka.committed(transactional_id(application, topic)).values()
    assert found_in(kafka.consume(topic)) == expected(range(end))
