"""Finds the user's lines in generated loops, so that tracebacks show them and not the loops.

Simple functions of the user are written into the loops that would call them. What is written there has the numbers of
the user's lines, plus `SHIFT` times the number of the function in the loop, and the user's columns. So an error has the
same traceback as if the function had been called.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from types import TracebackType

SHIFT = 1_000_000
"""More than the lines of any loop and of any file."""

_FUNCTIONS: dict[str, Sequence[tuple[str, str]]] = {}


def register(loop: str, functions: Sequence[tuple[str, str]]) -> None:
    """Record the functions that are written into a loop, the first as number 1: their files, and their names."""
    _FUNCTIONS[loop] = functions


def users_frames(error: BaseException) -> Iterator[traceback.FrameSummary]:
    """Yield the entries of an error's traceback, with the user's lines where they are in a loop."""
    for frame in traceback.extract_tb(error.__traceback__):
        function, line = divmod(frame.lineno or 0, SHIFT)
        if function and frame.filename in _FUNCTIONS:
            file, name = _FUNCTIONS[frame.filename][function - 1]
            end = None if frame.end_lineno is None else frame.end_lineno % SHIFT
            yield traceback.FrameSummary(file, line, name, end_lineno=end, colno=frame.colno, end_colno=frame.end_colno)
        else:
            yield frame


def is_users(trace: TracebackType) -> bool:
    """Return whether an entry of a traceback is in the user's code, though in a loop."""
    return trace.tb_lineno >= SHIFT and trace.tb_frame.f_code.co_filename in _FUNCTIONS
