"""A port for a listener that is started later."""

import random
import socket
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """Return an unused port.

    The system gives those of a certain range to any client, also to one that was free a moment ago:
    this one is below them, and is still free when it is needed.
    """
    end = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else 32768
    while True:
        port = random.SystemRandom().randrange(10_000, end)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
