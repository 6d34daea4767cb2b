"""What the tests of the Kafka connector share."""

import uuid

import pytest
from tests.connectors.kafka.written_blocks import Written


@pytest.fixture
def application():
    """Return the id of an application's state."""
    return uuid.uuid4().hex


@pytest.fixture
def open_sink(request, application):
    """Return a function that makes a sink for a topic; all are closed at the end."""
    made = []
    main = application

    def make(topic, brokers=None, application=None, **options):
        address = (brokers or request.getfixturevalue("kafka")).address
        made.append(Written(address, topic, application or main, **options))
        return made[-1]

    yield make
    for written in made:
        written.stopping.set()
        written.sink.close()
