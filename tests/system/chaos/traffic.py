"""Senders that record what they send, and what they know to have been accepted."""

import random
import threading
import time
from collections.abc import Callable

from tests.system.harness import PATIENCE

from .oracle import Sent
from .outside import Connection

KEYS = [f"key{number}" for number in range(24)]
_SENDERS = 3
_PAUSE_SECONDS = 0.05
_HUGE = 60_000

Connect = Callable[[int], Connection | None]
"""Returns a connection for one of the lanes, None if none is accepted."""


class Traffic:
    """Some senders that continue for as long as they are asked to, each with one connection after the other.

    Of a connection that broke, any number of the first messages may have been accepted.
    """

    def __init__(self, seed: int, connect: Connect, lanes: int = 1) -> None:
        self.sent: dict[str, Sent] = {}
        self._connect = connect
        self._lanes = lanes
        self._choose = random.Random(f"traffic {seed}")
        self._flowing = threading.Event()
        self._ending = False
        self._tears = 0
        self._lock = threading.Lock()
        self._flood = threading.Event()
        self._threads = [threading.Thread(target=self._send_on, args=(n,), daemon=True) for n in range(_SENDERS)]
        self._errors: list[BaseException] = []
        for thread in self._threads:
            thread.start()

    def flow(self) -> None:
        """Begin to send."""
        self._flowing.set()

    def tear(self) -> None:
        """Have the next senders die inside a frame."""
        with self._lock:
            self._tears += _SENDERS

    def flood(self, *, on: bool) -> None:
        """Send much more, or as before: long messages fill the segments of the log."""
        if on:
            self._flood.set()
        else:
            self._flood.clear()

    def give_up(self) -> None:
        """Send nothing more, without waiting for anything."""
        self._ending = True
        self._flowing.set()

    def end(self) -> None:
        """Let the current streams end, and send nothing more."""
        self.give_up()
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), "a sender hangs"
        assert not self._errors, self._errors

    def send(self, keys: list[str], lane: int = 0) -> str | None:
        """Send messages with these keys on one connection; return its name, None if there is no listener."""
        name = f"single{len(self.sent)}"
        return name if self._send(name, keys, self._choose, lane) is not None else None

    def roll_call(self) -> list[str]:
        """Send a message for every key, which has to be accepted; return the beginnings of the lines they make.

        What comes on one lane says nothing of the others, so there is one on each of them.
        """
        with self._lock:
            self._tears = 0  # A death that found no sender in time must not hit this one.
        names = [self._surely_sent(list(KEYS), lane) for lane in range(self._lanes)]
        return [f"{key} {name} {number}" for name in names for number, key in enumerate(KEYS, 1)]

    def _surely_sent(self, keys: list[str], lane: int) -> str:
        deadline = time.monotonic() + PATIENCE
        # The ingress may be about to be started again.
        while (name := self.send(keys, lane)) is None:
            assert time.monotonic() < deadline, "nobody accepts connections"
            time.sleep(_PAUSE_SECONDS)
        assert self.sent[name].accepted, "a connection broke although nothing happened to it"
        return name

    def _send_on(self, sender: int) -> None:
        choose = random.Random(f"{self._choose.random()} {sender}")
        count = 0
        try:
            while self._flowing.wait(PATIENCE) and not self._ending:
                keys = choose.choices(KEYS, k=choose.choice([1, 30, 300]))
                lane = choose.randrange(self._lanes)
                if self._send(f"{sender}.{count}", keys, choose, lane) is not None:
                    count += 1
                time.sleep(choose.uniform(0, _PAUSE_SECONDS))
        except BaseException as error:  # noqa: BLE001 - told in the thread that asks for the end
            self._errors.append(error)

    def _send(self, name: str, keys: list[str], choose: random.Random, lane: int) -> Sent | None:
        """Send a stream on a connection of its own and return its record; None if there is no listener."""
        connection = self._connect(lane)
        if connection is None:
            return None
        padding = "." * (_HUGE if self._flood.is_set() else choose.choice([0, 10, 1000]))
        messages = [f"{key} {name} {number} {padding}".encode() for number, key in enumerate(keys, 1)]
        record = self.sent[name] = Sent(keys)
        if self._is_torn():
            connection.die(messages, choose)
        else:
            record.accepted = connection.send(messages, choose)
        return record

    def _is_torn(self) -> bool:
        with self._lock:
            torn = self._tears > 0
            self._tears -= torn
            return torn
