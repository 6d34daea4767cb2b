"""The ingress process: `python -m wallaroo.ingress`, started and supervised by `IngressProcess`.

The configuration comes on standard input; when that ends, the parent has died and so does this process.
On standard output it writes lines of JSON: `ready` with the addresses or `error`, later `notice`s.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from wallaroo.errors import WallarooError
from wallaroo.ingress.config import load_config
from wallaroo.ingress.control import ControlChannel
from wallaroo.ingress.server import IngressServer

if TYPE_CHECKING:
    from wallaroo.ingress.config import IngressConfig


class _Output:
    """The parent's end of standard output."""

    def __init__(self) -> None:
        # What a user's decoder prints must not come between our lines.
        self._file = os.dup(1)
        os.dup2(2, 1)

    def write(self, **line: object) -> None:
        """Write one line."""
        with suppress(BrokenPipeError):
            os.write(self._file, json.dumps(line).encode() + b"\n")

    def notice(self, text: str) -> None:
        """Write a line for a person."""
        self.write(notice=text)


def _read_config() -> IngressConfig:
    try:
        return load_config(sys.stdin.buffer)
    except Exception as error:
        raise WallarooError(
            f"The sources' decoders cannot be loaded in the process that accepts connections: "
            f"{type(error).__name__}: {error}. Keep a decoder free of open files, locks and connections, "
            f"and in a module that can be imported."
        ) from error


async def _serve(config: IngressConfig, output: _Output) -> None:
    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[bool] = loop.create_future()

    def stop(*, politely: bool) -> None:
        if not stopped.done():
            stopped.set_result(politely)

    def parent_spoke() -> None:
        if not os.read(0, 4096):
            stop(politely=False)

    loop.add_reader(0, parent_spoke)
    loop.add_signal_handler(signal.SIGTERM, lambda: stop(politely=True))
    server = IngressServer(config, output.notice)
    try:
        control = ControlChannel(server, config.control_path, config.token)
        await control.start()
        try:
            output.write(ready=await server.start())
            if await stopped:
                await server.drain()
        finally:
            control.close()
    finally:
        server.close()


def main() -> int:
    """Serve until the parent says stop or dies; return the exit status."""
    # A Ctrl-C is meant for the parent, which will say what to do.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    output = _Output()
    _allow_many_connections()
    try:
        asyncio.run(_serve(_read_config(), output))
    except WallarooError as error:
        output.write(error=str(error))
        return 1
    except OSError as error:
        output.write(error=f"The process that accepts connections cannot go on: {error}.")
        return 1
    return 0


def _allow_many_connections() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


if __name__ == "__main__":
    sys.exit(main())
