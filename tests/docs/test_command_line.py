"""The reference of the command line: every command and option of the program is there, and no other."""

import os
import re
from pathlib import Path

import click
import pytest
from tests.processes import MACHIDA, WALLAROO, run_to_end
from tools.reference_pages import filled

from wallaroo.cli.machida import main as machida
from wallaroo.cli.machida_options import MEANINGLESS
from wallaroo.cli.wallaroo import main as wallaroo

PAGE = filled((Path(__file__).parents[2] / "docs" / "reference" / "command-line.md").read_text())
OF_THE_ORIGINAL = "### Options of the original"


def commands(command, name):
    """Yield a command and all below it, each with the words that call it."""
    yield name, command
    if isinstance(command, click.Group):
        with click.Context(command) as context:
            for each in command.list_commands(context):
                yield from commands(command.get_command(context, each), f"{name} {each}")


ALL = dict([*commands(machida, "machida"), *commands(wallaroo, "wallaroo")])


def section(name):
    """Return the text about a command."""
    found = re.search(rf"^## {re.escape(name)}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"there is no section about {name}"
    return found[1]


def rows(text):
    """Return the rows of the tables of options: the options in the first cell, and the second cell in plain text."""
    found = {}
    for first, second in re.findall(r"^\| (`--?[a-z].*?) \| (.*?) ?\|", text, re.MULTILINE):
        options = tuple(re.findall(r"`(--?[a-z][a-z-]*)", first))
        found |= dict.fromkeys(options, second.replace("`", ""))
    return found


def own_options(command):
    """Return the options of a command that its help lists."""
    return [each for each in command.params if isinstance(each, click.Option) and not each.hidden]


def test_every_command_has_its_section_and_no_other():
    assert set(re.findall(r"^## ((?:machida|wallaroo).*)$", PAGE, re.MULTILINE)) == set(ALL)


@pytest.mark.parametrize("name", ALL)
def test_every_option_of_a_command_is_in_its_table_and_no_other(name):
    text = section(name).partition(OF_THE_ORIGINAL)[0]
    known = {option for parameter in own_options(ALL[name]) for option in parameter.opts}
    assert set(rows(text)) == known


@pytest.mark.parametrize("name", ALL)
def test_the_defaults_are_those_of_the_program(name):
    table = rows(section(name).partition(OF_THE_ORIGINAL)[0])
    for option in own_options(ALL[name]):
        shown = option.show_default if isinstance(option.show_default, str) else option.default
        if isinstance(shown, str | int | float) and not isinstance(shown, bool):
            assert table[option.opts[0]] == str(shown), option.opts


def test_the_options_of_the_original_are_in_their_table_and_no_other():
    text = PAGE.partition(OF_THE_ORIGINAL)[2].partition("\n### ")[0]
    known = {option: parameter.opts for parameter in machida.params for option in parameter.opts}
    assert set(rows(text)) == {option for long in MEANINGLESS for option in known[long]}


def test_the_policies_are_those_that_are_understood():
    text = PAGE.partition("### Error policies")[2].partition("\n### ")[0]
    policies = [each for row in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE) for each in re.findall("`(.+?)`", row)]
    on_error = next(parameter for parameter in machida.params if "--on-error" in parameter.opts)
    with click.Context(machida) as context:
        assert [on_error.callback(context, on_error, policy).text for policy in policies] == policies


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize("name", ["wallaroo", "machida"])
def test_shells_can_complete_the_commands(name, shell):
    variable = f"_{name.upper()}_COMPLETE"
    command = {"wallaroo": WALLAROO, "machida": MACHIDA}[name]
    said = run_to_end(*command, env={**os.environ, variable: f"{shell}_source"})
    assert f"{variable}={shell}_complete" in said.stdout
    assert f"{variable}={shell}_source {name}" in PAGE or name == "machida"
