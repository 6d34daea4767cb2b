"""`wallaroo connect kafka-consumer` and `kafka-producer`, with a real broker, beside one application."""

import pytest

from .connected import Connected
from .harness import send


@pytest.fixture(scope="module")
def connected(tmp_path_factory):
    """Return the application."""
    made = Connected(tmp_path_factory.mktemp("connected") / "state", ["topic"])
    yield made
    made.clean_up()


def test_each_message_of_a_topic_once_though_the_script_is_killed(connected, kafka):
    topic = kafka.create_topic(partitions=3)
    arguments = connected.address("topic"), "--topic", f"kafka://{kafka.address}/{topic}", "--group", "readers"

    def produce(low, high):
        kafka.produce(topic, [{"value": f"m {n}", "partition": n % 3} for n in range(low, high)])

    produce(0, 1000)
    script = connected.script("kafka-consumer", *arguments)
    script.wait_until(lambda: len(connected.seen("m ")) > 100, "some messages")
    script.kill()
    produce(1000, 2000)
    script = connected.script("kafka-consumer", *arguments)
    connected.wait_for([f"m {number}" for number in range(2000)], "m ")
    # Others see how far it is.
    ends = {(topic, partition): end for partition, end in kafka.ends(topic).items()}
    script.wait_until(lambda: kafka.committed("readers") == ends, "the offsets being committed")
    script.stop()
    # Another group begins with the oldest message, and the application has them all.
    other = connected.script("kafka-consumer", *arguments[:-1], "others")
    produce(2000, 2100)
    connected.wait_for([f"m {number}" for number in range(2100)], "m ")
    other.stop()


def test_a_topic_that_is_another_one_of_the_same_name_is_refused(connected, kafka):
    topic = kafka.create_topic()
    arguments = connected.address("topic"), "--topic", f"kafka://{kafka.address}/{topic}"
    kafka.produce(topic, [b"first 0", b"first 1"])
    script = connected.script("kafka-consumer", *arguments)
    connected.wait_for(["first 0", "first 1"], "first ")
    script.stop()
    kafka.delete_topic(topic)
    kafka.create_topic(topic)
    kafka.produce(topic, [b"second 0"])
    script = connected.script("kafka-consumer", *arguments)
    assert script.exit_code() == 1
    assert f"The application has messages of {topic}/0 up to offset 1, and the topic ends" in script.output
    assert "Traceback" not in script.output


def test_a_topic_that_does_not_exist(connected, kafka):
    script = connected.script("kafka-producer", connected.to[0], "--topic", f"kafka://{kafka.address}/nowhere")
    assert script.exit_code() == 1
    assert "there is no topic 'nowhere'" in script.output
    assert "Traceback" not in script.output


def test_outputs_are_in_the_topic_though_the_script_is_killed(connected, kafka):
    topic = kafka.create_topic(partitions=2)
    lines = connected.run.address("lines")
    command = (
        "kafka-producer",
        connected.to[0],
        "--topic",
        f"kafka://{kafka.address}/{topic}",
        "--key-separator",
        " => ",
    )

    def found():
        return [(message.key().decode(), message.value().decode()) for message in kafka.consume(topic)]

    def expected(number):
        return [(f"k{each % 7}", str(each)) for each in range(number)]

    script = connected.script(*command)
    send(lines, [" => ".join(each) for each in expected(1000)[:500]])
    script.wait_until(lambda: len(found()) > 50, "some outputs")
    script.kill()
    send(lines, [" => ".join(each) for each in expected(1000)[500:]])
    script = connected.script(*command)
    script.wait_until(lambda: set(found()) == set(expected(1000)), "all outputs")
    script.stop()
    # None is lost; those may be there twice that were on their way, and in order.
    in_order = list(dict.fromkeys(found()))
    for key in {key for key, _ in in_order}:
        assert [pair for pair in in_order if pair[0] == key] == [pair for pair in expected(1000) if pair[0] == key]


def test_an_output_that_is_null_and_one_that_is_too_large(connected, kafka):
    topic = kafka.create_topic()
    lines = connected.run.address("lines")
    to = connected.to[0], "--topic", f"kafka://{kafka.address}/{topic}", "--codec", "json"
    send(lines, ["null", "1", "null"])
    script = connected.script("kafka-producer", *to)
    script.wait_until(lambda: [each.value() for each in kafka.consume(topic)] == [b"null", b"1", b"null"], "all three")
    script.stop()
    script = connected.script("kafka-producer", *to, "--kafka-config", "message.max.bytes=1000")
    send(lines, ['"' + 2000 * "x" + '"'])
    assert script.exit_code() == 1
    assert "Error: Kafka: Unable to produce message: Broker: Message size too large" in script.output
    assert "Traceback" not in script.output
