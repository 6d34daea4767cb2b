"""The limits on machida's command line."""

import click
import pytest
from click.testing import CliRunner

from wallaroo.cli.machida import main
from wallaroo.cli.machida_options import limit_options, limits_from
from wallaroo.ingress.limits import Limits


@pytest.fixture
def run():
    """Run a command that has these options; it records the limits it was given."""

    @click.command()
    @limit_options
    def command(**given):
        click.echo(limits_from(given))

    return lambda *arguments: CliRunner().invoke(command, arguments)


def test_without_options_the_usual_limits_hold(run):
    assert run().output == f"{Limits()}\n"
    assert Limits() == Limits(64 << 20, 10_000, 1 << 30, 256 << 20)


def test_sizes_as_people_write_them(run):
    given = run(
        *("--max-message-size", "1000", "--max-log", "2 GB", "--max-unfinished", "1.5MiB", "--max-connections", "5")
    )
    # The order of the names is not that of a set.
    assert given.output.startswith(f"{Limits(1000, 5, 2 * 10**9, 3 << 19)}".partition(", chosen")[0])
    assert limits_from({"max_log": 1 << 20, "max_unfinished": None}).chosen == {"max_log"}


@pytest.mark.parametrize(
    ("option", "text", "words"),
    [
        ("--max-log", "lots", "'lots' is not a size. Write a number of bytes, or one with a unit: 64MiB, 1GB, 500kB."),
        ("--max-log", "-1", "'-1' is not a size."),
        ("--max-log", "10kB", "10kB is too little: it has to be 1 MiB or more."),
        ("--max-message-size", "0", "0 is too little: it has to be 1 byte or more."),
        ("--max-message-size", "2GiB", "2GiB is too much: it can be 1 GiB at the most."),
        ("--max-unfinished", "1k", "1k is too little: it has to be 1 MiB or more."),
        ("--max-connections", "0", "0 is not in the range x>=1."),
    ],
)
def test_invalid_values_are_reported(run, option, text, words):
    given = run(option, text)
    assert given.exit_code == 2
    assert f"Invalid value for '{option}': {words}" in given.output


def test_machida_has_them():
    text = CliRunner().invoke(main, ["--help"]).output
    for option in ("--max-message-size", "--max-connections", "--max-log", "--max-unfinished"):
        assert f"\n  {option} " in text
