"""What the reference pages get from the program: new commands and new names are there by themselves."""

import sys

import click
import pytest
from tools.reference_pages import commands, filled, section

import wallaroo
from wallaroo.connectors.tcp.kind import TCPSinkConfig


class PigeonSinkConfig(TCPSinkConfig):
    """A sink that sends pigeons."""


@pytest.fixture
def pigeons(monkeypatch):
    """Make the config of a new connector public."""
    monkeypatch.setattr(PigeonSinkConfig, "__module__", "wallaroo.connectors.pigeon.kind")
    monkeypatch.setitem(sys.modules, "wallaroo.connectors.pigeon.kind", sys.modules[__name__])
    monkeypatch.setattr(wallaroo, "PigeonSinkConfig", PigeonSinkConfig, raising=False)
    monkeypatch.setattr(wallaroo, "__all__", [*wallaroo.__all__, "PigeonSinkConfig"])


@pytest.mark.usefixtures("pigeons")
def test_a_new_connector_is_on_the_page():
    assert "::: wallaroo.PigeonSinkConfig" in filled("<!-- names: wallaroo.connectors -->").splitlines()


@pytest.mark.usefixtures("pigeons")
def test_what_has_an_entry_of_its_own_is_not_there_twice():
    page = "::: wallaroo.PigeonSinkConfig\n    options:\n\n<!-- names: wallaroo.connectors -->\n"
    assert filled(page).count("::: wallaroo.PigeonSinkConfig") == 1


@pytest.mark.usefixtures("pigeons")
def test_names_of_other_modules_are_not_there():
    assert "Pigeon" not in filled("<!-- names: wallaroo.connectors.pig -->\n<!-- names: wallaroo.api -->")


def test_headings_have_the_level_that_is_asked_for():
    assert filled("<!-- names: wallaroo.api.tcp_args, level 4 -->").startswith(
        "::: wallaroo.tcp_parse_input_addrs\n    options:\n      heading_level: 4\n\n::: "
    )


@click.group()
def group():
    pass


@group.command()
@click.argument("path", metavar="FROM|TO")
@click.option("--colour", "-c", type=click.Choice(["red", "blue"]), default="red", help="Its colour.")
@click.option("--number", type=int, metavar="N", required=True, help="One|two.")
@click.option("--loud", is_flag=True, help="Aloud.")
@click.option("--secret", hidden=True)
def paint(**_options):
    """Paint a file.

    On two
    lines.

    \b
    paint a
    paint b
    """


def test_a_command_is_described_by_its_help():
    ((name, command),) = commands("tool", group)
    assert section(name, command).splitlines() == [
        "## tool paint",
        "",
        "```",
        "tool paint [OPTIONS] FROM|TO",
        "```",
        "",
        "Paint a file.",
        "",
        "On two",
        "lines.",
        "",
        "```console",
        "$ paint a",
        "$ paint b",
        "```",
        "",
        "| option | default | meaning |",
        "|---|---|---|",
        "| `--colour COLOUR`, `-c` | `red` | Its colour. One of `red`, `blue`. |",
        "| `--number N` | required | One\\|two. |",
        "| `--loud` |  | Aloud. |",
    ]


def test_a_new_command_is_on_the_page(monkeypatch):
    from tools import reference_pages  # noqa: PLC0415

    monkeypatch.setattr(reference_pages, "main", group)
    assert "## wallaroo paint" in filled("<!-- commands: wallaroo -->").splitlines()
