"""What the scripts share: their options, the extension that they get, and how they end."""

from __future__ import annotations

import functools
import importlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, NoReturn, TypeVar

import click

from wallaroo.addresses import Address, parse_address
from wallaroo.cli.screen import plain_errors, say
from wallaroo.connect.messages import CODECS, as_bytes, parsed
from wallaroo.errors import AddressError, WallarooError
from wallaroo.experimental import SinkExtension, SourceExtension
from wallaroo.introspection import a_kind_of
from wallaroo.notices import REPORT_AGAIN_SECONDS, Throttle
from wallaroo.sizes import plural

_MOST_AT_ONCE = 10_000

E = TypeVar("E", SourceExtension, SinkExtension)


class AddressType(click.ParamType[Address]):
    """The type of an argument that is `host:port`."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Address:
        """Return the address, or report a usage error."""
        try:
            return parse_address(value) if isinstance(value, str) else value
        except WallarooError as error:
            self.fail(str(error), param, ctx)


class LeftOutError(WallarooError):
    """What another system has is no message for the application."""


class Sending(NamedTuple):
    """How a source script sends what another system has: `send(data, partition, sequence)`."""

    application: SourceExtension
    codec: str
    left_out: LeftOut

    def __call__(self, data: bytes, partition: str | None = None, sequence: int | None = None) -> int:
        """Send data as a message, and return its number; what is none is left out, and 0 returned."""
        try:
            return self.or_refuse(data, partition, sequence)
        except LeftOutError as error:
            self.left_out("message", error)
            return 0

    def or_refuse(self, data: bytes, partition: str | None = None, sequence: int | None = None) -> int:
        """Send data as a message, and return its number.

        Raises:
            LeftOutError: It is none.
            WallarooError: The connection to the application has failed for good.
        """
        try:
            return self.application.write(parsed(data, self.codec), partition, sequence)
        except WallarooError as error:
            self.raise_failure()
            raise LeftOutError(str(error)) from error
        except Exception as error:
            raise LeftOutError(f"the encoder failed for {data[:80]!r} with {type(error).__name__}: {error}") from error

    def raise_failure(self) -> None:
        """Raise what has made the connection to the application fail for good, if something has."""
        self.application.wait_acknowledged(self.application.acknowledged + 1, 0)


class LeftOut(Throttle):
    """Counts what was left out, and tells it at most once a minute."""

    def __call__(self, noun: str, reason: object) -> None:
        """Count one more."""
        self.add()
        if self.is_due:
            say(f"{plural(self.take(), noun)} left out: {reason}")


def source_script(function: Callable[..., None]) -> click.Command:
    """Make a script of a function that takes `send`, with which it sends messages to the application.

    Its other parameters are options of click.
    """

    @functools.wraps(function)
    def run(address: Address, codec: str, module: str | None, stream: str | None, **options: Any) -> None:
        with _in_good_order():
            found = _stream(module, stream)
            with _source(found, address) as application:
                say(f"connected to {address}")
                # Without a stream, it is for the application to find out what a message is.
                send = Sending(application, "bytes" if found is None else codec, LeftOut(REPORT_AGAIN_SECONDS))
                function(send=send, **options)

    codec = "What the encoder of the stream takes."
    return _command(run, "The application's source, which listens there.", codec)


def sink_script(function: Callable[..., None]) -> click.Command:
    """Make a script of a function that takes an `application`, whose outputs it reads.

    Its other parameters are options of click.
    """

    def run(found: Any, address: Address, codec: str, **options: Any) -> None:
        with _sink(found, address, codec, "automatic") as application:
            say(f"listening on {address}")
            function(application=application, **options)

    return _sink_command(function, run)


def batching_sink_script(function: Callable[..., None]) -> click.Command:
    """Make a script as `sink_script` does, but of a function that confirms outputs itself, many at a time.

    It also gets `batch`, which returns those that it is to confirm together.
    """

    def run(found: Any, address: Address, codec: str, **options: Any) -> None:
        with _sink(found, address, codec, "manual") as application:
            say(f"listening on {address}")
            # The extension of a stream's description may confirm each output when the next one is read.
            batch = _batch_of_one if hasattr(found, "extension") else _batch
            function(application=application, batch=functools.partial(batch, application), **options)

    return _sink_command(function, run)


def _batch(application: SinkExtension) -> Iterator[Any]:
    """Yield the next output, which is waited for, and with it those that have come as well by then."""
    timeout = None
    for _ in range(_MOST_AT_ONCE):
        # An output may be None, and is in a tuple therefore.
        if (came := application.read(timeout)) is None:
            return
        yield came[0]
        timeout = 0


def _batch_of_one(application: SinkExtension) -> Iterator[Any]:
    yield application.read()


def _sink_command(function: Callable[..., None], run: Callable[..., None]) -> click.Command:
    @functools.wraps(function)
    def whole(address: Address, codec: str, module: str | None, stream: str | None, **options: Any) -> None:
        with _in_good_order():
            run(_stream(module, stream), address, codec, **options)

    return _command(whole, "Where to listen for the application's sink.", "What outputs are, without --stream.")


def _command(run: Callable[..., None], address: str, codec: str) -> click.Command:
    for option in (
        click.option("--stream", metavar="NAME", help="The stream's description, or its encoder or decoder, in there."),
        click.option("--application-module", "module", metavar="MODULE", help="The module that has the stream."),
        click.option("--codec", type=click.Choice(CODECS), default="text", show_default=True, help=codec),
        click.argument("address", metavar="HOST:PORT", type=AddressType()),
    ):
        run = option(run)
    settings = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
    return click.command(context_settings=settings, epilog=f"HOST:PORT: {address}")(run)


def _stream(module: str | None, name: str | None) -> Any:
    """Return what describes the stream, None if nothing does."""
    if (module is None) != (name is None):
        raise click.UsageError("--application-module and --stream go together: write both, or none")
    if module is None or name is None:
        return None
    sys.path.append(os.getcwd())  # noqa: PTH109 - the import path holds strings
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise WallarooError(f"No module named {module!r} in the current folder or PYTHONPATH.") from error
    if not callable(found):
        raise WallarooError(
            f"The module {module!r} has no {name!r}, as a class with extension(), or an encoder or decoder."
        )
    return found


def _source(stream: Any, address: Address) -> SourceExtension:
    if hasattr(stream, "extension"):
        return _made_by(stream, address, SourceExtension)
    extension = SourceExtension(as_bytes if stream is None else stream)
    extension.connect(*address)
    return extension


def _sink(stream: Any, address: Address, codec: str, confirm: Literal["automatic", "manual"]) -> SinkExtension:
    if hasattr(stream, "extension"):
        return _made_by(stream, address, SinkExtension)
    decoder = functools.partial(parsed, codec=codec) if stream is None else stream
    in_tuple = confirm == "manual"
    extension = SinkExtension((lambda data: (decoder(data),)) if in_tuple else decoder, confirm=confirm)
    extension.listen(*address)
    return extension


def _made_by(stream: Any, address: Address, kind: type[E]) -> E:
    extension = stream(*address).extension()
    if not isinstance(extension, kind):
        raise WallarooError(f"{stream.__name__}.extension() must return a {kind.__name__}; got {a_kind_of(extension)}.")
    return extension


@contextmanager
def listening_on(address: Address) -> Iterator[None]:
    """Say where it is not possible to listen, and why."""
    try:
        yield
    except OSError as error:
        raise AddressError(
            f"The script cannot listen on {address}: {error.strerror or error}. Is it running already?"
        ) from error


@contextmanager
def _in_good_order() -> Iterator[None]:
    """End well when asked to, and with a sentence if something is wrong."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    logging.basicConfig(format="%(message)s")
    with plain_errors():
        yield


def _stop(_number: int, _frame: object) -> NoReturn:
    """End as at the end of the script: what was written is waited for, for a while."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    sys.exit(0)
