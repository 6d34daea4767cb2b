"""`wallaroo check`: builds an application as `machida` would, draws it and lists its mistakes. Nothing runs."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from types import ModuleType
from typing import Any

import click

from wallaroo.cli import loading
from wallaroo.cli.bytes_comparisons import comparison_hints
from wallaroo.cli.screen import ends_with_reader, plain_errors, say, show_drawing
from wallaroo.errors import WallarooError
from wallaroo.program import Setup
from wallaroo.topology.assemble import mistakes_text
from wallaroo.topology.model import Application, State, StateComputation

_MOST_ADDRESSES = 6


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("module", metavar="MODULE")
@click.argument("arguments", metavar="[ARGUMENTS]...", nargs=-1, type=click.UNPROCESSED)
def command(*, module: str, arguments: tuple[str, ...]) -> None:
    """Draw an application and list its mistakes, without running it.

    MODULE is imported from the current folder or PYTHONPATH, as machida does, and its application_setup is called with
    the ARGUMENTS. Without --in and --out, addresses are made up, as many as the application needs.

    \b
    wallaroo check word_count
    wallaroo check word_count --in 127.0.0.1:7010 --out 127.0.0.1:7002

    A hint points out a comparison of bytes with text in a decoder, as programs from Python 2 have them: it is never
    true in Python 3. Hints are no mistakes.

    The exit code is 0 if there are no mistakes, otherwise 1.
    """  # noqa: D301 - click wants the real character.
    sys.dont_write_bytecode = True  # Who only looks at an application leaves nothing in its folder.
    with plain_errors(), ends_with_reader():
        imported = loading.import_application(module)
        application, made_up = build(loading.setup_function(imported), list(arguments))
        show_drawing(application)
        for hint in comparison_hints(imported):
            say(f"Hint: {hint}")
        if mistakes := list(mistakes_at_run_time(application, imported)):
            raise WallarooError(mistakes_text(application.name, mistakes))
    click.secho("No mistakes.", fg="green")
    if made_up:
        say(f"The addresses of {' and '.join(made_up)} are made up; give your own to see them.")


def build(setup: Setup, arguments: list[str]) -> tuple[Application, list[str]]:
    """Return the application, and which of --in and --out had to be made up for it.

    How many addresses it takes is known to the application alone, so more and more of them are tried.
    """
    missing = [option for option in ("--in", "--out") if not _is_given(arguments, option)]
    numbers = [range(1, _MOST_ADDRESSES + 1) if option in missing else [0] for option in ("--in", "--out")]
    failures = []
    for inputs, outputs in sorted(product(*numbers), key=sum):
        try:
            added = [*_addresses("--in", 7010, inputs), *_addresses("--out", 7002, outputs)]
            return loading.build(setup, [*arguments, *added]), missing
        except WallarooError as error:
            # What too few or too many addresses lead to: `addresses[1]`, or `one, other = addresses`.
            if not isinstance(error.__cause__, IndexError | ValueError):
                raise
            failures.append(error)
    # With the right number of addresses it failed for another reason, later than with a wrong one.
    furthest = max(failures, key=lambda error: _line_reached(error, setup))
    if not missing:
        raise furthest
    raise WallarooError(
        f"{furthest}\nThe addresses of {' and '.join(missing)} were made up. If the application needs others, "
        "give them as for machida."
    ) from furthest.__cause__


def _is_given(arguments: Sequence[str], option: str) -> bool:
    short = option[1:3]
    return any(
        argument in (option, short)
        or argument.startswith(f"{option}=")
        or (argument.startswith(short) and not argument.startswith("--"))
        for argument in arguments
    )


def _addresses(option: str, port: int, number: int) -> list[str]:
    """Return the option with addresses on consecutive ports; nothing where there are to be none.

    >>> _addresses("--in", 7010, 2), _addresses("--out", 7002, 0)
    (['--in', '127.0.0.1:7010,127.0.0.1:7011'], [])
    """
    return [option, ",".join(f"127.0.0.1:{port + each}" for each in range(number))] if number else []


def _line_reached(error: WallarooError, setup: Setup) -> int:
    """Return the line of `setup` at which it failed."""
    assert error.__cause__ is not None
    trace = error.__cause__.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code is getattr(setup, "__code__", None):
            return trace.tb_lineno
        trace = trace.tb_next
    return 0


def mistakes_at_run_time(application: Application, module: ModuleType) -> Iterator[str]:
    """Yield a sentence for each thing that would only fail when the application runs."""
    if _has_own_serialize(module):
        return
    steps = (step for pipeline in application.pipelines for step in pipeline.steps)
    states = {step.state.name: step.state for step in steps if isinstance(step, StateComputation)}
    for state in states.values():
        yield from _state_mistakes(state)


def _has_own_serialize(module: ModuleType) -> bool:
    own: Any = getattr(module, "serialize", None)
    return callable(own) and not getattr(own, "__module__", "").startswith("wallaroo.")


def _state_mistakes(state: State) -> Iterator[str]:
    """Make a state object and try to save it."""
    try:
        fresh = state.make()()
    except Exception as error:  # noqa: BLE001 - it is the user's code, and whatever it raises is the user's to read
        yield f"the state {state.name!r} cannot be made: {type(error).__name__}: {error}"
        return
    try:
        pickle.dumps(fresh)
    except Exception as error:  # noqa: BLE001 - whatever a user's object raises when pickled
        yield (
            f"the state {state.name!r} cannot be saved ({error}). Keep in it only what can be pickled: no lambda "
            "(write a function of the module instead), no lock, no file, no connection"
        )
