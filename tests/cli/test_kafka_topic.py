"""`kafka://host:port/topic` on the command line, and topics at a real broker."""

import pytest

from wallaroo.addresses import Address
from wallaroo.cli.kafka_topic import Settings, Topic, find_topic, parse_topic
from wallaroo.errors import WallarooError

PLAIN = Settings(None, None, {})


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("kafka://127.0.0.1:9093/words", Topic("words", (Address("127.0.0.1", 9093),))),
        ("kafka://kafka/a.b-c_D", Topic("a.b-c_D", (Address("kafka", 9092),))),
        ("kafka://one:1,[::1]:2,[::2]/t", Topic("t", (Address("one", 1), Address("::1", 2), Address("::2", 9092)))),
    ],
)
def test_topics(text, topic):
    assert parse_topic(text) == topic


@pytest.mark.parametrize("text", ["kafka://", "kafka:///words", "kafka://h:9092", "kafka://h:9092/", "kafka://h:x/t"])
def test_an_invalid_topic(text):
    with pytest.raises(WallarooError):
        parse_topic(text)


def topic_at(kafka, name):
    return Topic(name, (Address("127.0.0.1", kafka.port),))


def test_a_topic_is_found_with_its_partitions(kafka):
    name = kafka.create_topic(partitions=3)
    assert find_topic(topic_at(kafka, name), PLAIN, retry=60) == [0, 1, 2]


def test_a_missing_topic_is_created_only_on_request(kafka):
    topic = topic_at(kafka, "made-by-the-command")
    with pytest.raises(WallarooError, match=r"there is no topic 'made-by-the-command' at 127.0.0.1:.*--create-topic 1"):
        find_topic(topic, PLAIN, retry=60)
    assert find_topic(topic, Settings(None, 2, {}), retry=60) == [0, 1]
    assert find_topic(topic, Settings(None, 5, {}), retry=60) == [0, 1]


def test_a_broker_that_is_not_there():
    waits = []
    topic = Topic("words", (Address("127.0.0.1", 1),))
    with pytest.raises(WallarooError, match=r"cannot reach 127.0.0.1:1: .*refused.*Is a broker running there\?"):
        find_topic(topic, PLAIN, retry=3, on_wait=lambda: waits.append(1))
    assert waits == [1]


def test_settings_that_do_not_exist():
    with pytest.raises(WallarooError, match=r'--kafka-config is refused: No such configuration property: "no\.such"'):
        find_topic(Topic("words", (Address("127.0.0.1", 1),)), Settings(None, None, {"no.such": "1"}), retry=0)
