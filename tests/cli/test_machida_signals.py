"""How `machida` is asked to stop, and ended where the stop hangs."""

import json
import signal
import subprocess
import sys

import pytest

# Python runs handlers between its instructions, so a wait without an end might not notice a signal just before it.
HANGS = """
import time
from wallaroo.cli.logs import Log
from wallaroo.cli.machida import _stop_on_signals
stop = _stop_on_signals(Log(as_json=JSON))
stop.ready = READY
try:
    print("runs", flush=True)
    while not stop.requested.wait(0.01):
        pass
except KeyboardInterrupt:
    pass
print("stops", flush=True)
try:
    while True:
        time.sleep(0.01)
finally:
    print("cleans up", flush=True)
    while True:
        time.sleep(0.01)
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
