"""Source and sink configs keep what they are given."""

import pytest

import wallaroo


@wallaroo.encoder
def encode(data):
    return data


@wallaroo.decoder
def decode(bs):
    return bs


@pytest.mark.parametrize("port", ["7010", 7010])
def test_the_port_is_kept_as_given_and_read_as_a_number(port):
    source = wallaroo.TCPSourceConfig("127.0.0.1", port, decode)
    sink = wallaroo.TCPSinkConfig("::1", port, encode)
    assert (source.host, source.port, source.decoder) == ("127.0.0.1", port, decode)
    assert (sink.host, sink.port, sink.encoder) == ("::1", port, encode)
    assert source.address == ("127.0.0.1", 7010)
    assert sink.address == ("::1", 7010)


def test_arguments_have_names():
    assert wallaroo.TCPSourceConfig(host="h", port="1", decoder=decode).decoder is decode
    assert wallaroo.TCPSinkConfig(host="h", port="1", encoder=encode).encoder is encode


def test_a_wrong_port_waits_for_the_build():
    config = wallaroo.TCPSinkConfig("127.0.0.1", "http", encode)
    assert repr(config) == "TCPSinkConfig(host='127.0.0.1', port='http', encoder=<@wallaroo.encoder 'encode'>)"
    with pytest.raises(wallaroo.WallarooParameterError, match="got 'http'"):
        _ = config.address


@pytest.mark.parametrize(
    ("call", "instead"),
    [
        (lambda: wallaroo.KafkaSourceConfig("topic", [("h", "9092")], "Warn", decode), "TCPSourceConfig"),
        (lambda: wallaroo.KafkaSinkConfig("t", [], "Warn", 0, 100000, encode), "TCPSinkConfig"),
        (
            lambda: wallaroo.KafkaSinkConfig(topic="t", brokers=[], log_level="Warn", encoder=encode),
            "TCPSinkConfig",
        ),
        (lambda: wallaroo.kafka_parse_source_options(["--kafka_source_topic", "t"]), "tcp_parse_input_addrs"),
        (lambda: wallaroo.kafka_parse_sink_options(["--kafka_sink_topic", "t"]), "tcp_parse_output_addrs"),
    ],
)
def test_kafka_is_refused_in_plain_words(call, instead):
    with pytest.raises(wallaroo.WallarooParameterError, match="Kafka comes in a later release") as refused:
        call()
    assert f"wallaroo.{instead}" in str(refused.value)
