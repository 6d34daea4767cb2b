"""The ingress process: `python -m wallaroo.ingress`, started and supervised by `IngressProcess`.

It reads the configuration from standard input, and later a line when it has to stop. End of file means that the parent
has died, and this process exits, too.
On standard output it writes lines of JSON: `ready` with the addresses or `error`, later `notice`s.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from wallaroo.errors import DirectoryError, WallarooError
from wallaroo.ingress.config import load_config
from wallaroo.ingress.control import ControlChannel
from wallaroo.ingress.limits import FEW_CONNECTIONS, allow_many_files, connections_within
from wallaroo.ingress.server import IngressServer
from wallaroo.ingress.worker_server import WorkerServer
from wallaroo.process_guard import end_with_parent
from wallaroo.sizes import plural

if TYPE_CHECKING:
    from wallaroo.ingress.config import IngressConfig


class _Output:
    """The pipe to the parent, which was standard output."""

    def __init__(self) -> None:
        # Output that a user's decoder prints must not mix with our lines.
        self._file = os.dup(1)
        os.dup2(2, 1)

    def write(self, **line: object) -> None:
        """Write one line."""
        with suppress(BrokenPipeError):
            os.write(self._file, json.dumps(line).encode() + b"\n")

    def notice(self, text: str) -> None:
        """Write a message for the user."""
        self.write(notice=text)


def _read_config() -> IngressConfig:
    """Read the configuration; discard what the program prints meanwhile, as it has already printed it in the parent."""
    screen = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    try:
        return load_config(sys.stdin.buffer)
    finally:
        with suppress(Exception):  # The program may have closed or replaced it.
            sys.stdout.flush()
        for stream in (1, 2):
            os.dup2(screen, stream)
        os.close(screen)
        os.close(nowhere)


async def _serve(config: IngressConfig, output: _Output) -> None:
    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[bool] = loop.create_future()

    def stop(*, politely: bool) -> None:
        if not stopped.done():
            stopped.set_result(politely)

    def parent_spoke() -> None:
        stop(politely=bool(os.read(0, 4096)))

    loop.add_reader(0, parent_spoke)
    loop.add_signal_handler(signal.SIGTERM, lambda: stop(politely=True))
    server = IngressServer(config, output.notice)
    with ExitStack() as opened:
        opened.callback(server.close)
        control = ControlChannel(server, config.control_path, config.token)
        opened.callback(control.close)
        await control.start()
        workers_port = await _wait_for_workers(config, server, opened)
        output.write(ready=await server.start(), workers_port=workers_port, pid=os.getpid())
        if await stopped:
            await server.drain()


async def _wait_for_workers(config: IngressConfig, server: IngressServer, opened: ExitStack) -> int:
    """Listen for workers on other machines, if configured; return the port, otherwise 0."""
    if not config.workers_host:
        return 0
    logs = {source.name: source.log_directory for source in config.sources}
    workers = WorkerServer(server.sequencer, logs, config.token)
    opened.callback(workers.close)
    return await workers.start(config.workers_host, config.workers_port)


def main() -> int:
    """Serve until the parent requests a stop or dies; return the exit status, which depends on the kind of error."""
    # End of file on standard input is not noticed while a decoder hangs.
    end_with_parent()
    # Ctrl-C is meant for the parent, which then stops this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    output = _Output()
    try:
        asyncio.run(_serve(_within_open_files(_read_config(), output), output))
    except WallarooError as error:
        output.write(error=str(error))
        return error.exit_code
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        output.write(error=f"The process that accepts connections cannot continue: {where}{error.strerror or error}.")
        return DirectoryError.exit_code if error.filename else 1
    return 0


def _within_open_files(config: IngressConfig, output: _Output) -> IngressConfig:
    """Return the configuration with the number of connections limited by the number of open files."""
    files = allow_many_files()
    wanted = config.limits.max_connections
    possible = connections_within(files, len(config.sources))
    if possible >= wanted:
        return config
    # Report the limit only if the user asked for more or fewer than 1,000 fit.
    if "max_connections" in config.limits.chosen or possible < FEW_CONNECTIONS:
        output.notice(
            f"A source accepts {plural(possible, 'connection')} at once instead of {wanted:,}: this process may have "
            f"{files:,} files open. Raise that limit (ulimit -n) for more."
        )
    return replace(config, limits=replace(config.limits, max_connections=possible, open_files=files))


if __name__ == "__main__":
    sys.exit(main())
