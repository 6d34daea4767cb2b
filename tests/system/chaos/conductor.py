"""Performs a schedule: traffic all the time, the faults at their moments, and the oracle at the end."""

from __future__ import annotations

import contextlib
import random
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from tests.system.cluster import Cluster
from tests.system.harness import PATIENCE

from .application import SEGMENT_BYTES, Application
from .oracle import Verdict
from .outside import Outside
from .schedule import OUTSIDE, Fault, Moment, Schedule, Strike
from .traffic import Traffic

if TYPE_CHECKING:
    from tools.kafka_broker import Broker

_ROOM_FOR_THE_LAST_LINES = 1 << 20


@dataclass
class Result:
    """How a schedule went."""

    schedule: Schedule
    verdict: Verdict
    starts: int
    seconds: float
    missed: list[Strike]
    """Faults without a target, such as a worker that was not there yet."""

    def __str__(self) -> str:
        verdict = self.verdict
        missed = f" ({len(self.missed)} missed)" if self.missed else ""
        return (
            f"seed {self.schedule.seed}: {self.schedule}{missed} | "
            f"{verdict.messages:,} messages, {self.starts} starts, {verdict.repeats:,} repeats in "
            f"{verdict.repeated_blocks} blocks, {self.seconds:.0f} s | {verdict}"
        )


def perform(schedule: Schedule, folder: Path, broker: Broker | None = None) -> Result:
    """Perform a schedule with all its files in `folder`, and judge the outputs; one with Kafka needs a broker."""
    began = time.monotonic()
    with contextlib.ExitStack() as cleanup:
        cluster = Cluster(folder) if schedule.cluster else None
        if cluster is not None:
            cleanup.callback(cluster.clean_up)
        application = Application(folder, _outside(schedule, broker), cluster)
        cleanup.callback(application.clean_up)
        traffic = Traffic(schedule.seed, application.connect, application.outside.lanes)
        conductor = Conductor(schedule.seed, application, traffic)
        try:
            verdict = conductor.perform(schedule)
        except Exception as error:  # noqa: BLE001 - whatever fails is a finding, and the next schedule wants to run
            verdict = Verdict([f"{type(error).__name__}: {error}"], 0, 0, 0)
            traffic.give_up()
        finally:
            for number, run in enumerate(application.runs):
                (folder / f"run{number}.out").write_text(run.output)
    return Result(schedule, verdict, len(application.runs), time.monotonic() - began, conductor.missed)


def _outside(schedule: Schedule, broker: Broker | None) -> Outside | None:
    if not schedule.kafka:
        return None
    from .kafka import KafkaOutside  # noqa: PLC0415 - only then are Kafka's client and Java's threads wanted.

    assert broker is not None, "a schedule with Kafka needs a broker"
    return KafkaOutside(broker, schedule.seed)


class Conductor:
    """Injects faults into an application, and starts it again if that has ended it."""

    def __init__(self, seed: int, application: Application, traffic: Traffic) -> None:
        self._application = application
        self._traffic = traffic
        self._choose = random.Random(f"targets {seed}")
        self._timers: list[threading.Timer] = []
        self._may_end = False
        """Whether a fault may have ended the current run: it had not been ready."""
        self.missed: list[Strike] = []
        """The faults without a target."""

    def perform(self, schedule: Schedule) -> Verdict:
        """Perform a whole schedule."""
        self.start()
        self._traffic.flow()
        for strike in schedule.strikes:
            self.strike(strike, self._wait_for(strike))
            self._traffic.flood(on=False)
            if strike.moment is Moment.DELIVERY:
                self._application.outside.let_go()
        self.calm_down()
        self._traffic.end()
        return self.finish()

    def start(self) -> None:
        """Start the application, without waiting for it."""
        self._may_end = False
        self._application.start()

    def wait_until_ready(self) -> None:
        """Wait until the application is ready; if a fault has ended the start, start again."""
        while not self._application.is_ready:
            run = self._application.run
            if run.is_running:
                time.sleep(0.01)
                continue
            assert self._may_end, f"the application has ended with {run.exit_code()}:\n{run.output}"
            self.start()

    def strike(self, strike: Strike, targets: Sequence[psutil.Process] = ()) -> None:
        """Inject a fault; if it ends the application, start it again, without waiting for it.

        It hits one of `targets`, or, if there are none, of the processes that are found at that moment.
        """
        time.sleep(strike.delay)
        application = self._application
        match strike.fault:
            case Fault.TEAR_SENDER:
                self._traffic.tear()
            case Fault.STOP:
                self.stop()
                self.start()
            case fault if fault in OUTSIDE:
                if not application.outside.strike(strike, self._later, application.frozen):
                    self.missed.append(strike)
            case fault:
                # A run that is not ready does not recover by itself: any fault may end it.
                self._may_end |= not application.is_ready
                if targets := targets or application.targets(fault):
                    self._strike_process(strike, self._choose.choice(targets))
                else:
                    self.missed.append(strike)

    def _strike_process(self, strike: Strike, target: psutil.Process) -> None:
        run = self._application.run
        with contextlib.suppress(psutil.NoSuchProcess):
            if strike.fault.name.startswith("FREEZE"):
                target.suspend()
                self._later(strike.seconds, lambda: self._application.thaw([target]))
                return
            if strike.fault is Fault.KILL_DRIVER:
                run.kill()
            else:
                target.kill()
        if strike.fault is Fault.KILL_DRIVER:
            self.start()

    def stop(self) -> None:
        """Stop the application cleanly."""
        run, ready = self._application.run, self._application.is_ready
        run.ask_to_stop()
        code = run.exit_code()
        # In its first moments a process has not yet said what a signal means to it.
        fine = code == 0 or (not ready and (self._may_end or code == -signal.SIGTERM))
        assert fine, f"stopped with {code}:\n{run.output}"

    def calm_down(self) -> None:
        """Wait until nothing is frozen, away or on hold any more, and the application is ready."""
        for timer in self._timers:
            timer.join(PATIENCE)
        self.wait_until_ready()

    def wait_for_all(self) -> None:
        """Wait until everything that was accepted is output: the last message of every key is."""
        lines = [line.encode() for line in self._traffic.roll_call()]
        latest = partial(self._application.outside.latest, _ROOM_FOR_THE_LAST_LINES)
        self._application.run.wait_until(lambda: all(line in latest() for line in lines), "the roll call")

    def finish(self) -> Verdict:
        """Wait until everything that was accepted is output, stop, and judge."""
        outside = self._application.outside
        self.wait_for_all()
        self._application.run.stop()
        outside.wait_for_the_end()
        verdict = outside.judge(self._traffic.sent)
        for ended in self._application.runs:
            ended.nothing_left()
            if "Traceback" in ended.output or "Exception in thread" in ended.output:
                verdict.violations.append(f"a traceback on the screen:\n{ended.output}")
        if (self._application.home / "dead-letters.jsonl").exists():
            verdict.violations.append("messages became dead letters")
        return verdict

    def _wait_for(self, strike: Strike) -> list[psutil.Process]:
        """Wait for the moment of a fault; return its targets if there will be no time to look for them."""
        if strike.moment in {Moment.NEXT, Moment.RECOVERY}:
            return []
        self.wait_until_ready()
        application, run = self._application, self._application.run
        match strike.moment:
            case Moment.CALM:
                before = application.outside.size
                run.wait_until(lambda: application.outside.size > before, "a line")
            case Moment.ROLLOVER:
                segment, _ = application.newest_segment()
                self._traffic.flood(on=True)
                full = (segment, SEGMENT_BYTES)
                run.wait_until(lambda: application.newest_segment() >= full, "the end of a segment")
            case Moment.SAVING:
                there = application.saved_states()
                run.wait_until(lambda: application.saved_states() - there, "states that are saved")
            case Moment.RECORD:
                targets = application.targets(strike.fault)
                before = application.last_recorded()
                run.wait_until(lambda: application.last_recorded() > before, "a record", pause=0.0002)
                return targets
            case Moment.DELIVERY:
                application.outside.catch_sending()
                run.wait_until(lambda: application.outside.is_behind, "a block that is being sent", pause=0.001)
        return []

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        timer = threading.Timer(seconds, action)
        timer.daemon = True
        timer.start()
        self._timers.append(timer)
