"""What a run finds in its application's directory: something to go on with, to set aside, or nothing."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from pathlib import Path

from wallaroo.connectors.base import Notice
from wallaroo.engine.directory.home import Home
from wallaroo.engine.directory.layouts import Fit, layout_to_go_on_with
from wallaroo.engine.directory.progress import read_progress, refuse_missing_sources, unprocessed
from wallaroo.errors import DirectoryError, WallarooError
from wallaroo.topology.model import Application


def found_in(home: Home, application: Application, sources: Collection[str], say: Notice) -> Fit | None:
    """Return the layout to go on with, None for an application that is new here; refuse what does not fit.

    `sources` are the names of all sources that the application now has.
    """
    fit = layout_to_go_on_with(home, application.name, application.pipelines)
    if fit is None and home.recorded_layout() is not None:
        _refuse_state_elsewhere(home)
    progress = read_progress(home.checkpoint)
    refuse_missing_sources(progress, sources)
    for source in sorted(progress.done.keys() - set(sources)):
        if waiting := _counted(home).get(home.log_of(source)):
            say(f"  waiting     {waiting:,} messages for {source!r}, a pipeline that is no longer there; they are kept")
    return fit


def _refuse_state_elsewhere(home: Home) -> None:
    """Refuse to begin anew where an earlier version has left the state in a folder beside the directory.

    It told Spark `my%20state` for `my state`, and Spark took that for the name.
    """
    beside = Path(home.checkpoint.as_uri().removeprefix("file://"))
    misplaced = beside != home.checkpoint and beside.exists() and not beside.with_name("layout.json").exists()
    if misplaced:
        raise DirectoryError(
            f"An earlier version of Wallaroo has put the state that belongs to {home.path} into {beside.parent}.\n"
            f"To go on with it: mv {shlex.quote(str(beside))} {shlex.quote(str(home.checkpoint))}\n"
            "To start without it: --reset, which keeps what is there in a folder of its own."
        )


def start_fresh(home: Home, say: Notice) -> None:
    """Set aside what is in the directory, and say where it is and how to be rid of it."""
    waiting = sum(_counted(home).values())
    folder = home.set_aside()
    if folder is None:
        return
    inside = f"; {waiting:,} messages in there were accepted and not processed" if waiting else ""
    say(f"  set aside   what was there, in {folder}{inside}")
    say(f"              to delete it: rm -r {shlex.quote(str(folder))}")


def _counted(home: Home) -> dict[Path, int]:
    try:
        return unprocessed(home)
    except (WallarooError, OSError):
        return {}  # Logs that are damaged are told of by whoever reads them.
