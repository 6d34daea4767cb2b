"""Until the kinds of Kafka are registered for everybody."""

import pytest

from wallaroo.connectors import registry
from wallaroo.connectors.kafka.kind import KafkaSourceKind


@pytest.fixture(autouse=True)
def kafka_kinds(monkeypatch):
    if not any(kind.name == "kafka" for kind in registry.SOURCES):
        monkeypatch.setattr(registry, "SOURCES", [*registry.SOURCES, KafkaSourceKind()])
