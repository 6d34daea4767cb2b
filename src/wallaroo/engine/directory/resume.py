"""What a run resumes from in its application's directory: checks, repairs, and a fresh start."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from wallaroo.engine.directory.commit import Commits
from wallaroo.engine.directory.home import COMMIT, Home
from wallaroo.engine.plan import Layout, new_layout
from wallaroo.errors import DirectoryError, WallarooError
from wallaroo.ingress.block_sequence import (
    begin_again_at,
    blocks_from,
    first_unseen,
    known_names,
    lacks_block,
    skip_damaged_blocks,
    truncate_at,
)
from wallaroo.ingress.lanes import read_committed
from wallaroo.ingress.log.format import segment_starts
from wallaroo.ingress.log.reader import LogReader
from wallaroo.ingress.log.repair import skip_damaged
from wallaroo.notices import Notice
from wallaroo.sizes import plural
from wallaroo.topology.model import Application, Pipeline

_WAYS_OUT = (
    "Start fresh with --reset, which keeps what is there in a folder of its own, or choose another directory with "
    "--resilience-dir."
)


@dataclass(frozen=True)
class ResumedLayout:
    """The layout of an application, and a description of what has changed (empty if nothing has)."""

    layout: Layout
    change: str = ""
    gone: frozenset[str] = frozenset()
    """States that were used up to the last run."""


def layout_for(home: Home, application: Application, buckets: int) -> ResumedLayout:
    """Return the layout for an application and the states that are in its directory.

    Raises:
        DirectoryError: The directory is another application's, or a state is of a different kind now.
    """
    recorded = home.recorded_layout()
    if recorded is None:
        return ResumedLayout(new_layout(application.pipelines, buckets))
    name, layout = recorded
    if name != application.name:
        raise DirectoryError(f"{home.path} holds the state of another application, {name!r}. {_WAYS_OUT}")
    if not (home.path / COMMIT).exists():
        _refuse_lost_commit(home)
        return ResumedLayout(new_layout(application.pipelines, buckets))  # The last run ended before it had any state.
    resumed = resumed_layout(layout, application.pipelines)
    if misfits := list(_changed_kinds(layout, resumed.layout)):
        raise DirectoryError(
            f"The application {name!r} has changed and cannot resume from the state in {home.path}: "
            f"{'; '.join(misfits)}.\nUndo that, or: {_WAYS_OUT[0].lower()}{_WAYS_OUT[1:]}"
        )
    return resumed


def _refuse_lost_commit(home: Home) -> None:
    """Refuse to start without the commit if there was one: sources note positions only behind a commit."""
    if any(read_committed(folder) for folder in home.logs.glob("*")):
        raise DirectoryError(
            f"{home.path / COMMIT} is missing, and the state cannot be found without it. Restore it from a copy, or "
            "start fresh with --reset, which keeps what is there in a folder of its own."
        )


def resumed_layout(recorded: Layout, pipelines: Sequence[Pipeline]) -> ResumedLayout:
    """Return the layout of `pipelines` with the recorded number of buckets and the recorded states."""
    now = new_layout(pipelines, recorded.buckets)
    known = {*recorded.states, *recorded.unused}
    layout = Layout(
        now.levels,
        now.singles | (recorded.singles - now.states.keys()),
        buckets=recorded.buckets,
        unused=frozenset(known - now.states.keys()),
    )
    change = "; ".join(_changes(recorded, layout, [name for name in now.states if name not in known]))
    return ResumedLayout(layout, change, layout.unused - recorded.unused)


def _changed_kinds(recorded: Layout, now: Layout) -> Iterator[str]:
    known = {*recorded.states, *recorded.unused}
    for name in now.states:
        if name in known and (name in now.singles) != (name in recorded.singles):
            kinds = ("partitioned", "one object")
            was, is_now = kinds if name in now.singles else reversed(kinds)
            yield f"the state {name!r} was {was} and is {is_now} now (under another name it would start empty)"


def _changes(before: Layout, now: Layout, new: list[str]) -> Iterator[str]:
    if new:
        yield f"new {_listed(new)}"
    if gone := sorted(now.unused - before.unused):
        yield f"{_listed(gone)} no longer used, and kept"
    if back := sorted(before.unused - now.unused):
        yield f"{_listed(back)} used again"


def _listed(names: list[str]) -> str:
    return f"state{'s' if len(names) > 1 else ''} {', '.join(map(repr, names))}"


def check_work_left(home: Home, commits: Commits, sources: Collection[str], gone: Collection[str], say: Notice) -> None:
    """Check that all uncommitted blocks can be computed; report what the last run has left to do.

    `sources` are those that the application has now, `gone` the states that it no longer has.

    Raises:
        DirectoryError: An uncommitted block needs a pipeline or a state that the application no longer has.
        LogCorruptError: Some of these blocks cannot be read.
    """
    names = known_names(home.sequence, ())
    unseen = first_unseen(home.sequence)
    under_way = False
    for block in blocks_from(home.sequence, commits.block):
        missing = [names[each.source] for each in block.ranges if names[each.source] not in sources]
        if missing and block.number < unseen:
            raise _needed(f"has messages of the pipeline {missing[0]!r}")
        if missing:
            # It was cut ahead and never handed out: its messages can wait in the logs of their sources.
            truncate_at(home.sequence, block.number)
            break
        under_way = under_way or (bool(block.ranges) and block.number < unseen)
    if under_way and gone:
        raise _needed(f"changes the {_listed(sorted(gone))}")
    if under_way:
        say("  finishing   what the last run had in progress; its receivers must be reachable")
    waiting = unprocessed(home, commits)
    for source in sorted(set(names) - set(sources)):
        if number := waiting.get(home.log_of(source)):
            waits = plural(number, "message")
            say(f"  waiting     {waits} for {source!r}, a pipeline that is no longer there; nothing is deleted")


def check_sequence(home: Home, committed: int, known: int, *, skip: bool, notice: Notice) -> None:
    """Check that the sequence has the blocks that have to be computed again: those from `committed` to `known`.

    Where they are lost and `skip` is set, the sequence begins again there, and the messages get new blocks.

    Raises:
        DirectoryError: They are lost, and `skip` is not set.
    """
    if not lacks_block(home.sequence, committed, known):
        return
    if not skip:
        raise DirectoryError(
            f"The blocks from {committed} on are missing in {home.sequence}, and outputs of them may have been sent. "
            "Restore the folder from a copy, or continue with --skip-damaged: the messages get new blocks, and outputs "
            "may be repeated."
        )
    begin_again_at(home.sequence, committed)
    notice(
        f"The blocks from {committed} on are missing in {home.sequence}: it continues with new blocks of the same "
        "messages, and outputs may be repeated."
    )


def _needed(what: str) -> DirectoryError:
    return DirectoryError(
        f"What was in progress {what}, which the application no longer has.\nStart it once more as it was, and stop "
        "it, so that this is finished, or start fresh with --reset, which keeps what is there in a folder of its own."
    )


def unprocessed(home: Home, commits: Commits) -> dict[Path, int]:
    """Return how many messages wait in each log, for logs that have any."""
    done = {home.log_of(lane.source): end for lane, end in commits.ends.items()}
    counted = {folder: _messages_from(folder, done.get(folder, 0)) for folder in home.logs.glob("*")}
    return {folder: number for folder, number in counted.items() if number}


def _messages_from(folder: Path, index: int) -> int:
    log = LogReader(folder)
    start = max([index, *segment_starts(folder)[:1]])
    return sum(high - low for low, high in log.present(start, log.end())) if log.end() > start else 0


def skip_damage(home: Home, logs: Iterable[Path], notice: Notice) -> None:
    """Skip what is damaged in the logs and the sequence."""
    for log in logs:
        for text in skip_damaged(log):
            notice(text)
    for text in skip_damaged_blocks(home.sequence):
        notice(text)


def start_fresh(home: Home, say: Notice) -> None:
    """Archive the contents of the directory, and report where they are and how to delete them."""
    waiting = _count_waiting(home)
    folder = home.archive()
    if folder is None:
        return
    inside = f"; accepted and not processed in there: {plural(waiting, 'message')}" if waiting else ""
    say(f"  archived    what was there, in {folder}{inside}")
    say(f"              to delete it: rm -r {shlex.quote(str(folder))}")


def _count_waiting(home: Home) -> int:
    try:
        return sum(unprocessed(home, Commits(home.path / COMMIT)).values())
    except (WallarooError, OSError):
        return 0  # Damage is reported when the data is needed.
