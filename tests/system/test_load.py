"""A receiver that stops reading, with senders that do not: disk and memory stay bounded, and nothing is lost."""

import socket
import threading
import time

import psutil
import pytest

from .harness import PATIENCE, frame, ingress_of, send, values_by_key

LIMIT = 1 << 20
BOUND = LIMIT + (1 << 19)
"""The limit of the log, and what one read adds to it: 256 KiB, their offsets and a record."""
GROWTH = 24 << 20
WORDS = [letter * 1000 for letter in "abcdefgh"]
MESSAGES = 12_000
NEWCOMERS = 10
EACH = 10


class CallGuard(threading.Thread):
    """Looks at the log again and again, and remembers the most that it took on the disk."""

    def __init__(self, home):
        super().__init__(daemon=True)
        self._log = home / "log"
        self._over = threading.Event()
        self.most = 0

    def run(self):
        while not self._over.wait(0.005):
            self.most = max(self.most, self.size())

    def size(self):
        total = 0
        for path in self._log.rglob("*"):
            try:
                total += path.stat().st_size if path.is_file() else 0
            except FileNotFoundError:
                continue
        return total

    def stop(self):
        self._over.set()
        self.join()


def resident(run):
    """Return the memory that machida and the process that accepts connections have in use."""
    [ingress] = ingress_of(run)
    return psutil.Process(run.pid).memory_info().rss, ingress.memory_info().rss, len(ingress.net_connections("tcp4"))


@pytest.mark.timeout(600)
def test_while_a_receiver_takes_nothing_disk_and_memory_are_bounded_and_nothing_is_lost(machida, receiver, tmp_path):
    sink = receiver()
    sink.hold_at(0)
    home = tmp_path / "home"
    command = ["--application-module", "word_count", "--in", "127.0.0.1:0", "--out", sink.address]
    command += ["--resilience-dir", home, "--worker-count", "2", "--max-log", "1MiB", "--max-message-size", "2kB"]
    run = machida(*command).wait_until_ready()
    address = run.address("Split and Count")
    watch = CallGuard(home)
    watch.start()
    stream = b"".join(frame(WORDS[number % len(WORDS)]) for number in range(MESSAGES))
    with socket.create_connection(address, timeout=PATIENCE) as connection:
        # Silence for some of the source's rounds of waiting: an hour would have more of them, and nothing else. That
        # Spark lets idle workers go after a minute is a worker that ends between tasks, which is tested elsewhere.
        time.sleep(3)
        sender = threading.Thread(target=connection.sendall, args=[stream])
        sender.start()
        run.wait_until(lambda: "has reached its limit of 1 MiB (--max-log)" in run.output, "a full log")
        first = resident(run)
        # More senders come: they are let in, and have to wait as well.
        newcomers = [threading.Thread(target=send, args=(address, WORDS * EACH)) for _ in range(NEWCOMERS)]
        for thread in newcomers:
            thread.start()
        run.wait_until(lambda: resident(run)[2] >= 1 + 1 + NEWCOMERS, "the other connections")
        second = first
        for _ in range(30):
            time.sleep(0.1)
            second = tuple(map(max, second, resident(run)))
        assert sender.is_alive()
        assert second[0] - first[0] < GROWTH
        assert second[1] - first[1] < GROWTH
        assert sink.size == 0

        sink.hold_at(None)
        for thread in (sender, *newcomers):
            thread.join(PATIENCE)
            assert not thread.is_alive()
    total = MESSAGES + NEWCOMERS * len(WORDS) * EACH
    counts = range(1, total // len(WORDS) + 1)
    expected = {word: list(counts) for word in WORDS}
    size = sum(len(f"{word} => {count}\n") for word in WORDS for count in counts)
    run.wait_until(lambda: sink.size >= size, "all counts")
    run.wait_until(lambda: "has room again" in run.output, "room in the log")
    run.stop()
    watch.stop()
    assert values_by_key(sink.everything()) == expected
    assert run.output.count("has reached its limit") == 1
    assert LIMIT < watch.most <= BOUND
