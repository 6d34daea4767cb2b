"""Runs schedules of faults, one after the other: `python -m tests.system.chaos.run --minutes 30`."""

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tools.ivy import OfflineError
from tools.kafka_broker import Broker

from .conductor import Result, perform
from .schedule import Schedule, make_schedule

_LARGEST_SEED = 10**6


def main() -> int:
    """Run schedules for some minutes, or one; return 1 if a guarantee was violated."""
    parser = argparse.ArgumentParser(description="Strike an application in all sorts of ways; check what comes out.")
    parser.add_argument("--seed", type=int, help="run the schedule of this seed, or with --minutes begin with it")
    parser.add_argument("--minutes", type=float, help="go on with the seeds that follow for so long")
    parser.add_argument(
        "--kafka",
        action=argparse.BooleanOptionalAction,
        help="run schedules with Kafka on both sides, or none of them; by default the seeds decide",
    )
    given = parser.parse_args()
    os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
    seed = random.randrange(_LARGEST_SEED) if given.seed is None else given.seed
    end = time.monotonic() + 60 * (given.minutes or 0)
    results: list[Result] = []
    try:
        while not results or time.monotonic() < end:
            results.append(_run(make_schedule(seed + len(results), kafka=given.kafka)))
    except OfflineError as error:
        print(f"The jars of a Kafka broker cannot be downloaded: {error}\n`make chaos KAFKA=0` does without.")
        return 1
    return _sum_up(results)


def _run(schedule: Schedule) -> Result:
    folder = Path(tempfile.mkdtemp(prefix=f"chaos-{schedule.seed}-"))
    result = perform(schedule, folder, Broker(folder / "kafka") if schedule.kafka else None)
    print(result, flush=True)
    if result.verdict.violations:
        print(f"  all files are in {folder}", flush=True)
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return result


def _sum_up(results: list[Result]) -> int:
    bad = [result.schedule.seed for result in results if result.verdict.violations]
    print(
        f"{len(results)} schedules from seed {results[0].schedule.seed} on, "
        f"{sum(len(result.schedule.strikes) for result in results)} faults, "
        f"{sum(result.starts for result in results)} starts, "
        f"{sum(result.verdict.messages for result in results):,} messages, "
        f"{sum(result.verdict.repeats for result in results):,} repeats in "
        f"{sum(result.verdict.repeated_blocks for result in results)} blocks: "
        + (f"VIOLATED with the seeds {', '.join(map(str, bad))}" if bad else "all guarantees hold")
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
