"""The `wallaroo` command: tools to start, check and feed an application."""

from __future__ import annotations

from importlib import import_module

import click

from wallaroo._version import __version__

# Each command's module is imported only when it is called; its line in the overview is kept here.
_COMMANDS = {
    "new": "Create the folder of a new application, ready to run.",
    "check": "Draw an application and list its mistakes, without running it.",
    "send": "Send the lines or frames of a file over TCP, or to a topic of Kafka.",
    "receive": "Print what is received on an address, or from a topic of Kafka.",
    "connect": "Connect an application with Redis, Kafka, files and more.",
    "dead-letters": "List, show, replay and delete messages that an application failed on.",
}


class _CommandsOnDemand(click.Group):
    """A group whose commands are the `command` objects of the modules in `commands`."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature.
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        command = import_module(f"wallaroo.cli.commands.{cmd_name.replace('-', '_')}").command
        assert isinstance(command, click.Command)
        command.name = cmd_name
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.command(cls=_CommandsOnDemand, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="wallaroo")
def main() -> None:
    """Tools for Wallaroo applications, which `machida` runs.

    \b
    Start with an application that works:
      wallaroo new my_application
    Draw it, and list its mistakes:
      wallaroo check word_count
    Print what the application sends to 127.0.0.1:7002:
      wallaroo receive 127.0.0.1:7002
    Run it:
      machida --application-module word_count --in 127.0.0.1:7010 --out 127.0.0.1:7002
    Send it each line of a file as a message:
      wallaroo send 127.0.0.1:7010 --file text.txt
    List the messages that it failed on:
      wallaroo dead-letters list --application "Word Count"

    `wallaroo COMMAND --help` shows the options of a command.

    \b
    Shell completion, in ~/.bashrc (for zsh: zsh_source, in ~/.zshrc):
      eval "$(_WALLAROO_COMPLETE=bash_source wallaroo)"
    and for fish, in ~/.config/fish/completions/wallaroo.fish:
      _WALLAROO_COMPLETE=fish_source wallaroo | source
    """  # noqa: D301 - click wants the real character.
