"""How many files, and so how many connections, this process may have open."""

from __future__ import annotations

import resource
from contextlib import suppress

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
