"""What user code prints in a worker is caught, also by a handler that was made before."""

import io
import logging

from tests.processes import run_python

from wallaroo.engine.stages.stdout_capture import CapturedStream


def test_text_goes_to_the_current_task_and_otherwise_where_it_went_before(monkeypatch):
    original = io.StringIO()
    stream = CapturedStream(original)
    handler = logging.StreamHandler(stream)
    print("before", file=stream)
    task = io.StringIO()
    monkeypatch.setattr(CapturedStream, "buffer_of_task", task)
    print("within", file=stream)
    handler.emit(logging.LogRecord("app", logging.INFO, "app.py", 1, "logged", None, None))
    monkeypatch.setattr(CapturedStream, "buffer_of_task", None)
    print("after", file=stream)
    stream.flush()
    assert task.getvalue() == "within\nlogged\n"
    assert original.getvalue() == "before\nafter\n"


def test_the_streams_are_put_in_place_once():
    program = """
import sys
from wallaroo.engine.stages.stdout_capture import catch_streams
catch_streams()
out, err = sys.stdout, sys.stderr
catch_streams()
assert (sys.stdout, sys.stderr) == (out, err)
print("still", "there", out.writable(), out.fileno(), flush=True)
"""
    assert run_python("-c", program).stdout == "still there True 1\n"
