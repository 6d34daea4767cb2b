"""Limits of the ingress: how much its sources accept, and how many files it may have open."""

from __future__ import annotations

import resource
from contextlib import suppress
from dataclasses import dataclass

from wallaroo.ingress.framing import MAX_MESSAGE_SIZE

_SMALLEST_SEGMENT = 64 << 10


@dataclass(frozen=True)
class Limits:
    """How much senders can make an application store. Beyond it, connections are closed or senders are throttled."""

    max_message_size: int = MAX_MESSAGE_SIZE
    """The largest payload: a longer one more likely comes from a sender with a different framing."""
    max_connections: int = 10_000
    """How many senders may be connected to a source at once."""
    max_log: int = 1 << 30
    """How many bytes the files of a source's log take on disk before its senders are throttled."""
    max_unfinished: int = 256 << 20
    """How many bytes of incomplete messages are kept in memory before connections take turns."""
    chosen: frozenset[str] = frozenset()
    """The names of the limits that the user has set. The others may be lowered if there is too little memory."""
    open_files: int = 0
    """How many files the process may have open, where that and not `max_connections` limits the connections."""

    @property
    def why_no_more_connections(self) -> str:
        """Return what limits the number of connections, and how to raise it.

        >>> Limits().why_no_more_connections
        '--max-connections'
        """
        if not self.open_files:
            return "--max-connections"
        return f"this process may have {self.open_files:,} files open: raise that with ulimit -n"

    @property
    def segment_bytes(self) -> int:
        """Return how large a segment, the unit of deletion, may be: a small part of the log's limit."""
        return max(self.max_log // 8, _SMALLEST_SEGMENT)


FEW_CONNECTIONS = 1000
"""Below this many connections, the limit is reported at startup."""

ACCEPTED_AT_ONCE = 64
"""How many connections a source accepts before the open ones are read again."""

_ENOUGH = 1 << 20
_MACOS_MAX = 10_240
_FOR_THE_PROCESS = 64
# Logs, indices, listening sockets; and connections that are accepted but not yet counted, over a few iterations.
_FOR_A_SOURCE = 16 + 4 * ACCEPTED_AT_ONCE


def allow_many_files() -> int:
    """Raise the soft limit of open files as far as possible without privileges, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _ENOUGH if hard == resource.RLIM_INFINITY else hard
    # macOS reports no limit, but rejects values above this.
    for wanted in (most, min(most, _MACOS_MAX)):
        if soft != resource.RLIM_INFINITY and wanted > soft:
            with suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
                return wanted
    return _ENOUGH if soft == resource.RLIM_INFINITY else soft


def connections_within(files: int, sources: int) -> int:
    """Return how many connections each source can have if the process may have `files` files open.

    >>> connections_within(20_000, sources=1) > 10_000 > connections_within(20_000, sources=2)
    True
    >>> connections_within(10, sources=1)
    1
    """
    return max((files - _FOR_THE_PROCESS) // max(sources, 1) - _FOR_A_SOURCE, 1)
