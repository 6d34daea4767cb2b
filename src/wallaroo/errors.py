"""The errors that users of Wallaroo see, with messages written for people."""

import traceback
from pathlib import Path

from wallaroo import python2_hints
from wallaroo.inlined_lines import users_frames

_OUR_OWN_CODE = str(Path(__file__).parent)


class WallarooError(Exception):
    """Anything that Wallaroo refuses or cannot do; the message says what happened and what to do next."""

    exit_code = 1
    """The exit code of `machida`, so that scripts can tell kinds apart; the command-line reference has the table."""


class ApplicationError(WallarooError):
    """An application cannot be imported or built."""

    exit_code = 3


class SavedStateError(ApplicationError):
    """The states of an earlier run cannot be loaded by the application as it is now."""


class WallarooParameterError(ApplicationError):
    """An application is declared wrongly. The message lists every mistake that was found."""


class AddressError(WallarooError):
    """It is not possible to listen on, or send to, an address of the application."""

    exit_code = 4


class DirectoryError(WallarooError):
    """An application's directory cannot be used, or holds data that this application cannot continue from."""

    exit_code = 5


class SparkStartError(WallarooError):
    """Spark, or the Java that it runs on, cannot be started."""

    exit_code = 6


class ErrorPolicyError(WallarooError):
    """The application's code failed more often than `--on-error` allows."""

    exit_code = 7


def users_traceback(error: BaseException) -> str:
    """Return the traceback of `error` without the lines of Wallaroo's own code.

    If the error looks like Python 2, a line says how to write it in Python 3.
    """
    frames = [
        frame
        for frame in users_frames(error)
        if not frame.filename.startswith((_OUR_OWN_CODE, "<wallaroo", "<frozen importlib"))
        and Path(frame.filename).parent.name != "importlib"
    ]
    head = ["Traceback (most recent call last):\n", *traceback.format_list(frames)] if frames else []
    text = "".join([*head, *traceback.format_exception_only(error)]).rstrip()
    hint = python2_hints.hint(error)
    return text if hint is None else f"{text}\n{hint}"
