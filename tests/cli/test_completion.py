"""Completion of commands and options in shells, which click brings along."""

import os
import subprocess
import sys

import pytest

WORDS = {"machida": ("--resil", "--resilience-dir"), "wallaroo": ("dead-l", "dead-letters")}


def output_of(name, *arguments, **variables):
    command = [sys.executable, "-c", f"from wallaroo.cli.{name} import main; main(prog_name={name!r})", *arguments]
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=True)
    return done.stdout


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
