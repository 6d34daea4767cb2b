"""Mistakes in configs are told in plain words, before anything is started."""

from datetime import UTC, datetime

import pytest

import wallaroo
from wallaroo.connectors.kafka.config import KafkaSinkConfig, KafkaSourceConfig
from wallaroo.connectors.kafka.kind import KafkaSinkKind, KafkaSourceKind
from wallaroo.errors import AddressError, ApplicationError

BROKERS = [("127.0.0.1", "9092")]


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(bs):
    return bs


@wallaroo.encoder
def encode(data):
    return data, None


def source(topic="words", brokers=BROKERS, log_level="Warn", decoder=decode, **more):
    return KafkaSourceConfig(topic, brokers, log_level, decoder, **more)


def sink(topic="words", brokers=BROKERS, log_level="Warn", linger=0, size=100000, encoder=encode, **more):
    return KafkaSinkConfig(topic, brokers, log_level, linger, size, encoder, **more)


def mistakes(config):
    kind = KafkaSourceKind() if isinstance(config, KafkaSourceConfig) else KafkaSinkKind()
    return list(kind.mistakes(config))


@pytest.mark.parametrize(
    "config",
    [
        source(),
        source("A.b_c-9", (["::1", 9092], ("kafka", "9093")), "Fine", start="latest", group="mine"),
        source(start=datetime(2026, 1, 1, tzinfo=UTC)),
        source(config={"security.protocol": "SSL", "socket.timeout.ms": 500, "oauth_cb": print, "x": True}),
        source(decoder=wallaroo.decoder(lambda bs, message: message.key)),
        sink(),
        sink("x", [("kafka", 1)], "Error", 5, 1000, exactly_once=False, config={"compression.type": "lz4"}),
    ],
)
def test_good_configs(config):
    assert mistakes(config) == []


@pytest.mark.parametrize("make", [source, sink])
@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"topic": ""}, "the topic of the ROLE must be a string such as 'words'; got '' (a str)"),
        ({"topic": None}, "the topic of the ROLE must be a string such as 'words'; got None"),
        ({"topic": "^all.*"}, "the topic of the ROLE has letters, digits, and . _ - in its name"),
        ({"topic": ".."}, "the topic of the ROLE has letters, digits, and . _ - in its name"),
        ({"topic": "x" * 250}, "at most 249"),
        ({"brokers": []}, 'must be a list of pairs of host and port: write [("127.0.0.1", "9092")]; got an empty list'),
        ({"brokers": "kafka:9092"}, "brokers of the ROLE must be a list of pairs"),
        ({"brokers": ["kafka:9092"]}, "each of the brokers of the ROLE must be a pair of host and port"),
        ({"brokers": [("", "9092")]}, "the host of a broker of the ROLE must be a string"),
        ({"brokers": [("kafka", "x")]}, "broker of the ROLE: the port must be a number from 0 to 65535; got 'x'"),
        ({"brokers": [("kafka", 0)]}, "the port of a broker of the ROLE cannot be 0"),
        ({"log_level": "Debug"}, "log_level of the ROLE must be one of Fine, Info, Warn, Error; got 'Debug' (a str)"),
        ({"config": "acks=1"}, 'config of the ROLE must be a dictionary of settings, such as {"security.protocol"'),
        ({"config": {1: 2}}, "the names in config of the ROLE must be strings; got 1 (an int)"),
        ({"config": {"x": [1]}}, "'x' in config of the ROLE must be a string, a number or a boolean; got [1] (a list)"),
        ({"config": {"oauth_cb": "f"}}, "'oauth_cb' in config of the ROLE must be a function"),
        ({"config": {"bootstrap.servers": "x"}}, "cannot have 'bootstrap.servers': name the brokers in `brokers`"),
        ({"config": {"error_cb": print}}, "cannot have 'error_cb': what the client reports goes to"),
        ({"name": 5}, "must be a string; got 5 (an int)"),
    ],
)
def test_mistakes_of_both(make, wrong, expected):
    (mistake,) = mistakes(make(**wrong))
    assert expected.replace("ROLE", make.__name__) in mistake


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"start": "now"}, 'start of the source must be "earliest", "latest", or a datetime with a time zone; got'),
        ({"start": 0}, "got 0 (an int)"),
        ({"start": ["earliest"]}, "got ['earliest'] (a list)"),
        ({"start": datetime(2026, 1, 1)}, "is a datetime without a time zone"),  # noqa: DTZ001 - the mistake
        ({"group": ""}, "group of the source must be a string, the name of a consumer group; got '' (a str)"),
        ({"config": {"group.id": "g"}}, "config of the source cannot have 'group.id': write group="),
        ({"config": {"isolation.level": "read_uncommitted"}}, "only committed messages are read"),
        ({"config": {"enable.auto.commit": True}}, "the positions are kept with the application's state"),
        ({"config": {"auto.offset.reset": "latest"}}, 'write start="earliest" or start="latest"'),
        ({"decoder": None}, "the decoder None has no method decode"),
        ({"decoder": bytes}, "the decoder is the class bytes"),
    ],
)
def test_mistakes_of_a_source(wrong, expected):
    (mistake,) = mistakes(source(**wrong))
    assert expected in mistake


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"linger": -1}, "max_produce_buffer_ms of the sink must be a whole number of milliseconds, from 0 to 900000"),
        ({"linger": True}, "got True (a bool)"),
        ({"size": 999}, "max_message_size of the sink must be a number of bytes, from 1000 to 1000000000; got 999"),
        ({"size": "1MB"}, "got '1MB' (a str)"),
        ({"exactly_once": "yes"}, "exactly_once of the sink must be True or False; got 'yes' (a str)"),
        ({"config": {"transactional.id": "t"}}, "cannot have 'transactional.id': exactly_once=True uses transactions"),
        ({"config": {"linger.ms": 5}}, "write max_produce_buffer_ms=..."),
        ({"config": {"acks": "1"}}, "an output is sent until the brokers have it"),
        ({"encoder": decode}, "the encoder decode has no method encode"),
    ],
)
def test_mistakes_of_a_sink(wrong, expected):
    (mistake,) = mistakes(sink(**wrong))
    assert expected in mistake


def test_all_mistakes_are_listed_at_once():
    assert len(mistakes(source(None, None, None, None, start=None, group=1, config=1, name=2))) == 8


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (sink(), None),
        (sink(brokers=[["127.0.0.1", 9092]], log_level="Info", name="other"), None),
        (sink("elsewhere", exactly_once=False), None),
        (sink(brokers=[("another-cluster", "9092")], exactly_once=False), None),
        (sink(exactly_once=False), "with different exactly_once: give it the same value in both"),
        (sink(size=2000), "with different max_message_size: give it the same value in both"),
        (sink(linger=5), "with different max_produce_buffer_ms: give it the same value in both"),
        (sink(config={"security.protocol": "SSL"}), "with different config: give it the same value in both"),
        (sink(brokers=[*BROKERS, ("b", 1)]), "with different lists of brokers: give both the same list"),
        (sink(brokers="nonsense", exactly_once=False), None),
    ],
)
def test_sinks_of_one_topic_share_a_connection_and_have_to_agree(other, expected):
    found = KafkaSinkKind().conflict(sink(), other)
    assert found == (None if expected is None else f"write to the topic 'words' {expected}")


def test_what_the_drawing_shows():
    assert KafkaSourceKind().shown(source()) == ("Kafka topic words", "at 127.0.0.1:9092", "decoded by decode")
    several = sink(brokers=[("::1", 9092), ("kafka", 9092), ("other", 9092)])
    assert KafkaSinkKind().shown(several) == ("Kafka topic words", "at [::1]:9092 and 2 more", "encoded by encode")


def test_where_other_processes_find_the_topic():
    place = KafkaSourceKind().place(source(brokers=[("kafka", 9092)]))
    assert place == {"topic": "words", "brokers": [["kafka", "9092"]]}


def test_a_broker_that_is_only_away_is_no_error():
    KafkaSourceKind().preflight("words", source(brokers=[("127.0.0.1", 1), ("no.such.host.invalid", 1)]))
    KafkaSinkKind().preflight("words", sink(brokers=[("127.0.0.1", 1)], config={"compression.type": "lz4"}))


@pytest.mark.parametrize(
    ("kind", "make", "doing"),
    [
        (KafkaSourceKind(), source, "cannot read the topic 'words'"),
        (KafkaSinkKind(), sink, "cannot write to the topic"),
    ],
)
def test_brokers_with_unknown_names_are_refused(kind, make, doing):
    with pytest.raises(AddressError, match=f"Pipeline 'words' {doing}.*the name 'no.such.host.invalid' .* not known"):
        kind.preflight("words", make(brokers=[("no.such.host.invalid", 9092)]))


@pytest.mark.parametrize(("kind", "make"), [(KafkaSourceKind(), source), (KafkaSinkKind(), sink)])
@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"sasl.mechansim": "PLAIN"}, 'No such configuration property: "sasl.mechansim"'),
        ({"security.protocol": "TLS"}, 'Invalid value "TLS" for configuration property "security.protocol"'),
        ({"security.protocol": "SSL", "ssl.ca.location": "/no/such.pem"}, "ssl.ca.location"),
    ],
)
def test_settings_that_the_client_refuses_are_reported(kind, make, config, reason):
    with pytest.raises(
        ApplicationError, match=f"Pipeline 'p': Kafka's client refuses config of the {make.__name__}: .*"
    ):
        kind.preflight("p", make(config=config))
    with pytest.raises(ApplicationError) as refused:
        kind.preflight("p", make(config=config))
    assert reason in str(refused.value)
