"""The option `--on-error`."""

from __future__ import annotations

import click

from wallaroo.engine.delivery.on_error import OnError


def policy(_context: click.Context, _parameter: click.Parameter, value: str) -> OnError:
    """Check what `--on-error` was given."""
    try:
        return OnError.parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
