"""Puts into the reference pages what the program says about itself (a hook of mkdocs').

A line of a page stands for what replaces it:

    <!-- commands: wallaroo -->              a section about each command of `wallaroo`, with its options
    <!-- names: wallaroo.api.codecs -->      an entry for each public name that is defined in this module or package

Names that have an entry on the page anyway are left out. So a new command, or the config of a new connector, is in the
reference as soon as it is in the program.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from typing import Any

import click

import wallaroo
from wallaroo.cli.wallaroo import main

_DIRECTIVE = re.compile(
    r"^<!-- (?:(?P<commands>commands): wallaroo|names: (?P<module>[\w.]+)(?:, level (?P<level>\d))?) -->$", re.MULTILINE
)
_LINES_KEPT = "\b\n"
"""Begins a paragraph of a help text whose lines are kept: examples."""


def on_page_markdown(markdown: str, /, **_: Any) -> str:
    """Fill a page before it is made into HTML (a hook of mkdocs')."""
    return filled(markdown)


def filled(markdown: str) -> str:
    r"""Return the text of a page with what its directives stand for.

    >>> print(filled("## State and keys\n\n<!-- names: wallaroo.api.partitions -->"))
    ## State and keys
    <BLANKLINE>
    ::: wallaroo.partition
    <BLANKLINE>
    ::: wallaroo.key_extractor
    """
    shown = set(re.findall(r"^::: (\S+)$", markdown, re.MULTILINE))

    def replacement(found: re.Match[str]) -> str:
        if found["commands"]:
            return "\n".join(section(name, command) for name, command in commands("wallaroo", main))
        names = [name for name in names_of(found["module"]) if name not in shown]
        return "\n\n".join(_entry(name, found["level"]) for name in names)

    return _DIRECTIVE.sub(replacement, markdown)


def names_of(module: str) -> list[str]:
    """Return the public names that are defined in a module, or in the modules of a package, in their order there.

    >>> names_of("wallaroo.api.tcp_args")
    ['wallaroo.tcp_parse_input_addrs', 'wallaroo.tcp_parse_output_addrs']
    """
    things = {name: getattr(wallaroo, name) for name in wallaroo.__all__}
    homes = {name: getattr(thing, "__module__", "") for name, thing in things.items()}
    here = [name for name, home in homes.items() if home == module or home.startswith(f"{module}.")]
    return [f"wallaroo.{name}" for name in sorted(here, key=lambda name: (homes[name], _line(things[name])))]


def _line(thing: Any) -> int:
    return inspect.getsourcelines(thing)[1]


def _entry(name: str, level: str | None) -> str:
    return f"::: {name}" if level is None else f"::: {name}\n    options:\n      heading_level: {level}"


def commands(name: str, group: click.Group) -> Iterator[tuple[str, click.Command]]:
    """Yield all commands of a group, at any depth, each with the words that call it."""
    with click.Context(group) as context:
        for each in group.list_commands(context):
            command = group.get_command(context, each)
            assert command is not None
            yield f"{name} {each}", command
            if isinstance(command, click.Group):
                yield from commands(f"{name} {each}", command)


def section(name: str, command: click.Command) -> str:
    """Return the section about a command: how it is called, its help, its options."""
    with click.Context(command) as context:
        usage = " ".join([name, *command.collect_usage_pieces(context)])
        rows = [_row(each, context) for each in command.params if isinstance(each, click.Option) and not each.hidden]
    paragraphs = [*inspect.cleandoc(command.help or "").split("\n\n")]
    if command.epilog and not command.epilog.startswith(_LINES_KEPT):
        paragraphs.append(command.epilog)
    table = ["| option | default | meaning |\n|---|---|---|\n" + "\n".join(rows)] if rows else []
    return "\n\n".join([f"## {name}", f"```\n{usage}\n```", *map(_paragraph, paragraphs), *table]) + "\n"


def _paragraph(text: str) -> str:
    if not text.startswith(_LINES_KEPT):
        return text
    return "\n".join(["```console", *(f"$ {line}" for line in text.removeprefix(_LINES_KEPT).split("\n")), "```"])


def _row(option: click.Option, context: click.Context) -> str:
    value = "" if option.is_flag else f" {_value(option, context)}"
    names = sorted(option.opts, key=len, reverse=True)
    shown = ", ".join([f"`{names[0]}{value}`", *(f"`{name}`" for name in names[1:])])
    meaning = (option.help or "").replace("|", "\\|")
    if isinstance(option.type, click.Choice):
        meaning += f" One of {', '.join(f'`{each}`' for each in option.type.choices)}."
    return f"| {shown} | {_default(option)} | {meaning} |"


def _value(option: click.Option, context: click.Context) -> str:
    """Return what stands for the value of an option."""
    if option.metavar is None and isinstance(option.type, click.Choice):
        return max(option.opts, key=len).lstrip("-").upper()
    return option.make_metavar(context).replace("|", "\\|")


def _default(option: click.Option) -> str:
    if option.required:
        return "required"
    default = option.show_default if isinstance(option.show_default, str) else option.default
    return f"`{default}`" if isinstance(default, str | int | float) and not isinstance(default, bool) else ""


if __name__ == "__main__":
    sys.stdout.write(filled(sys.stdin.read()))
