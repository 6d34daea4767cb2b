"""The `machida` command: runs an application."""

from __future__ import annotations

import difflib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from wallaroo._version import __version__
from wallaroo.cli import loading
from wallaroo.cli.exit_codes import EXIT_CODES, exit_codes_help
from wallaroo.cli.options import (
    MEANINGLESS,
    acknowledged,
    limit_options,
    limits_from,
    master_url,
    original_flags,
    policy,
    setting,
    time_between_commits,
)
from wallaroo.cli.screen import plain_errors, say, show_drawing
from wallaroo.engine.delivery.error_policy import OnError
from wallaroo.engine.spark.preflight import check_packages
from wallaroo.program import Program, Setup, refuse_to_run_while_imported

if TYPE_CHECKING:
    from wallaroo.engine.options import RunOptions
    from wallaroo.engine.run import Stop

_LOG_LEVELS = ("debug", "info", "warn", "error")


@click.command(
    context_settings={
        "help_option_names": ["-h", "--help"],
        "ignore_unknown_options": True,
        "allow_extra_args": True,
        "max_content_width": 110,
    },
    epilog=exit_codes_help(EXIT_CODES),
)
@click.option("--application-module", metavar="MODULE", help="The module that defines application_setup(args).")
@click.option(
    "--resilience-dir",
    "-r",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where log, state and ledger live. Default: a folder for the application in the temporary folder.",
)
@click.option(
    "--reset",
    is_flag=True,
    help="Start fresh. What is in the directory is set aside in a folder inside it, never deleted.",
)
@click.option(
    "--skip-damaged",
    is_flag=True,
    help="Go on without messages in the log that the disk has damaged. What is left of them is kept aside.",
)
@click.option("--name", "-n", metavar="NAME", help="Name of this run, to tell runs of one application apart.")
@click.option(
    "--worker-count",
    "-w",
    type=click.IntRange(1),
    metavar="N",
    help="How many workers each stage has. Default: the cores of the machine (up to 8), or what the cluster has "
    "cores for.",
)
@click.option(
    "--buckets",
    type=click.IntRange(1),
    metavar="N",
    help="Into how many parts partitioned state is cut; fixed when the state is first made.",
)
@click.option(
    "--master",
    default="local[*]",
    show_default=True,
    metavar="URL",
    callback=master_url,
    help="The Spark to run on: local[*], local[4], spark://host:7077, ... On a cluster of several machines, an "
    "application with states needs a --resilience-dir that all of them see.",
)
@click.option(
    "--spark-conf",
    multiple=True,
    metavar="KEY=VALUE",
    callback=setting,
    help="A setting for Spark; may be repeated.",
)
@click.option(
    "--log-level",
    type=click.Choice(_LOG_LEVELS),
    default="warn",
    show_default=True,
    help="How much Spark writes to its log file; debug also draws the application at the start.",
)
@click.option(
    "--on-error",
    default="dead-letter",
    show_default=True,
    metavar="POLICY",
    callback=policy,
    help="When the application's code fails for a message: dead-letter keeps the message aside and goes on; fail stops "
    "before it; a share (1%) or a rate (100/s, 10/min, 5/h) of such messages stops when there are more.",
)
@click.option(
    "--strict-keys",
    is_flag=True,
    help="Where a program lists partition_keys, make messages with other keys dead letters, instead of making a state "
    "for each such key.",
)
@click.option(
    "--time-between-checkpoints",
    metavar="TIME",
    callback=time_between_commits,
    show_default="1min",
    help="The longest time between two commits (30s, 5min): after a failure all since the last one is computed again. "
    "A number alone has nanoseconds.",
)
@click.option(
    "--effectively-once",
    is_flag=True,
    help="Send blocks of outputs in frames with their ids, to receivers that confirm them and drop repeats; "
    "`wallaroo receive --effectively-once` is one.",
)
@limit_options
@original_flags
@click.version_option(__version__, "--version", prog_name="machida")
@click.pass_context
def main(context: click.Context, /, **given: Any) -> None:
    """Run a Wallaroo application.

    The module is imported from the current folder or PYTHONPATH, and its application_setup(args) is called
    with the whole command line, so options that machida does not know are the application's own.

    \b
    Count words from port 7010, results to port 7002:
      machida --application-module word_count --in 127.0.0.1:7010 --out 127.0.0.1:7002
    Keep the state in a directory of its own:
      machida --application-module word_count --in ... --out ... --resilience-dir state/
    On a Spark cluster, sixteen-fold:
      machida --application-module word_count --in ... --out ... --master spark://host:7077 --worker-count 16

    Ctrl-C (or SIGTERM) takes nothing new, finishes what is under way, commits and stops; the same command goes
    on from there.
    """  # noqa: D301 - click wants the character itself
    arguments = sys.argv[1:]
    with plain_errors(exit_codes=True):
        if not given["application_module"]:
            context.fail("Missing option '--application-module'. Example: --application-module word_count")
        _suggest(context.args)
        name = given["application_module"]
        setup = loading.setup_function(loading.import_application(name))
        run_application(Program(name, "application_setup", tuple(arguments)), setup, given)


def run_application(program: Program, setup: Setup, given: dict[str, Any]) -> None:
    """Build the application and run it until it is stopped."""
    os.umask(0o077)  # What is written holds users' messages and states.
    application = loading.build(setup, list(program.arguments))
    loading.refuse_unsavable_states(application, setup)
    check_packages()
    from wallaroo.engine.run import Run  # noqa: PLC0415 - what --help and mistakes do not need

    if given.get("log_level") == "debug":
        show_drawing(application)
    click.secho(f"{application.name}", bold=True, nl=False)
    click.secho(f"  (Wallaroo {__version__})", dim=True)
    if unused := acknowledged(given):
        click.echo(f"  accepted    {unused}: without meaning on Spark")
    options = _run_options(application.name, given)
    run = Run(application, program, options, say=click.echo, warn=say)
    stop = _stop_on_signals()
    try:
        run.run(stop)
    except KeyboardInterrupt:
        say("Stopped before it was ready.")


def _run_options(application: str, given: dict[str, Any]) -> RunOptions:
    from wallaroo.engine.directory.home import default_home  # noqa: PLC0415
    from wallaroo.engine.options import RunOptions  # noqa: PLC0415
    from wallaroo.engine.spark.session import SparkOptions  # noqa: PLC0415

    name = given.get("name")
    home = given.get("resilience_dir") or default_home(f"{application} {name}" if name else application)
    spark = SparkOptions(
        master=_master(given.get("master") or "local[*]", given.get("worker_count")),
        conf=dict(given.get("spark_conf", ())),
        log_level=given.get("log_level") or "warn",
    )
    return RunOptions(
        home=home,
        reset=bool(given.get("reset")),
        skip_damaged=bool(given.get("skip_damaged")),
        workers=given.get("worker_count"),
        buckets=given.get("buckets"),
        strict_keys=bool(given.get("strict_keys")),
        effectively_once=bool(given.get("effectively_once")),
        limits=limits_from(given),
        on_error=given.get("on_error") or OnError(),
        epoch_seconds=given.get("time_between_checkpoints"),
        spark=spark,
    )


def _master(master: str, workers: int | None) -> str:
    """Return the master to use: more workers than cores were asked for on purpose."""
    return f"local[{workers}]" if workers and master == "local[*]" else master


def _suggest(unknown: Sequence[str]) -> None:
    """Point out options that look like a slip of the keyboard; they are handed to the application all the same."""
    known = [option for parameter in main.params for option in parameter.opts if option.startswith("--")]
    for argument in unknown:
        option = argument.partition("=")[0]
        close = difflib.get_close_matches(option, known, n=1, cutoff=0.85)
        if option.startswith("--") and close and option not in MEANINGLESS:
            say(f"{option} is handed to the application. Did you mean {close[0]}?")


def _stop_on_signals() -> Stop:
    """Return what SIGINT and SIGTERM set off: finish what is under way; at the second signal, at once.

    A third ends the process where it is, and its wards with it: the next run goes on as after any other death.
    """
    from wallaroo.engine.run import Stop  # noqa: PLC0415

    stop = Stop()
    before = count()

    def on_signal(number: int, _frame: FrameType | None) -> None:
        again = next(before)
        if again > 1:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        if again:
            # Not through `sys.stderr`, which may be in the middle of another line right here.
            with suppress(OSError):
                os.write(2, b"Stopping at once; if that hangs, one more signal ends it, and nothing is lost.\n")
            stop.immediately.set()
        if not stop.ready:
            raise KeyboardInterrupt
        stop.requested.set()

    signal.signal(signal.SIGINT, on_signal)
    signal.signal(signal.SIGTERM, on_signal)
    return stop


def run_script(application_setup: Callable[[list[str]], Any], args: Sequence[str] | None = None) -> None:
    """Run an application from a script of the user's own; see `wallaroo.run`."""
    refuse_to_run_while_imported()
    arguments = list(sys.argv[1:] if args is None else args)
    try:
        with main.make_context("machida", list(arguments)) as context, plain_errors(exit_codes=True):
            program = loading.program_of(application_setup, arguments)
            run_application(program, program.setup(), context.params)
    except click.exceptions.Exit as asked:  # --help and --version end like this.
        sys.exit(asked.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
