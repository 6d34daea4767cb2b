"""How long a start takes, against that of a bare Spark session, and what an idle application costs."""

from __future__ import annotations

import subprocess
import sys
import time

from bench.errors import NotRunningError
from bench.figures import Figures
from bench.machida import Machida
from bench.places import BASELINES, environment, scratch
from bench.setting import Setting
from bench.wires import Receiver

_OURS = "command to readiness line"
_BARE = "command to a bare Spark session"
_BARE_JOB = "command to the end of its first job"


def run(setting: Setting) -> Figures:
    """Start both in turn; once, leave ours alone for a while."""
    figures = Figures("Start and idling")
    if not setting.quick:
        with setting.doing("Start-up: one start that does not count ..."):
            # The first one of all writes the class archive that later ones use, and has cold disk caches.
            _start_ours(idle=0)
    for number in range(setting.rounds):
        title = f"Start-up, round {number + 1} of {setting.rounds}"
        with setting.doing(f"{title}: Wallaroo ..."):
            seconds, idle = _start_ours(idle=setting.pick(5, 20))
        figures.add(_OURS, seconds, "s")
        figures.add("idle", idle, "% of a core")
        with setting.doing(f"{title}: a bare Spark session ..."):
            session, job = _start_bare()
        figures.add(_BARE, session, "s")
        figures.add(_BARE_JOB, job, "s")
        setting.say(f"{title}: Wallaroo {seconds:.1f} s, bare Spark {session:.1f} s, idle {idle:.1f} % of a core")
    figures.add_ratios("start / bare Spark session", _OURS, _BARE)
    return figures


def _start_ours(idle: float) -> tuple[float, float]:
    """Return the seconds of a start, and the part of a core in % that is used when nothing comes."""
    with (
        scratch() as folder,
        Receiver() as receiver,
        Machida("word_count", folder / "home", receiver.address) as application,
    ):
        if not idle:
            return application.ready_seconds, 0.0
        time.sleep(idle / 2)  # What a start leaves to be done is not idling.
        before, since = application.cpu_seconds(), time.monotonic()
        time.sleep(idle)
        used = application.cpu_seconds() - before
        return application.ready_seconds, 100 * used / (time.monotonic() - since)


def _start_bare() -> tuple[float, float]:
    """Return the seconds from the command until there is a session, and until its first job is done."""
    started = time.monotonic()
    command = [sys.executable, str(BASELINES / "bare_spark.py")]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise NotRunningError(f"A bare Spark session did not start:\n{done.stderr[-2000:]}")
    session, job = (float(line) for line in done.stdout.split())
    return session - started, job - started
