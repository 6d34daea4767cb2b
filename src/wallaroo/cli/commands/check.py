"""`wallaroo check`: builds an application as `machida` would, draws it and lists its mistakes. Nothing runs."""

from __future__ import annotations

import sys

import click

from wallaroo.cli import loading
from wallaroo.cli.options import check_options
from wallaroo.cli.python2_bytes_hints import comparison_hints
from wallaroo.cli.screen import ends_with_reader, plain_errors, say, show_drawing
from wallaroo.connectors.registry import sink_kind, source_kind
from wallaroo.errors import WallarooError
from wallaroo.program import Setup
from wallaroo.setup_arguments import all_addresses, call_with_addresses, missing_options
from wallaroo.topology.model import Application


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("module", metavar="MODULE", required=False)
@click.argument("arguments", metavar="[ARGUMENTS]...", nargs=-1, type=click.UNPROCESSED)
@check_options
def command(*, module: str | None, arguments: tuple[str, ...], application_module: str | None) -> None:
    """Draw an application and list its mistakes, without running it.

    MODULE is imported from the current folder or PYTHONPATH, as machida does, and its application_setup is called with
    the ARGUMENTS. Without --in and --out, addresses are made up, as many as the application needs, at most six of each.
    States are created and pickled, because one that cannot be saved would only fail during a run. No file is left in
    the folder of the module.

    \b
    wallaroo check word_count
    wallaroo check word_count --in 127.0.0.1:7010 --out 127.0.0.1:7002

    A hint points out a comparison of bytes with text in a decoder, or in a function that it calls, as in programs for
    Python 2: it is never true in Python 3. Hints do not count as mistakes.

    The exit code is 0 if there are no mistakes, 2 if the command line is invalid, and otherwise 1.
    """  # noqa: D301 - click wants the real character.
    if application_module is not None:
        # As machida is given it: then the first argument is one of the application's.
        arguments = arguments if module is None else (module, *arguments)
        module = application_module
    elif module is None:
        raise click.UsageError("Which module? Write, for example, wallaroo check word_count")
    sys.dont_write_bytecode = True  # A check must leave no files in the application's folder.
    with plain_errors(), ends_with_reader():
        imported = loading.import_application(module)
        setup = loading.setup_function(imported)
        application, added = build(setup, list(arguments))
        show_drawing(application)
        for hint in comparison_hints(imported):
            say(f"Hint: {hint}")
        loading.refuse_unsavable_states(application, setup)
    click.secho("No mistakes.", fg="green")
    if made_up := _shown_options(application, missing_options(arguments)):
        say(f"The addresses of {' and '.join(made_up)} are made up; give your own to see them.")
    if added:
        say(
            f"So are the values of {', '.join(added)}." if made_up else f"The values of {', '.join(added)} are made up."
        )


def _shown_options(application: Application, options: list[str]) -> list[str]:
    """Return those of the options whose made-up addresses are in the drawing: some programs have their own."""
    sources = [each.source for each in application.pipelines]
    sinks = [sink for each in application.pipelines for sink in each.sinks]
    shown = {
        "--in": [line for source in sources for line in source_kind(source).shown(source)],
        "--out": [line for sink in sinks for line in sink_kind(sink).shown(sink)],
    }
    return [each for each in options if any(address in line for address in all_addresses(each) for line in shown[each])]


def build(setup: Setup, arguments: list[str]) -> tuple[Application, list[str]]:
    """Return the application; missing addresses are made up, as many as it needs, and so are the returned options."""
    added: dict[str, None] = {}
    try:
        built = loading.build(lambda given: call_with_addresses(setup, given, added.setdefault), arguments)
    except WallarooError as error:
        missing = missing_options(arguments)
        if not missing or not isinstance(error.__cause__, IndexError | ValueError):
            raise
        raise WallarooError(
            f"{error}\nThe addresses of {' and '.join(missing)} were made up. If the application needs others, "
            "give them as for machida."
        ) from error.__cause__
    return built, list(added)
