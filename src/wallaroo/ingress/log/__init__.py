"""A durable log of messages: one process appends, any number of processes read; `format` describes its files."""

from __future__ import annotations

from wallaroo.ingress.log.format import LogCorruptError
from wallaroo.ingress.log.reader import LogReader
from wallaroo.ingress.log.writer import SEGMENT_BYTES, LogWriter

__all__ = ["SEGMENT_BYTES", "LogCorruptError", "LogReader", "LogWriter"]
