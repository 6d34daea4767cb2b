"""The `machida` command: runs an application."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from itertools import count
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any

import click

from wallaroo._version import __version__
from wallaroo.cli import loading
from wallaroo.cli.logs import Log
from wallaroo.cli.machida_options import (
    acknowledged,
    limit_options,
    limits_from,
    log_from,
    log_options,
    original_flags,
    run_options,
)
from wallaroo.cli.misspellings import refuse_misspelled, split_arguments
from wallaroo.cli.screen import EXIT_CODES, drawing_for_screen, exit_codes_help, plain_errors, said_through
from wallaroo.engine.delivery.error_policy import OnError
from wallaroo.engine.spark.preflight import check_packages
from wallaroo.program import Program, Setup, refuse_to_run_while_imported

if TYPE_CHECKING:
    from wallaroo.engine.run import Stop
    from wallaroo.engine.startup import RunOptions

_ARGUMENTS, _UNKNOWN = "wallaroo.arguments", "wallaroo.unknown"


class _Machida(click.Command):
    """Records the application's arguments: all of them, without the `--` in front of its own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own, behind = split_arguments(args)
        ctx.meta[_ARGUMENTS] = [*own, *behind]
        ctx.meta[_UNKNOWN] = super().parse_args(ctx, own)
        ctx.args = [*ctx.args, *behind]
        return ctx.args


@click.command(
    cls=_Machida,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "ignore_unknown_options": True,
        "allow_extra_args": True,
        "max_content_width": 110,
    },
    epilog=exit_codes_help(EXIT_CODES),
)
@run_options
@log_options
@limit_options
@original_flags
@click.version_option(__version__, "--version", prog_name="machida")
@click.pass_context
def main(context: click.Context, /, **_given: Any) -> None:
    """Run a Wallaroo application.

    The module is imported from the current folder or PYTHONPATH, and its application_setup(args) is called with the
    whole command line.

    \b
    Count words from port 7010, results to port 7002:
      machida --application-module word_count --in 127.0.0.1:7010 --out 127.0.0.1:7002
    Keep the state in a directory of its own:
      machida --application-module word_count --in ... --out ... --resilience-dir state/
    On a Spark cluster, with 16 workers:
      machida --application-module word_count --in ... --out ... --master spark://host:7077 --worker-count 16

    Options that machida does not know are the application's own. One that looks like a misspelling of machida's is
    refused, unless the program has it. Everything after -- is passed to the application unchanged:

    \b
      machida --application-module word_count --in ... --out ... -- --topic orders

    Ctrl-C (or SIGTERM) closes the sources, finishes what is in progress, commits and stops. The same command continues
    from there.

    Flags of the original that have no meaning on Spark are accepted, such as --metrics, --control, --data,
    --cluster-initializer and those that begin with --pony.

    \b
    Shell completion, in ~/.bashrc (for zsh: zsh_source, in ~/.zshrc):
      eval "$(_MACHIDA_COMPLETE=bash_source machida)"
    and for fish, in ~/.config/fish/completions/machida.fish:
      _MACHIDA_COMPLETE=fish_source machida | source
    """  # noqa: D301 - click wants the character itself
    _run_logged(context, _find_application)


def _find_application(context: click.Context) -> tuple[Program, Setup]:
    name = context.params["application_module"]
    if not name:
        context.fail("Missing option '--application-module'. Example: --application-module word_count")
    module = loading.import_application(name)
    _refuse_misspelled(context, module)
    return Program(name, "application_setup", tuple(context.meta[_ARGUMENTS])), loading.setup_function(module)


def _run_logged(context: click.Context, find: Callable[[click.Context], tuple[Program, Setup]]) -> None:
    """Find the application and run it; log everything, including why it ends, as the options specify."""
    with plain_errors(exit_codes=True):
        run_log = log_from(context.params)
    with run_log.reporting_errors(), said_through(run_log.warning), plain_errors(exit_codes=True):
        program, setup = find(context)
        run_application(program, setup, context.params, run_log)


def run_application(program: Program, setup: Setup, given: dict[str, Any], run_log: Log) -> None:
    """Build the application and run it until it is stopped."""
    os.umask(0o077)  # The files contain users' messages and states.
    application = loading.build(setup, list(program.arguments))
    loading.refuse_unsavable_states(application, setup)
    check_packages()
    from wallaroo.engine.run import READY, Run  # noqa: PLC0415 - not needed for --help and usage errors

    run_log.always = {READY}
    if given.get("log_level") == "debug":
        run_log.debug(drawing_for_screen(application))
    run_log.info(f"{click.style(application.name, bold=True)}  {click.style(f'(Wallaroo {__version__})', dim=True)}")
    if unused := acknowledged(given):
        run_log.info(f"  accepted    {unused}: no effect on Spark")
    options = _run_options(application.name, given)
    run = Run(application, program, options, say=run_log.info, warn=run_log.warning)
    stop = _stop_on_signals(run_log)
    try:
        run.run(stop)
    except KeyboardInterrupt:
        run_log.info("Stopped before it was ready.")


def _run_options(application: str, given: dict[str, Any]) -> RunOptions:
    from wallaroo.engine.directory.home import default_home  # noqa: PLC0415
    from wallaroo.engine.spark.session import SparkOptions  # noqa: PLC0415
    from wallaroo.engine.startup import RunOptions  # noqa: PLC0415

    name = given.get("name")
    home = given.get("resilience_dir") or default_home(f"{application} {name}" if name else application)
    spark = SparkOptions(
        master=_master(given.get("master") or "local[*]", given.get("worker_count")),
        conf=dict(given.get("spark_conf", ())),
        log_level=(given.get("log_level") or "warn").replace("warning", "warn"),
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
    """Return the master to use: an explicit number of workers may exceed the number of cores."""
    return f"local[{workers}]" if workers and master == "local[*]" else master


def _refuse_misspelled(context: click.Context, program: ModuleType) -> None:
    shown = (parameter for parameter in main.params if not getattr(parameter, "hidden", False))
    known = [option for parameter in shown for option in parameter.opts if option.startswith("--")]
    refuse_misspelled(context.meta[_UNKNOWN], [*known, "--help"], program)


def _stop_on_signals(run_log: Log) -> Stop:
    """Return the stop request that SIGINT and SIGTERM set: finish pending work; after a second signal, stop at once.

    A third signal kills the process and its children; the next run recovers as after a crash.
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
            run_log.last_words("Stopping at once; if that hangs, one more signal ends it, and nothing is lost.")
            stop.immediately.set()
        if not stop.ready:
            raise KeyboardInterrupt
        stop.requested.set()

    signal.signal(signal.SIGINT, on_signal)
    signal.signal(signal.SIGTERM, on_signal)
    return stop


def run_script(application_setup: Callable[[list[str]], Any], args: Sequence[str] | None = None) -> None:
    """Run an application from a user's own script; see `wallaroo.run`."""
    refuse_to_run_while_imported()
    arguments = list(sys.argv[1:] if args is None else args)

    def find(context: click.Context) -> tuple[Program, Setup]:
        program = loading.program_of(application_setup, context.meta[_ARGUMENTS])
        _refuse_misspelled(context, program.imported())
        return program, program.setup()

    try:
        with main.make_context("machida", arguments) as context:
            _run_logged(context, find)
    except click.exceptions.Exit as asked:  # Raised by --help and --version.
        sys.exit(asked.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
