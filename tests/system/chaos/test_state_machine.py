"""Sends, waits, crashes, recoveries, stops and starts, in any order that hypothesis comes up with."""

import tempfile
from collections import Counter
from enum import Enum, auto
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from .application import Application
from .conductor import Conductor
from .schedule import Fault, Moment, Strike
from .traffic import KEYS, Traffic

CRASHES = [Fault.KILL_DRIVER, Fault.KILL_JVM, Fault.KILL_INGRESS, Fault.KILL_WORKER]

# A start takes many seconds, so there are few examples, the same ones each time, and no search for smaller ones.
# The seed is one with which they have everything in them, which the test checks.
SEED = 15
FEW = settings(
    max_examples=2,
    stateful_step_count=12,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


class Stage(Enum):
    """What the application is doing."""

    DOWN = auto()
    STARTING = auto()
    READY = auto()


class Life(RuleBasedStateMachine):
    """The runs of an application: what was accepted is output exactly once, whatever happens in between."""

    happened: ClassVar[Counter[str]] = Counter()

    def __init__(self):
        super().__init__()
        self._folder = tempfile.TemporaryDirectory(prefix="life")
        self._application = Application(Path(self._folder.name))
        self._traffic = Traffic(0, self._application.connect)
        self._conductor = Conductor(0, self._application, self._traffic)
        self.stage = Stage.DOWN
        self.fresh = True
        """Whether nothing has happened since the last start, crash or stop: no sending, and no crash."""
        self.waiting = False
        """Whether something was sent that has not been waited for."""

    @precondition(lambda self: self.stage is Stage.DOWN)
    @rule()
    def start(self):
        self.happened["start"] += 1
        self._conductor.start()
        self.stage, self.fresh = Stage.STARTING, True

    @precondition(lambda self: self.stage is Stage.STARTING)
    @rule()
    def recover(self):
        self.happened["recover"] += 1
        self._conductor.wait_until_ready()
        self.stage, self.fresh = Stage.READY, True

    @precondition(lambda self: self.stage is Stage.READY)
    @rule(messages=st.integers(1, 3000))
    def send(self, messages):
        """Send on one connection."""
        self.happened["send"] += 1
        self._traffic.send([KEYS[number % len(KEYS)] for number in range(messages)])
        self.waiting, self.fresh = True, False

    @precondition(lambda self: self.stage is Stage.READY and self.waiting)
    @rule()
    def wait(self):
        """Wait until all has come out, and compare."""
        self.happened["wait"] += 1
        self._conductor.wait_until_ready()
        self._conductor.wait_for_all()
        self._check(self._application.outside.judge(self._traffic.sent))
        self.waiting = False

    @precondition(lambda self: self.stage is Stage.READY and not self.fresh)
    @rule(fault=st.sampled_from(CRASHES))
    def crash(self, fault):
        """Kill a part; the application is started again if it ends of that."""
        self.happened["crash"] += 1
        self._conductor.strike(Strike(fault, Moment.NEXT, 0, 0))
        self.stage, self.fresh = Stage.STARTING, True

    @precondition(lambda self: self.stage is Stage.STARTING and self.fresh)
    @rule(fault=st.sampled_from(CRASHES), seconds=st.floats(0, 10))
    def crash_while_starting(self, fault, seconds):
        """Kill a part of an application that is not ready yet."""
        self.happened["crash_while_starting"] += 1
        self._conductor.strike(Strike(fault, Moment.RECOVERY, seconds, 0))
        self.fresh = False

    @precondition(lambda self: self.stage is Stage.READY and not self.fresh)
    @rule()
    def stop(self):
        self.happened["stop"] += 1
        self._conductor.stop()
        self.stage = Stage.DOWN

    def teardown(self):
        try:
            # Hypothesis gives some examples up soon after their beginning.
            if self._traffic.sent:
                if self.stage is Stage.DOWN:
                    self._conductor.start()
                self._conductor.calm_down()
                self._check(self._conductor.finish())
        finally:
            self._traffic.give_up()
            self._application.clean_up()
            self._folder.cleanup()

    @staticmethod
    def _check(verdict):
        assert not verdict.violations, str(verdict)


@pytest.mark.timeout(900)
def test_accepted_messages_are_output_once_in_any_sequence_of_faults():
    run_state_machine_as_test(seed(SEED)(Life), settings=FEW)
    assert set(Life.happened) == {"start", "recover", "send", "wait", "crash", "crash_while_starting", "stop"}
