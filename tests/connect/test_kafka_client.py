"""Which errors of Kafka's client end a script."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from wallaroo import WallarooError
from wallaroo.connect import kafka_client
from wallaroo.connect.kafka_client import patiently, raise_if_lasting


@pytest.mark.parametrize(
    "code",
    [KafkaError._MAX_POLL_EXCEEDED, KafkaError.LEADER_NOT_AVAILABLE, KafkaError._TRANSPORT, KafkaError._TIMED_OUT],
)
def test_after_errors_that_pass_the_client_goes_on(code, capsys, monkeypatch):
    monkeypatch.setattr(kafka_client, "_failures", kafka_client.Throttle(0))
    raise_if_lasting(KafkaError(code))
    assert "; trying again." in capsys.readouterr().err


@pytest.mark.parametrize("code", [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED])
def test_errors_that_last_end_the_script(code):
    with pytest.raises(WallarooError, match=r"^Kafka: "):
        raise_if_lasting(KafkaError(code))


def test_a_call_is_repeated_until_it_succeeds(monkeypatch):
    monkeypatch.setattr(kafka_client, "_FIRST_RETRY_SECONDS", 0)
    errors = [KafkaError.LEADER_NOT_AVAILABLE, KafkaError._TIMED_OUT]

    def call(first, *, second):
        if errors:
            raise KafkaException(KafkaError(errors.pop()))
        return first, second

    assert patiently(call, 1, second=2) == (1, 2)
    errors = [KafkaError.MSG_SIZE_TOO_LARGE]
    with pytest.raises(WallarooError, match=r"message\.max\.bytes"):
        patiently(call, 1, second=2)
