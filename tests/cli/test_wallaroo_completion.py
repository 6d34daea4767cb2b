"""Completion of commands and options in shells, which click brings along."""

import os

import pytest
from tests.processes import MACHIDA, WALLAROO, run_to_end

WORDS = {"machida": ("--resil", "--resilience-dir"), "wallaroo": ("dead-l", "dead-letters")}


def output_of(name, *arguments, **variables):
    command = {"machida": MACHIDA, "wallaroo": WALLAROO}[name]
    return run_to_end(*command, *arguments, env={**os.environ, **variables}).stdout


@pytest.mark.parametrize("name", WORDS)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_what_was_begun(name, shell):
    begun, whole = WORDS[name]
    variables = {
        f"_{name.upper()}_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": f"{name} {begun}",
        "COMP_CWORD": begun if shell == "fish" else "1",
    }
    assert whole in output_of(name, **variables)


@pytest.mark.parametrize("name", WORDS)
def test_the_help_says_how_to_switch_it_on(name):
    text = output_of(name, "--help")
    assert f'eval "$(_{name.upper()}_COMPLETE=bash_source {name})"' in text
    assert f"_{name.upper()}_COMPLETE=fish_source {name} | source" in text
    assert f"complete -o nosort -F _{name}_completion {name}" in output_of(
        name, **{f"_{name.upper()}_COMPLETE": "bash_source"}
    )
