"""The errors that a user of Wallaroo meets, each written to be read by a person."""

import traceback
from pathlib import Path

from wallaroo import python2

_OUR_OWN_CODE = str(Path(__file__).parent)


class WallarooError(Exception):
    """Anything that Wallaroo refuses or cannot do; its text says what happened and what to do next."""


class WallarooParameterError(WallarooError):
    """An application is put together wrongly. The text lists every mistake that was found."""


def users_traceback(error: BaseException) -> str:
    """Return the traceback of `error` without the lines of Wallaroo's own code, which help nobody.

    Where the error looks like Python 2, a line says how it is written in Python 3.
    """
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((_OUR_OWN_CODE, "<frozen importlib"))
        and Path(frame.filename).parent.name != "importlib"
    ]
    head = ["Traceback (most recent call last):\n", *traceback.format_list(frames)] if frames else []
    text = "".join([*head, *traceback.format_exception_only(error)]).rstrip()
    hint = python2.hint(error)
    return text if hint is None else f"{text}\n{hint}"
