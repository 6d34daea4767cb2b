"""Schedules of faults, made from a seed: the same seed makes the same schedule, forever.

The faults and their moments are drawn from the seed. Where exactly a process is hit is up to the machine, so a seed
that showed a fault may have to be run a few times to show it again.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

PIPELINE = "sequence"
"""The name of the application's pipeline, and of the consumer group of its source in Kafka."""


class Fault(StrEnum):
    """The faults."""

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
    STOP_BROKER = "stop the broker"
    KILL_BROKER = "kill the broker"
    FREEZE_BROKER = "freeze the broker"
    JOIN_GROUP = "another consumer joins the group"
    TEAR_SENDER = "sender dies inside a frame"
    STOP = "stop and start"


class Moment(StrEnum):
    """The moments at which they are injected."""

    CALM = "in traffic"
    NEXT = "at once"
    RECOVERY = "during recovery"
    ROLLOVER = "at a segment's end"
    SAVING = "while states are saved"
    DELIVERY = "while a block is sent"
    RECORD = "when a block is recorded"


ENDS_THE_RUN = frozenset({Fault.KILL_DRIVER, Fault.STOP})
"""Faults after which the application has to be started again."""

OF_TCP = frozenset({Fault.CLOSE_RECEIVER, Fault.HOLD_RECEIVER})
OF_KAFKA = frozenset({Fault.STOP_BROKER, Fault.KILL_BROKER, Fault.FREEZE_BROKER, Fault.JOIN_GROUP})
OUTSIDE = OF_TCP | OF_KAFKA
"""Faults of what the application reads from and writes to, of the one kind and of the other."""

_LASTING = OUTSIDE | {fault for fault in Fault if fault.name.startswith("FREEZE")}
_DURING_RECOVERY = (Fault.KILL_DRIVER, Fault.KILL_JVM, Fault.KILL_INGRESS, Fault.CLOSE_RECEIVER, Fault.FREEZE_JVM)
_AT_A_FILE = (Fault.KILL_DRIVER, Fault.KILL_JVM, Fault.KILL_INGRESS, Fault.FREEZE_INGRESS)
_AT_A_RECORD = (Fault.KILL_DRIVER, Fault.KILL_JVM)
_WHILE_SAVING = (Fault.KILL_DRIVER, Fault.KILL_JVM, Fault.KILL_WORKER)
_WHILE_SENDING = (Fault.KILL_DRIVER, Fault.KILL_JVM, Fault.CLOSE_RECEIVER, Fault.STOP, Fault.FREEZE_DRIVER)
_BROKER_GOES = (Fault.STOP_BROKER, Fault.KILL_BROKER, Fault.FREEZE_BROKER)
_LONGEST_SECONDS = {
    Fault.CLOSE_RECEIVER: 3.0,
    Fault.HOLD_RECEIVER: 6.0,
    Fault.STOP_BROKER: 4.0,
    Fault.KILL_BROKER: 4.0,
    Fault.FREEZE_BROKER: 9.0,
    Fault.JOIN_GROUP: 6.0,
}
_LONGEST_FREEZE_SECONDS = 3.0
_RECOVERY_SECONDS = 12.0


@dataclass(frozen=True)
class Strike:
    """One fault of a schedule."""

    fault: Fault
    moment: Moment
    delay: float
    """Seconds from the moment to the fault."""
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
    kafka: bool
    """Whether it reads and writes topics of Kafka instead of sockets."""
    strikes: tuple[Strike, ...]

    @property
    def kinds(self) -> set[str]:
        """Return the names of all faults and moments in here."""
        return {str(kind) for strike in self.strikes for kind in (strike.fault, strike.moment)}

    def __str__(self) -> str:
        place = " ".join(["on a cluster"] * self.cluster + ["with Kafka"] * self.kafka)
        return (f"{place}: " if place else "") + "; ".join(map(str, self.strikes))


def make_schedule(seed: int, strikes: int = 5, *, kafka: bool | None = None) -> Schedule:
    """Return the schedule of a seed; `kafka` decides whether it is one with Kafka, which else the seed does."""
    choose = random.Random(f"schedule {seed}")
    cluster = choose.random() < 0.15
    kafka = random.Random(f"kafka {seed}").random() < 0.5 if kafka is None else kafka
    made: list[Strike] = []
    for _ in range(strikes):
        made.append(_strike(choose, made[-1].fault if made else None, cluster=cluster, kafka=kafka))
    return Schedule(seed, cluster, kafka, tuple(made))


def _strike(choose: random.Random, before: Fault | None, *, cluster: bool, kafka: bool) -> Strike:
    # With Kafka the messages stay there: there is no log.
    of_a_log = [] if kafka else [Moment.ROLLOVER]
    moments = [Moment.CALM, Moment.CALM, *of_a_log, Moment.SAVING, Moment.DELIVERY, Moment.RECORD]
    if before is not None:
        moments.append(Moment.NEXT)
    if before in ENDS_THE_RUN:
        moments += [Moment.RECOVERY] * 3
    moment = choose.choice(moments)
    fault = choose.choice(_faults_at(moment, cluster=cluster, kafka=kafka))
    delay = choose.uniform(0, _longest_delay(moment))
    seconds = choose.uniform(0.5, _LONGEST_SECONDS.get(fault, _LONGEST_FREEZE_SECONDS))
    return Strike(fault, moment, delay, seconds)


def _faults_at(moment: Moment, *, cluster: bool, kafka: bool) -> list[Fault]:
    match moment:
        case Moment.RECOVERY:
            faults = list(_DURING_RECOVERY)
        case Moment.ROLLOVER:
            faults = list(_AT_A_FILE)
        case Moment.SAVING:
            faults = list(_WHILE_SAVING)
        case Moment.DELIVERY:
            return _with_kafka(_WHILE_SENDING) if kafka else list(_WHILE_SENDING)
        case Moment.RECORD:
            return list(_AT_A_RECORD)
        case _:
            faults = [fault for fault in Fault if fault not in {Fault.KILL_EXECUTOR, *OF_KAFKA}]
    faults = _with_kafka(faults) if kafka else faults
    # On a cluster it is the executors that are of interest; the rest is the same as elsewhere.
    return faults + [Fault.KILL_EXECUTOR] * len(faults) if cluster else faults


def _with_kafka(faults: Iterable[Fault]) -> list[Fault]:
    """Return faults with those of a broker in the place of those of a receiver."""
    instead = {Fault.CLOSE_RECEIVER: _BROKER_GOES, Fault.HOLD_RECEIVER: (Fault.JOIN_GROUP,)}
    return [each for fault in faults for each in instead.get(fault, (fault,))]


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
