"""Schedules of faults, made from a seed: the same seed makes the same schedule, for ever.

What strikes and when it strikes are drawn from the seed. Where exactly a process is hit is up to the machine, so a seed
that showed a fault may have to be run a few times to show it again.
"""

import random
from dataclasses import dataclass
from enum import StrEnum


class Fault(StrEnum):
    """What strikes."""

    KILL_DRIVER = "kill the driver"
    KILL_JVM = "kill the JVM"
    KILL_INGRESS = "kill the ingress"
    KILL_WORKER = "kill a Python worker"
    KILL_EXECUTOR = "kill an executor"
    FREEZE_DRIVER = "freeze the driver"
    FREEZE_JVM = "freeze the JVM"
    FREEZE_INGRESS = "freeze the ingress"
    FREEZE_WORKER = "freeze a Python worker"
    CLOSE_RECEIVER = "receiver closes"
    HOLD_RECEIVER = "receiver does not read"
    TEAR_SENDER = "sender dies inside a frame"
    STOP = "stop and start"


class Moment(StrEnum):
    """When it strikes."""

    CALM = "in traffic"
    NEXT = "at once"
    RECOVERY = "during recovery"
    ROLLOVER = "at a segment's end"
    SAVING = "while states are saved"
    DELIVERY = "while a block is sent"
    RECORD = "when a block is recorded"


ENDS_THE_RUN = frozenset({Fault.KILL_DRIVER, Fault.STOP})
"""Faults after which the application has to be started again."""

_LASTING = frozenset(fault for fault in Fault if fault.name.startswith(("FREEZE", "CLOSE", "HOLD")))
_DURING_RECOVERY = (Fault.KILL_DRIVER, Fault.KILL_JVM, Fault.KILL_INGRESS, Fault.CLOSE_RECEIVER, Fault.FREEZE_JVM)
_AT_A_FILE = (Fault.KILL_DRIVER, Fault.KILL_JVM, Fault.KILL_INGRESS, Fault.FREEZE_INGRESS)
_AT_A_RECORD = (Fault.KILL_DRIVER, Fault.KILL_JVM)
_WHILE_SAVING = (Fault.KILL_DRIVER, Fault.KILL_JVM, Fault.KILL_WORKER)
_WHILE_SENDING = (Fault.KILL_DRIVER, Fault.KILL_JVM, Fault.CLOSE_RECEIVER, Fault.STOP, Fault.FREEZE_DRIVER)
_LONGEST_SECONDS = {Fault.CLOSE_RECEIVER: 3.0, Fault.HOLD_RECEIVER: 6.0}
_LONGEST_FREEZE_SECONDS = 3.0
_RECOVERY_SECONDS = 12.0


@dataclass(frozen=True)
class Strike:
    """One fault of a schedule."""

    fault: Fault
    moment: Moment
    delay: float
    """Seconds from the moment to the strike."""
    seconds: float
    """How long it lasts, for those that last."""

    def __str__(self) -> str:
        lasting = f" for {self.seconds:.1f} s" if self.fault in _LASTING else ""
        return f"{self.fault}{lasting} {self.moment}"


@dataclass(frozen=True)
class Schedule:
    """The faults of one run of the harness, in order."""

    seed: int
    cluster: bool
    """Whether it runs on a cluster of its own, with executors that can be killed."""
    strikes: tuple[Strike, ...]

    @property
    def kinds(self) -> set[str]:
        """Return the names of all faults and moments in here."""
        return {str(kind) for strike in self.strikes for kind in (strike.fault, strike.moment)}

    def __str__(self) -> str:
        place = "on a cluster: " if self.cluster else ""
        return place + "; ".join(map(str, self.strikes))


def make_schedule(seed: int, strikes: int = 5) -> Schedule:
    """Return the schedule of a seed."""
    choose = random.Random(f"schedule {seed}")
    cluster = choose.random() < 0.15
    made: list[Strike] = []
    for _ in range(strikes):
        made.append(_strike(choose, made[-1].fault if made else None, cluster=cluster))
    return Schedule(seed, cluster, tuple(made))


def _strike(choose: random.Random, before: Fault | None, *, cluster: bool) -> Strike:
    moments = [Moment.CALM, Moment.CALM, Moment.ROLLOVER, Moment.SAVING, Moment.DELIVERY, Moment.RECORD]
    if before is not None:
        moments.append(Moment.NEXT)
    if before in ENDS_THE_RUN:
        moments += [Moment.RECOVERY] * 3
    moment = choose.choice(moments)
    fault = choose.choice(_faults_at(moment, cluster=cluster))
    delay = choose.uniform(0, _longest_delay(moment))
    seconds = choose.uniform(0.5, _LONGEST_SECONDS.get(fault, _LONGEST_FREEZE_SECONDS))
    return Strike(fault, moment, delay, seconds)


def _faults_at(moment: Moment, *, cluster: bool) -> list[Fault]:
    match moment:
        case Moment.RECOVERY:
            faults = list(_DURING_RECOVERY)
        case Moment.ROLLOVER:
            faults = list(_AT_A_FILE)
        case Moment.SAVING:
            faults = list(_WHILE_SAVING)
        case Moment.DELIVERY:
            return list(_WHILE_SENDING)
        case Moment.RECORD:
            return list(_AT_A_RECORD)
        case _:
            faults = [fault for fault in Fault if fault is not Fault.KILL_EXECUTOR]
    # On a cluster it is the executors that are of interest; the rest is the same as elsewhere.
    return faults + [Fault.KILL_EXECUTOR] * len(faults) if cluster else faults


def _longest_delay(moment: Moment) -> float:
    match moment:
        case Moment.RECOVERY:
            return _RECOVERY_SECONDS
        case Moment.ROLLOVER | Moment.DELIVERY:
            return 0.05
        case Moment.RECORD:
            return 0.002
        case Moment.NEXT | Moment.SAVING:
            return 0.3
        case Moment.CALM:
            return 1.5
