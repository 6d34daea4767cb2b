"""Cuts what was read from a log into messages: Arrow does it many times faster than a loop."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

_OFFSET = np.dtype("<u4")


def cut_messages(data: bytes, ends: bytes, data_start: int) -> list[bytes]:
    """Return the messages in `data`, which begins at `data_start` of its file; `ends` is the part of `.ends` for it.

    >>> cut_messages(b"acorn", bytes([11, 0, 0, 0, 15, 0, 0, 0]), 10)
    [b'a', b'corn']
    """
    found = np.frombuffer(ends, _OFFSET)
    offsets = np.zeros(len(found) + 1, np.int64)
    np.subtract(found, data_start, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    messages: list[bytes] = pa.Array.from_buffers(pa.large_binary(), len(found), buffers).to_pylist()
    return messages
