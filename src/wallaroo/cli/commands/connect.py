"""`wallaroo connect`: runs the scripts that connect an application with another system, and writes new ones."""

from __future__ import annotations

from importlib import import_module
from importlib.resources import files
from pathlib import Path
from string import Template

import click

from wallaroo.cli.commands.new import require_module_name
from wallaroo.cli.options import new_script_options
from wallaroo.cli.screen import plain_errors
from wallaroo.errors import WallarooError

# As in `wallaroo.cli.wallaroo`: the module of a script is imported only when it is called.
_SCRIPTS = {
    "redis-subscriber": "From channels of Redis to an application.",
    "redis-list": "From a list of Redis to an application, each element once.",
    "redis-stream": "From a stream of Redis to an application, each entry once.",
    "redis-hash": "From an application to a hash of Redis.",
    "kafka-consumer": "From a topic of Kafka to an application, each message once.",
    "kafka-producer": "From an application to a topic of Kafka.",
    "udp-source": "From datagrams to an application.",
    "udp-sink": "From an application to datagrams.",
    "file-tail": "From a file that grows to an application, each line once.",
    "http-post": "From HTTP requests to an application.",
}
_NEW = "Write a script of your own."


class _ScriptsOnDemand(click.Group):
    """A group with `new`, and the `command` objects of the modules in `wallaroo.connect`."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature.
        return [*_SCRIPTS, "new"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _SCRIPTS:
            return super().get_command(ctx, cmd_name)
        script = import_module(f"wallaroo.connect.{cmd_name.replace('-', '_')}").command
        assert isinstance(script, click.Command)
        script.name = cmd_name
        return script

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([*_SCRIPTS.items(), ("new", _NEW)])


@click.group(cls=_ScriptsOnDemand, context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Connect an application with another system.

    The application has a SourceExtensionConfig or a SinkExtensionConfig; a script, which is one of these commands,
    stands between it and the other system. Ctrl-C ends a script; the same command resumes.

    \b
    wallaroo connect redis-subscriber 127.0.0.1:7100 --channel text
    wallaroo connect redis-hash 127.0.0.1:7200 --key counts
    wallaroo connect new my_source
    """  # noqa: D301 - click wants the real character.


@command.command("new", short_help=_NEW)
@click.argument("name", metavar="NAME")
@new_script_options
def new(*, name: str, sink: bool) -> None:
    """Write NAME.py, a script that sends messages to an application, as a starting point.

    \b
    wallaroo connect new my_source
    wallaroo connect new my_sink --sink
    """  # noqa: D301 - click wants the real character.
    with plain_errors():
        require_module_name(name, "wallaroo connect new")
        path = Path(f"{name}.py")
        if path.exists():
            raise WallarooError(f"{path} exists already. Choose another name, or move it away.")
        template = "sink_script.py.template" if sink else "source_script.py.template"
        text = (files("wallaroo.cli") / "templates" / template).read_text(encoding="utf-8")
        path.write_text(Template(text).substitute(name=name), encoding="utf-8")
    port, what = (7200, "print what an application sends there") if sink else (7100, "send it lines that you type")
    click.echo(f"{path}\n\nNext:\n  python {path} 127.0.0.1:{port}   {what}")
