"""Why the query has failed, classified by type: whether to wait, to retry, or to end the run."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from wallaroo.errors import ApplicationError, WallarooError
from wallaroo.files import DISK_FULL_ERRNOS
from wallaroo.ingress.client import IngressUnavailableError


class Kind(StrEnum):
    """The kind of a failure, which decides how to continue."""

    APPLICATION = "application"
    """The program has to be changed: started again unchanged, it would fail in the same way."""
    FINAL = "final"
    """It would happen again: reported by our own code, or raised where no error is expected."""
    DISK_FULL = "disk full"
    """A disk is full."""
    INGRESS = "ingress"
    """The process that accepts connections did not answer; it is restarted."""
    LOST = "lost"
    """A process or a connection was lost, or something else outside failed: it may not happen again."""


class Failure(NamedTuple):
    """Why the query has failed."""

    kind: Kind
    text: str


def failure_of(error: BaseException) -> Failure:
    """Return what an error in a task means for the run.

    >>> failure_of(WallarooError("The log is damaged."))
    Failure(kind=<Kind.FINAL: 'final'>, text='The log is damaged.')
    >>> failure_of(ApplicationError("State 'totals' cannot be loaded.")).kind
    <Kind.APPLICATION: 'application'>
    >>> import errno
    >>> failure_of(OSError(errno.ENOSPC, "No space left on device", "/data/states/1")).kind
    <Kind.DISK_FULL: 'disk full'>
    >>> failure_of(ConnectionResetError("gone")).kind, failure_of(ValueError(3)).kind
    (<Kind.LOST: 'lost'>, <Kind.FINAL: 'final'>)
    """
    if isinstance(error, IngressUnavailableError):
        return Failure(Kind.INGRESS, str(error))
    if isinstance(error, ApplicationError):
        return Failure(Kind.APPLICATION, str(error))
    if isinstance(error, WallarooError):
        return Failure(Kind.FINAL, str(error))
    if isinstance(error, OSError):
        return Failure(Kind.DISK_FULL if error.errno in DISK_FULL_ERRNOS else Kind.LOST, str(error) or repr(error))
    return Failure(Kind.LOST if isinstance(error, EOFError | MemoryError) else Kind.FINAL, repr(error))
