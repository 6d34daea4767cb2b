"""Applications with extensions, as whole processes: the application, and scripts that are killed and started again."""

import socket
import sys
import threading
from collections import Counter, defaultdict

import pytest

from wallaroo.connectors.extension.protocol import Hello
from wallaroo.experimental import SinkExtension, SourceExtension

from .apps.extension_word_count import word
from .harness import APPS, PATIENCE, Process, environment, unused_address

TOTAL = 60_000


@pytest.fixture
def script():
    """Start a script."""
    started = []

    def start(role, address, *arguments):
        command = [sys.executable, APPS / "extension_word_count.py", role, address, *map(str, arguments)]
        started.append(Process(command, env=environment()))
        return started[-1]

    yield start
    for each in started:
        each.clean_up()


def started(machida, tmp_path, text, counts, *options):
    """Return an application that is ready."""
    return machida(
        *("--application-module", "extension_word_count", "--resilience-dir", str(tmp_path / "state")),
        *("--text-stream", text, "--count-stream", counts, *options),
    ).wait_until_ready()


def totals_in(lines):
    """Return the totals of each word, in their order."""
    found = defaultdict(list)
    for line in lines:
        each, total = line.split(" => ")
        found[each].append(int(total))
    return found


def expected(numbers):
    """Return what each word has to be counted, according to plain Python."""
    counted = Counter(word(number) for number in numbers)
    return {each: list(range(1, total + 1)) for each, total in counted.items()}


@pytest.mark.timeout(900)
def test_every_count_is_there_once_after_any_kill(machida, script, tmp_path):
    text, counts, file = unused_address(), unused_address(), tmp_path / "counts"

    def lines():
        return file.read_text().splitlines() if file.exists() else []

    def wait_for(number, run):
        run.wait_until(lambda: len(lines()) >= number, f"{number} outputs")

    # Both scripts wait for the application.
    source, sink = script("source", text, 0, TOTAL), script("sink", counts, file)
    run = started(machida, tmp_path, text, counts, "--time-between-checkpoints", "500000000")
    wait_for(TOTAL // 10, run)
    source.kill()
    refuses_foreigners(text, run)
    # It repeats everything, from the first message on.
    source = script("source", text, 0, TOTAL)
    wait_for(TOTAL // 4, run)
    sink.kill()
    sink = script("sink", counts, file)
    wait_for(TOTAL // 2, run)
    run.kill()
    run = started(machida, tmp_path, text, counts, "--time-between-checkpoints", "500000000")
    source.wait_until(lambda: "all of it" in source.output, "everything being acknowledged")
    # Once more, when the application has had everything.
    again = script("source", text, 0, TOTAL)
    again.wait_until(lambda: "all of it" in again.output, "everything being acknowledged again")
    assert f"connected {TOTAL - 1000}" in again.output
    wait_for(TOTAL, run)
    run.stop()
    assert totals_in(lines()) == expected(range(TOTAL))


def refuses_foreigners(text, run):
    """Check that a foreign client and a script of another version are refused, each in one line."""
    host, port = text.split(":")
    for sent in (b"GET / HTTP/1.1\r\n\r\n", Hello(7, {"role": "source", "script": "x"}).pack()):
        with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
            connection.sendall(sent)
            run.wait_until(lambda: "was closed: " in run.output, "a line")
    run.wait_until(lambda: "the script speaks version 7" in run.output, "a line")
    assert "was closed: it sent b'GET / HTTP/1.1" in run.output
    assert "the script speaks version 7 of the protocol of extensions, and this side speaks version 1" in run.output


@pytest.mark.timeout(900)
def test_without_sequences_nothing_is_lost_that_was_acknowledged_and_scripts_that_live_repeat_nothing(
    machida, tmp_path
):
    text, counts = unused_address(), unused_address()
    options = "--time-between-checkpoints", "500000000", "--max-log", "1048576"
    sink = SinkExtension(lambda message: message.decode(), confirm="manual")
    sink.listen(*counts.split(":"))
    source = SourceExtension(str)
    found = []
    at_work = [
        threading.Thread(target=write_all, args=(source, text)),
        threading.Thread(target=read_all, args=(sink, found)),
    ]
    for each in at_work:
        each.start()
    run = started(machida, tmp_path, text, counts, *options)
    run.wait_until(lambda: len(found) >= TOTAL // 4, "a quarter of the outputs")
    # Both scripts live on.
    run.kill()
    run = started(machida, tmp_path, text, counts, *options)
    run.wait_until(lambda: len(found) >= TOTAL, "all outputs")
    for each in at_work:
        each.join(PATIENCE)
    assert source.acknowledged == TOTAL
    run.stop()
    assert sink.read(timeout=0) is None
    sink.close()
    assert totals_in(found) == expected(range(TOTAL))


def write_all(source, text):
    source.connect(*text.split(":"))
    for number in range(TOTAL):
        source.write(word(number))
    source.close()


def read_all(sink, found):
    """Read all outputs, and confirm many at a time; messages may come one by one."""
    while len(found) < TOTAL:
        message = sink.read(timeout=0.1)
        if message is not None:
            found.append(message)
        if message is None or len(found) % 1000 == 0:
            sink.confirm()
    sink.confirm()
