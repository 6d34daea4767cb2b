"""How `machida` is asked to stop, and ended where the stop hangs."""

import json
import signal
import subprocess
import sys

import pytest

HANGS = """
import threading
from wallaroo.cli.logs import Log
from wallaroo.cli.machida import _stop_on_signals
stop = _stop_on_signals(Log(as_json=JSON))
stop.ready = READY
try:
    print("runs", flush=True)
    stop.requested.wait()
except KeyboardInterrupt:
    pass
print("stops", flush=True)
try:
    threading.Event().wait()
finally:
    print("cleans up", flush=True)
    threading.Event().wait()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("ready", [True, False])
@pytest.mark.parametrize("as_json", [True, False])
def test_a_stop_that_hangs_is_ended_by_a_third_signal(number, ready, as_json):
    program = [sys.executable, "-c", HANGS.replace("READY", str(ready)).replace("JSON", str(as_json))]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            for said in ("runs\n", "stops\n"):
                assert process.stdout.readline() == said
                process.send_signal(number)
            said = process.stderr.readline()
            assert "one more signal ends it" in (json.loads(said)["message"] if as_json else said)
            process.send_signal(number)
            assert process.wait(50) == -number
        finally:
            process.kill()
