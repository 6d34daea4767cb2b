"""The jars of a Kafka broker."""

from pathlib import Path

from tools import ivy

VERSION = "4.2.1"
"""Not 4.3.0 or 4.3.1: they lose marks of transactions while a partition has no leader (KAFKA-20734)."""


def jars() -> Path:
    """Return the folder of the jars; the first call on a machine fetches 45 MB, which takes about a minute.

    Raises:
        ivy.OfflineError: They cannot be fetched.
    """
    return ivy.jars("kafka", f"org.apache.kafka:kafka_2.13:{VERSION}", "org.slf4j:slf4j-simple:1.7.36")
