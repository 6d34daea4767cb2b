"""`wallaroo send` to a topic at a real broker."""

import re

import pytest
from tests.processes import PATIENCE


def finished(process, code=0):
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == code, err
    assert out == b""
    return err.decode()


@pytest.fixture
def lines(tmp_path):
    def write(content):
        file = tmp_path / "lines"
        file.write_bytes(content)
        return file

    return write


def url(kafka, topic):
    return f"kafka://{kafka.address}/{topic}"


def test_every_line_becomes_a_message(wallaroo, kafka, lines):
    topic = kafka.create_topic()
    content = [b"%d" % number for number in range(20_000)]
    report = finished(wallaroo("send", url(kafka, topic), "--file", lines(b"\n".join(content))))
    assert f"sent 20,000 messages ({sum(map(len, content)):,} bytes) in " in report
    assert report.endswith("; all confirmed\n")
    messages = kafka.consume(topic)
    assert [message.value() for message in messages] == content
    assert {message.key() for message in messages} == {None}


def test_lines_with_keys_go_to_the_partitions_of_their_keys(wallaroo, kafka, lines):
    topic = kafka.create_topic(partitions=4)
    content = b"".join(b"k%d: v%d:w\n" % (number % 7, number) for number in range(700))
    finished(wallaroo("send", url(kafka, topic), "--file", lines(content), "--key-separator", ": ", "--quiet"))
    messages = kafka.consume(topic)
    assert sorted((message.key(), message.value()) for message in messages) == sorted(
        (b"k%d" % (number % 7), b"v%d:w" % number) for number in range(700)
    )
    assert len({(message.key(), message.partition()) for message in messages}) == 7
    for key in range(7):
        values = [message.value() for message in messages if message.key() == b"k%d" % key]
        assert values == [b"v%d:w" % number for number in range(key, 700, 7)]


def test_a_topic_can_be_created_repeated_and_limited(wallaroo, kafka, lines):
    topic = "sent-and-created"
    options = ("--create-topic", 2, "--repeat", 3, "--limit", 5, "--rate", 1000)
    finished(wallaroo("send", url(kafka, topic), "--file", lines(b"a\nb\n"), *options))
    assert sorted(message.value() for message in kafka.consume(topic)) == [b"a", b"a", b"a", b"b", b"b"]
    assert set(kafka.ends(topic)) == {0, 1}


def test_a_line_without_a_key_ends_the_input(wallaroo, kafka, lines):
    topic = kafka.create_topic()
    content = lines(b"k:v\nno key\nk:w\n")
    report = finished(wallaroo("send", url(kafka, topic), "--file", content, "--key-separator", ":"), 1)
    assert "a line has no ':' between key and value: b'no key' (1 message sent before it, confirmed)" in report
    assert [message.value() for message in kafka.consume(topic)] == [b"v"]


def test_a_message_that_the_brokers_refuse(wallaroo, kafka, lines):
    topic = kafka.create_topic(max_message_bytes=1000)
    report = finished(wallaroo("send", url(kafka, topic), "--file", lines(b"x" * 5000)), 8)
    assert "the brokers refuse a message: " in report
    assert "0 of 1 message are confirmed" in report


def test_a_message_that_is_too_large_for_the_client(wallaroo, kafka, lines):
    topic = kafka.create_topic()
    report = finished(wallaroo("send", url(kafka, topic), "--file", lines(b"x" * 2_000_000)), 1)
    assert "a message of 2,000,000 bytes: " in report


def test_a_broker_that_stops_confirming_is_given_up_on(wallaroo, new_kafka):
    broker = new_kafka().start()
    topic = broker.create_topic()
    process = wallaroo("send", url(broker, topic), "--wait", 2, stdin=-1)
    process.stdin.write(b"first\n")
    process.stdin.flush()
    broker.consume(topic, 1)
    broker.kill()
    process.stdin.write(b"second\n")
    report = finished(process, 8)
    # The first can be read before the sender has its confirmation.
    assert re.search("the brokers have confirmed nothing for 2 s; [01] of 2 messages are confirmed", report), report


def test_there_is_no_such_topic(wallaroo, kafka):
    report = finished(wallaroo("send", url(kafka, "nowhere")), 1)
    assert "there is no topic 'nowhere' at" in report


@pytest.mark.parametrize(
    ("address", "options", "expected"),
    [
        ("kafka://h/t", ["--framing", "u8"], "--framing is for TCP: each line is a message of the topic"),
        ("kafka://h/t", ["--raw"], "--raw is for TCP"),
        ("kafka://h/t", ["--wait", "0"], "--wait 0 is for TCP: a topic's brokers confirm every message"),
        ("kafka://h/t", ["--kafka-config", "acks"], "--kafka-config acks: write NAME=VALUE"),
        ("kafka://h/", [], "'kafka://h/' is not a topic"),
        ("127.0.0.1:1", ["--key-separator", ":"], "--key-separator is for topics, such as kafka://"),
        ("127.0.0.1:1", ["--create-topic", "1"], "--create-topic is for topics"),
    ],
)
def test_options_that_do_not_fit(wallaroo, address, options, expected):
    assert expected in finished(wallaroo("send", address, *options), 2)
