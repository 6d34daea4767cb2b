"""What Kafka knows about a message besides its value."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple


class KafkaMessage(NamedTuple):
    """What Kafka knows about a message besides its value, for decoders that take a second argument.

    Attributes:
        key: The key, None if the message has none.
        timestamp: When it was produced, or appended, as the topic is set up: milliseconds since 1970, or None.
        headers: The headers, as pairs of a name and a value; a value may be None.
        topic: The topic that it was read from.
        partition: The number of the partition.
        offset: The position in the partition.

    >>> message = KafkaMessage(b"k1", 1_700_000_000_000, (("trace", b"7f"),), "orders", 2, 1041)
    >>> message.key, message.partition, message.offset, dict(message.headers)["trace"]
    (b'k1', 2, 1041, b'7f')
    >>> message.time.isoformat()
    '2023-11-14T22:13:20+00:00'
    """

    key: bytes | None = None
    timestamp: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    topic: str = ""
    partition: int = 0
    offset: int = 0

    @property
    def time(self) -> datetime | None:
        """The timestamp as a datetime in UTC, None if the message has none."""
        return None if self.timestamp is None else datetime.fromtimestamp(self.timestamp / 1000, UTC)
