"""Limits of the ingress: how much its sources take at the most, and how many files it may have open."""

from __future__ import annotations

import resource
from contextlib import suppress
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
        """Return how large a part of the log may be that can only be deleted as a whole: a small one of its limit."""
        return max(self.max_log // 8, _SMALLEST_SEGMENT)


FEW_CONNECTIONS = 1000
"""So many senders are not unusual. Where fewer can connect to a source at once, that is told at the start."""

ACCEPTED_AT_ONCE = 64
"""How many connections a source accepts before those that are open get their turn again."""

_ENOUGH = 1 << 20
_MACOS_MOST = 10_240
_FOR_THE_PROCESS = 64
# Logs, indices, sockets that listen; and connections that have been accepted but not yet counted, over a few turns.
_FOR_A_SOURCE = 16 + 4 * ACCEPTED_AT_ONCE


def allow_many_files() -> int:
    """Raise the limit of open files as far as it goes without asking an administrator, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _ENOUGH if hard == resource.RLIM_INFINITY else hard
    # macOS says that there is no limit, and refuses more than this.
    for wanted in (most, min(most, _MACOS_MOST)):
        if soft != resource.RLIM_INFINITY and wanted > soft:
            with suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
                return wanted
    return _ENOUGH if soft == resource.RLIM_INFINITY else soft


def connections_within(files: int, sources: int) -> int:
    """Return how many connections each source can have if the process may have so many files open.

    >>> connections_within(20_000, sources=1) > 10_000 > connections_within(20_000, sources=2)
    True
    >>> connections_within(10, sources=1)
    1
    """
    return max((files - _FOR_THE_PROCESS) // max(sources, 1) - _FOR_A_SOURCE, 1)
