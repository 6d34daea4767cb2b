"""Kafka's options: each generation's tuples, and configs that take them from the command line by themselves."""

import pytest

import wallaroo
from wallaroo.api.kafka_args import (
    CustomKafkaSinkCLIParser,
    CustomKafkaSourceCLIParser,
    DefaultKafkaSinkCLIParser,
    DefaultKafkaSourceCLIParser,
    kafka_parse_sink_options,
    kafka_parse_source_options,
)
from wallaroo.setup_arguments import call_setup, call_with_addresses

decode = wallaroo.decoder(bytes.decode)
encode = wallaroo.encoder(str)
SOURCE = ["--kafka_source_topic", "words", "--kafka_source_brokers", "127.0.0.1:9092"]
SINK = ["--kafka_sink_topic", "counts", "--kafka_sink_brokers", "127.0.0.1:9092"]


def test_options_of_a_source():
    args = ["--name", "w1", *SOURCE, "--kafka_source_log_level", "Fine", "--other"]
    assert kafka_parse_source_options(args) == ("words", [("127.0.0.1", "9092")], "Fine")


def test_options_of_a_sink():
    assert kafka_parse_sink_options(SINK) == ("counts", [("127.0.0.1", "9092")], "Warn", 0, 100000)
    more = ["--kafka_sink_max_produce_buffer_ms=5", "--kafka_sink_max_message_size", "2000"]
    assert kafka_parse_sink_options([*SINK, *more])[3:] == (5, 2000)


def test_with_a_name_it_is_the_tuple_of_the_last_generation():
    assert kafka_parse_source_options([*SOURCE, "--kafka_source_name", "feed"]) == (
        *("feed", "words", [("127.0.0.1", "9092")], "Warn"),
    )
    assert kafka_parse_sink_options([*SINK, "--kafka_sink_name=out"]) == (
        *("out", "counts", [("127.0.0.1", "9092")], "Warn", 0, 100000),
    )


@pytest.mark.parametrize(
    ("brokers", "expected"),
    [
        ("kafka", [("kafka", "9092")]),
        ("one:1, two:2,three", [("one", "1"), ("two", "2"), ("three", "9092")]),
        ("[::1]:9093,[::1]", [("::1", "9093"), ("::1", "9092")]),
    ],
)
def test_brokers(brokers, expected):
    args = ["--kafka_source_topic", "words", "--kafka_source_brokers", brokers]
    assert kafka_parse_source_options(args)[1] == expected


@pytest.mark.parametrize(
    ("parse", "args", "expected"),
    [
        (kafka_parse_source_options, SOURCE[2:], "--kafka_source_topic is missing: add it to the command line, for"),
        (kafka_parse_source_options, SOURCE[:2], "example --kafka_source_brokers 127.0.0.1:9092."),
        (kafka_parse_sink_options, [], "--kafka_sink_topic is missing"),
        (kafka_parse_source_options, ["--kafka_source_topic"], "an option is incomplete: --kafka_source_topic:"),
        (kafka_parse_source_options, [*SOURCE, "--kafka_source_log_level", "Debug"], "one of Fine, Info, Warn, Error"),
        (kafka_parse_sink_options, [*SINK, "--kafka_sink_max_message_size", "1k"], "must be a whole number; got '1k'."),
        (kafka_parse_sink_options, [*SINK, "--kafka_sink_brokers", "a:b:c"], "'a:b:c' is not an address: put the host"),
        (kafka_parse_sink_options, [*SINK, "--kafka_sink_brokers", "a:0"], "'a:0' is not an address: the port of"),
        (kafka_parse_sink_options, [*SINK, "--kafka_sink_brokers", "a:1,,b:2"], "'' is not an address"),
        (kafka_parse_source_options, None, "must be a list of strings, such as the args that"),
    ],
)
def test_mistakes(parse, args, expected):
    with pytest.raises(wallaroo.WallarooParameterError) as refused:
        parse(args)
    assert expected in str(refused.value)


def test_custom_parsers_take_the_options_from_the_arguments():
    source = CustomKafkaSourceCLIParser(SOURCE, decode, start="latest", group="mine", config={"client.rack": "a"})
    assert (source.topic, source.decoder, source.start, source.group) == ("words", decode, "latest", "mine")
    assert source.config == {"client.rack": "a"}
    named = CustomKafkaSourceCLIParser([*SOURCE, "--kafka_source_name", "feed"], decode)
    assert (named.topic, named.name) == ("words", "feed")
    sink = CustomKafkaSinkCLIParser([*SINK, "--kafka_sink_max_message_size", "2000"], encode, exactly_once=False)
    assert (sink.topic, sink.encoder, sink.max_message_size, sink.exactly_once) == ("counts", encode, 2000, False)


def test_default_parsers_take_the_options_of_the_running_setup():
    args = [*SOURCE, *SINK, "--feed_topic", "more", "--feed_brokers", "kafka", "--feed_log_level", "Info"]
    args += ["--alerts_topic", "a", "--alerts_brokers", "kafka", "--alerts_max_produce_buffer_ms", "7"]

    def setup(_args):
        sources = DefaultKafkaSourceCLIParser(decode), DefaultKafkaSourceCLIParser(decode, "feed", start="latest")
        sinks = DefaultKafkaSinkCLIParser(encode), DefaultKafkaSinkCLIParser(encode, name="alerts", exactly_once=False)
        return sources, sinks

    (source, feed), (sink, alerts) = call_setup(setup, args)
    assert (source.topic, source.brokers, source.log_level) == ("words", [("127.0.0.1", "9092")], "Warn")
    assert (feed.topic, feed.brokers, feed.log_level) == ("more", [("kafka", "9092")], "Info")
    assert (feed.start, feed.name) == ("latest", "feed")
    assert (sink.topic, sink.max_produce_buffer_ms, sink.exactly_once) == ("counts", 0, True)
    assert (alerts.topic, alerts.max_produce_buffer_ms, alerts.exactly_once, alerts.name) == ("a", 7, False, "alerts")


def test_default_parsers_can_be_called_with_a_command_line():
    source = DefaultKafkaSourceCLIParser(decode, start="latest", group="mine")(SOURCE)
    assert (source.topic, source.decoder, source.start, source.group) == ("words", decode, "latest", "mine")
    sink = DefaultKafkaSinkCLIParser(encode, exactly_once=False)(SINK)
    assert (sink.topic, sink.encoder, sink.exactly_once) == ("counts", encode, False)


def test_in_a_setup_a_missing_option_is_reported_at_once():
    with pytest.raises(wallaroo.WallarooParameterError, match="--feed_topic is missing"):
        call_setup(lambda _args: DefaultKafkaSourceCLIParser(decode, name="feed"), SOURCE)


@pytest.mark.parametrize("make", [DefaultKafkaSourceCLIParser, DefaultKafkaSinkCLIParser])
def test_the_name_is_a_word(make):
    with pytest.raises(wallaroo.WallarooParameterError, match="the name must be a string"):
        call_setup(lambda _args: make(decode, name=""), [])


def test_programs_that_are_only_checked_get_options_of_their_own():
    def setup(args):
        return DefaultKafkaSourceCLIParser(decode, "feed").topic, CustomKafkaSinkCLIParser(args, encode).brokers

    assert call_with_addresses(setup, []) == ("words", [("127.0.0.1", "9092")])
