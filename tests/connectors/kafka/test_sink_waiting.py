"""What a Kafka sink waits for, with a line for the user, and what it ends with."""

import os
import signal
import threading
import time

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from tests.connectors.kafka.written_blocks import PATIENCE, expected, found_in

from wallaroo.connectors.base import StoppedError
from wallaroo.connectors.kafka import producers
from wallaroo.connectors.kafka.sink import transactional_id
from wallaroo.errors import AddressError

BOTH = pytest.mark.parametrize("exactly_once", [True, False], ids=["transactions", "idempotent"])


def wait_until(condition):
    ready = threading.Event()
    for _ in range(PATIENCE * 100):
        if condition():
            return
        ready.wait(0.01)
    raise AssertionError("it did not happen")


@BOTH
def test_a_topic_that_is_missing_is_waited_for_and_nothing_is_lost(kafka, open_sink, exactly_once):
    topic = f"later-{exactly_once}"
    written = open_sink(topic, exactly_once=exactly_once)
    written.deliver(0)
    wait_until(lambda: written.notices)
    [notice] = written.notices
    assert notice == (
        f"Waiting for kafka://{kafka.address}/{topic} (there is no such topic); retrying until it takes outputs."
    )
    kafka.create_topic(topic)
    written.deliver(1)
    assert written.wait_for(2) == [0, 1]
    assert found_in(kafka.consume(topic)) == expected(range(2))
    assert written.notices[1:] == [f"Writing to kafka://{kafka.address}/{topic} again."]


@pytest.mark.parametrize(("exactly_once", "end"), [(True, "stop"), (True, "kill"), (False, "kill")])
def test_a_broker_that_goes_away_is_waited_for_and_every_output_is_there_once(new_kafka, open_sink, exactly_once, end):
    broker = new_kafka().start()
    topic = broker.create_topic(partitions=3)
    written = open_sink(topic, broker, exactly_once=exactly_once)
    written.deliver(0)
    written.wait_for(1)

    def feed():
        for number in range(1, 500):
            written.deliver(number)
            time.sleep(0.001)

    feeding = threading.Thread(target=feed)
    feeding.start()
    written.wait_for(50)
    getattr(broker, end)()
    wait_until(lambda: written.notices)
    assert written.notices[0].startswith(f"Waiting for kafka://{broker.address}/{topic} (")
    feeding.join(PATIENCE)
    broker.start()
    assert written.wait_for(500) == list(range(500))
    assert found_in(broker.consume(topic)) == expected(range(500))
    wait_until(lambda: len(written.notices) == 2)


@BOTH
def test_without_a_broker_a_stop_leaves_the_blocks_to_the_next_run(new_kafka, open_sink, exactly_once):
    written = open_sink("nowhere", new_kafka(), exactly_once=exactly_once)
    written.deliver(0)
    written.deliver(1)
    written.stopping.set()
    [error] = written.wait_for(1)
    assert isinstance(error, StoppedError)
    written.sink.close()
    assert len(written.reports) == 1


@BOTH
def test_a_topic_that_takes_no_messages_of_that_size_ends_the_run(kafka, open_sink, exactly_once):
    topic = kafka.create_topic(max_message_bytes=2000)
    written = open_sink(topic, exactly_once=exactly_once)
    written.deliver(0, [("small", None)])
    written.wait_for(1)
    written.deliver(1, [("x" * 5000, None)])
    [_, error] = written.wait_for(2)
    assert isinstance(error, AddressError)
    assert "give the sink the topic's max.message.bytes, or less" in str(error)
    # As the sentence says: what is too large is an error of its encoder then, and small messages make small batches.
    again = open_sink(topic, exactly_once=exactly_once, max_message_size=1500)
    again.deliver(1, [("x" * 50, None)] * 1000)
    again.wait_for(1)
    assert [each.value() for each in kafka.consume(topic)] == [b"small", *[b"x" * 50] * 1000]


def test_a_compacted_topic_takes_no_messages_without_a_key(kafka, open_sink):
    topic = kafka.create_topic(cleanup_policy="compact")
    written = open_sink(topic)
    written.deliver(0, [("value", None)])
    [error] = written.wait_for(1)
    assert "it is compacted and they have no key" in str(error)


def test_a_partition_that_the_topic_does_not_have_is_waited_for(kafka, open_sink):
    topic = kafka.create_topic(partitions=1)
    written = open_sink(topic)
    written.deliver(0, [("one", None, 0), ("other", None, 1)])
    wait_until(lambda: written.notices)
    assert "the topic does not have a partition that the encoder names" in written.notices[0]
    kafka.add_partitions(topic, 2)
    written.wait_for(1)
    assert {(each.partition(), each.value()) for each in kafka.consume(topic)} == {(0, b"one"), (1, b"other")}


def test_a_missing_permission_is_reported_and_waited_for(new_kafka, open_sink, application):
    broker = new_kafka(
        {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
        }
    ).start()
    topic = broker.create_topic()
    denied = [
        (ResourceType.TOPIC, topic, AclOperation.WRITE, "write to the topic"),
        (ResourceType.GROUP, transactional_id(application, topic), AclOperation.READ, "use the group wallaroo-"),
        (
            ResourceType.TRANSACTIONAL_ID,
            transactional_id(application, topic),
            AclOperation.WRITE,
            "use the transactional id wallaroo-",
        ),
    ]
    for number, (kind, name, operation, told) in enumerate(denied):
        parts = (kind, name, ResourcePatternType.LITERAL, "User:*", "*", operation, AclPermissionType.DENY)
        for future in broker.admin.create_acls([AclBinding(*parts)]).values():
            future.result(PATIENCE)
        written = open_sink(topic, broker)
        written.deliver(number, [(str(number), None)])
        wait_until(lambda: written.notices)  # noqa: B023 - it is called here.
        assert f"the user is not authorised to {told}" in written.notices[0]
        for future in broker.admin.delete_acls([AclBindingFilter(*parts)]).values():
            future.result(PATIENCE)
        written.wait_for(1)
        written.sink.close()
    assert [each.value() for each in broker.consume(topic)] == [b"0", b"1", b"2"]


def test_a_transaction_that_the_broker_has_ended_is_repeated(kafka, open_sink):
    topic = kafka.create_topic(partitions=2)
    written = open_sink(topic, settings={"transaction.timeout.ms": 1000})
    written.deliver(0)
    written.wait_for(1)
    # It is about to commit when the process is held up for longer than the broker waits.
    written.holding_up.append(5)
    written.deliver(1)
    written.deliver(2)
    assert written.wait_for(3) == [0, 1, 2]
    assert found_in(kafka.consume(topic)) == expected(range(3))


def test_a_broker_that_does_not_answer_for_a_while(new_kafka, open_sink):
    broker = new_kafka().start()
    topic = broker.create_topic()
    written = open_sink(topic, broker)
    written.deliver(0)
    written.wait_for(1)
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        written.deliver(1)
        wait_until(lambda: written.notices)
        assert "no broker answers" in written.notices[0]
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    written.deliver(2)
    assert written.wait_for(3) == [0, 1, 2]
    assert found_in(broker.consume(topic)) == expected(range(3))


def test_brokers_that_have_forgotten_the_number_of_the_last_block(new_kafka, open_sink, application):
    broker = new_kafka().start()
    topic = broker.create_topic(partitions=3)
    written = open_sink(topic, broker)
    written.deliver(3)
    written.wait_for(1)
    # As they do with an application that has had no outputs for a week.
    [forgotten] = broker.admin.delete_consumer_groups([transactional_id(application, topic)]).values()
    forgotten.result(PATIENCE)
    broker.stop()
    written.deliver(4)
    broker.start()
    assert written.wait_for(2) == [3, 4]
    assert found_in(broker.consume(topic)) == expected([3, 4])


def test_a_client_that_gets_no_answer_for_long_is_replaced(new_kafka, open_sink, monkeypatch):
    monkeypatch.setattr(producers, "_PATIENCE_SECONDS", 1.0)
    broker = new_kafka().start()
    topic = broker.create_topic(partitions=3)
    written = open_sink(topic, broker)
    written.deliver(0)
    written.wait_for(1)
    first = written.sink._producer._client
    # The broker stands still when everything is written, and the transaction is to be committed.
    written.holding_up.append(3)
    written.deliver(3)
    wait_until(lambda: 3 in written.durable)
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        wait_until(lambda: written.sink._producer._client is not first)
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    written.deliver(4)
    assert written.wait_for(3) == [0, 3, 4]
    assert found_in(broker.consume(topic)) == expected([0, 3, 4])


@BOTH
def test_max_produce_buffer_ms_gathers_blocks(kafka, open_sink, exactly_once):
    topic = kafka.create_topic()
    written = open_sink(topic, exactly_once=exactly_once, max_produce_buffer_ms=300)
    for number in range(100):
        written.deliver(number, [(f"{number}", None)])
        time.sleep(0.001)
    assert written.wait_for(100) == list(range(100))
    if exactly_once:
        assert len(written.durable) < 5
