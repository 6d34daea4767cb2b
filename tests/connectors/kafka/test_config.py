"""The configs of Kafka sources and sinks, in the ways in which existing programs write them, and with our own words."""

from datetime import UTC, datetime

import pytest

import wallaroo
from wallaroo.api.kafka_args import kafka_parse_sink_options, kafka_parse_source_options
from wallaroo.connectors.kafka.config import KafkaSinkConfig, KafkaSourceConfig

BROKERS = [("127.0.0.1", "9092")]
decode = wallaroo.decoder(bytes.decode)
encode = wallaroo.encoder(str)


def test_a_source_as_the_original_has_it():
    config = KafkaSourceConfig("words", BROKERS, "Info", decode)
    assert (config.topic, config.brokers, config.log_level, config.decoder) == ("words", BROKERS, "Info", decode)
    assert (config.start, config.group, config.config, config.name) == ("earliest", None, {}, None)


def test_a_sink_as_the_original_has_it():
    config = KafkaSinkConfig("counts", BROKERS, "Error", 5, 2000, encode)
    assert (config.topic, config.brokers, config.log_level, config.encoder) == ("counts", BROKERS, "Error", encode)
    assert (config.max_produce_buffer_ms, config.max_message_size) == (5, 2000)
    assert (config.exactly_once, config.config, config.name) == (True, {}, None)


def test_by_keyword_the_rest_has_defaults():
    source = KafkaSourceConfig(topic="words", brokers=BROKERS, decoder=decode)
    sink = KafkaSinkConfig("counts", BROKERS, encoder=encode)
    assert source.log_level == sink.log_level == "Warn"
    assert (sink.max_produce_buffer_ms, sink.max_message_size) == (0, 100000)


def test_what_is_ours_comes_by_keyword():
    since = datetime(2026, 1, 31, tzinfo=UTC)
    source = KafkaSourceConfig(
        "words", BROKERS, "Warn", decode, start=since, group="mine", config={"client.rack": "a"}, name="feed"
    )
    assert (source.start, source.group, source.config, source.name) == (since, "mine", {"client.rack": "a"}, "feed")
    sink = KafkaSinkConfig("counts", BROKERS, "Warn", 0, 2000, encode, exactly_once=False, config={"a": 1}, name="out")
    assert (sink.exactly_once, sink.config, sink.name) == (False, {"a": 1}, "out")


@pytest.mark.parametrize("named", [[], ["--kafka_source_name", "feed", "--kafka_sink_name", "out"]])
def test_parsed_options_are_arguments_with_a_name_in_front_or_not(named):
    args = ["--kafka_source_topic", "t", "--kafka_source_brokers", "h:1", "--kafka_sink_topic", "u", *named]
    args += ["--kafka_sink_brokers", "h:1"]
    source = KafkaSourceConfig(*kafka_parse_source_options(args), decode)
    sink = KafkaSinkConfig(*kafka_parse_sink_options(args), encode)
    assert (source.topic, source.decoder, source.name) == ("t", decode, "feed" if named else None)
    assert (sink.topic, sink.encoder, sink.name) == ("u", encode, "out" if named else None)


def test_a_config_has_its_own_copy_of_the_settings():
    settings = {"security.protocol": "SSL"}
    source = KafkaSourceConfig("words", BROKERS, "Warn", decode, config=settings)
    settings["security.protocol"] = "PLAINTEXT"
    assert source.config == {"security.protocol": "SSL"}


def test_settings_are_not_shown_as_a_password_may_be_among_them():
    source = KafkaSourceConfig("words", BROKERS, "Warn", decode, config={"sasl.password": "secret"})
    sink = KafkaSinkConfig("words", BROKERS, encoder=encode, config={"sasl.password": "secret"}, name="out")
    assert "secret" not in repr(source) + repr(sink)
    assert "name='out', topic='words'" in repr(sink)


@pytest.mark.parametrize(
    "call",
    [
        lambda: KafkaSourceConfig("words", BROKERS, "Warn"),
        lambda: KafkaSourceConfig("words", BROKERS, "Warn", decode, "more", "most"),
        lambda: KafkaSourceConfig("words", BROKERS, "Warn", decode, topic="words"),
        lambda: KafkaSourceConfig("words", BROKERS, "Warn", decode, exactly_once=True),
        lambda: KafkaSinkConfig("words", BROKERS, "Warn", encode),
        lambda: KafkaSinkConfig("words", BROKERS, "Warn", 0, 100000, encode, group="mine"),
        lambda: KafkaSinkConfig(encoder=encode),
    ],
)
def test_arguments_that_fit_in_no_way(call):
    with pytest.raises(wallaroo.WallarooParameterError, match=r"takes \(topic, brokers, log_level, .*; got \("):
        call()
