"""`wallaroo receive` from a topic at a real broker."""

import signal

import pytest
from confluent_kafka import Producer
from tests.processes import PATIENCE


def finished(process, code=0):
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == code, err
    return out, err.decode()


def url(kafka, topic):
    return f"kafka://{kafka.address}/{topic}"


@pytest.fixture
def reading(wallaroo, kafka):
    """Start `wallaroo receive`; return the process once it reads the topic."""

    def start(topic, *options, how="now on", **more):
        process = wallaroo("receive", url(kafka, topic), *options, **more)
        assert process.stderr.readline().decode() == f"reading {url(kafka, topic)} from {how}\n"
        return process

    return start


def test_the_messages_of_a_topic_are_printed_one_per_line(reading, kafka):
    topic = kafka.create_topic()
    values = [b"%d" % number for number in range(30_000)]
    kafka.produce(topic, values)
    process = reading(topic, "--from-beginning", "--messages", 30_000, how="the beginning")
    out, err = finished(process)
    assert out.splitlines() == values
    assert f"received 30,000 messages ({sum(map(len, values)):,} bytes) from 1 partition in " in err


def test_without_it_only_new_messages_count(reading, kafka, tmp_path):
    topic = kafka.create_topic(partitions=2)
    kafka.produce(topic, [b"old"] * 10)
    file = tmp_path / "out"
    process = reading(topic, "--messages", 2, "--output", file, "--quiet")
    kafka.produce(topic, [{"value": b"new", "partition": 0}, {"value": b"newer", "partition": 1}])
    assert finished(process) == (b"", "")
    assert sorted(file.read_bytes().splitlines()) == [b"new", b"newer"]


def test_keys_stand_in_front(reading, kafka):
    topic = kafka.create_topic()
    kafka.produce(topic, [{"key": b"k", "value": b"v"}, {"value": b"w"}, {"key": b"gone", "value": None}])
    process = reading(topic, "--from-beginning", "--key-separator", " => ", "--messages", 3, how="the beginning")
    assert finished(process)[0] == b"k => v\n => w\ngone => \n"


def test_only_committed_messages_are_read(reading, kafka):
    topic = kafka.create_topic()
    producer = Producer(kafka.client(transactional_id=topic))
    producer.init_transactions()
    for value, end in ((b"undone", producer.abort_transaction), (b"kept", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush()
        end()
    process = reading(topic, "--from-beginning", "--idle", 1, "--count-only", how="the beginning")
    assert finished(process)[0] == b"1\n"


def test_it_ends_with_a_signal(reading, kafka):
    topic = kafka.create_topic()
    process = reading(topic)
    kafka.produce(topic, [b"one"])
    assert process.stdout.readline() == b"one\n"
    process.send_signal(signal.SIGINT)
    assert "received 1 message (3 bytes)" in finished(process)[1]


def test_a_topic_can_be_created(reading, kafka):
    process = reading("received-and-created", "--create-topic", 3, "--seconds", 0.1)
    assert "received 0 messages (0 bytes) from 3 partitions" in finished(process)[1]


def test_there_is_no_such_topic(wallaroo, kafka):
    assert "there is no topic 'nowhere' at" in finished(wallaroo("receive", url(kafka, "nowhere")), 1)[1]


@pytest.mark.parametrize(
    ("address", "options", "expected"),
    [
        ("kafka://h/t", ["--framing", "u8"], "--framing is for TCP"),
        ("kafka://h/t", ["--effectively-once"], "--effectively-once is for TCP: only committed messages are read"),
        ("kafka://h/t", ["--remember", "x"], "--remember is for TCP"),
        ("127.0.0.1:0", ["--from-beginning"], "--from-beginning is for topics, such as kafka://"),
        ("127.0.0.1:0", ["--kafka-config", "a=b"], "--kafka-config is for topics"),
    ],
)
def test_options_that_do_not_fit(wallaroo, address, options, expected):
    assert expected in finished(wallaroo("receive", address, *options), 2)[1]
