"""How much the sources of an application take at the most."""

from __future__ import annotations

from dataclasses import dataclass

from wallaroo.ingress.framing import MAX_MESSAGE_SIZE

_SMALLEST_SEGMENT = 64 << 10


@dataclass(frozen=True)
class Limits:
    """What senders can make an application keep. Beyond it connections are closed, or senders have to wait."""

    max_message_size: int = MAX_MESSAGE_SIZE
    """The largest payload: a longer one is more likely a sender that frames in another way."""
    max_connections: int = 10_000
    """How many senders may be connected to a source at once."""
    max_log: int = 1 << 30
    """How many bytes the files of a source's log take on the disk before its senders have to wait."""
    max_unfinished: int = 256 << 20
    """How many bytes of messages that have not come completely are kept in memory before connections take turns."""
    chosen: frozenset[str] = frozenset()
    """The names of those that somebody has chosen. The others may be less where there is too little memory."""

    @property
    def segment_bytes(self) -> int:
        """Return how large a part of the log may be that can only be deleted as a whole: a small one of its limit."""
        return max(self.max_log // 8, _SMALLEST_SEGMENT)
