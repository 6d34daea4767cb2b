"""The reference of formats: its tables are those of the program, and its sender knows what was accepted."""

import re
import socket
import struct
import threading
from pathlib import Path

import pytest

import wallaroo
from wallaroo import testing
from wallaroo.cli.framing import FRAMINGS
from wallaroo.connectors.tcp.confirmed_sink import ANSWER, HEADER
from wallaroo.engine.metrics import Metrics
from wallaroo.topology.model import REPLAYS

from ..examples.readme import blocks  # noqa: TID252 - tests are not installed

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "wire-formats.md").read_text()


def section(heading):
    level = heading.partition(" ")[0]
    return PAGE.partition(f"\n{heading}\n")[2].partition(f"\n{level} ")[0].partition("\n## ")[0]


def names_in(text):
    """Return the names in the first cells of the tables."""
    cells = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    return {name for cell in cells for name in re.findall("`(.+?)`", cell)}


def test_the_tables_of_frames_have_their_layout():
    text = section("## Frames of effectively-once")
    rows = re.findall(r"^\| (\d+) to (\d+) \|", text, re.MULTILINE)
    sizes = [int(last) - int(first) + 1 for first, last in rows]
    assert sizes == [4, 16, 8, 8, 8]
    assert sum(sizes[:4]) == HEADER.size
    assert sizes[4] == ANSWER.size
    assert f"| {HEADER.size} and on |" in text


def test_the_headers_are_those_that_the_command_knows():
    rows = re.findall(r"^\| `(u\w+)` \| `@wallaroo\.decoder\((.*)\)` \| ([\d,]+) \|", PAGE, re.MULTILINE)
    assert [name for name, _, _ in rows] == list(FRAMINGS)
    for name, arguments, longest in rows:
        header = FRAMINGS[name].header
        assert arguments == f'header_length={header.size}, length_fmt="{header.format}"'
        assert int(longest.replace(",", "")) == FRAMINGS[name].longest


@pytest.fixture
def send_all():
    [program] = blocks(PAGE, "python")
    names = {}
    exec(program, names)
    return names["send_all"]


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def taking(listener, received, *, in_good_order):
    """Take one connection to its end, and close it in good order or reset it."""

    def take():
        connection, _ = listener.accept()
        with connection:
            while piece := connection.recv(1 << 16):
                received.append(piece)
            if not in_good_order:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    thread = threading.Thread(target=take)
    thread.start()
    return thread


@pytest.mark.parametrize("in_good_order", [True, False])
def test_the_sender_on_the_page_knows_what_was_accepted(send_all, listener, in_good_order):
    received = []
    receiver = taking(listener, received, in_good_order=in_good_order)
    assert send_all(listener.getsockname(), [b"hello", b"", b"world"]) is in_good_order
    receiver.join()
    assert b"".join(received) == b"\0\0\0\5hello\0\0\0\0\0\0\0\5world"


@wallaroo.decoder
def decode(bs):
    return bs.decode()


@wallaroo.state_computation("count")
def count(word, totals):
    totals[word] = totals[word] + 1
    return word, True


@wallaroo.partition
def itself(word):
    return word


def test_every_field_of_a_dead_letter_is_on_the_page_and_no_other():
    builder = wallaroo.ApplicationBuilder("Failing").new_pipeline(
        "words", wallaroo.TCPSourceConfig("127.0.0.1", "0", decode)
    )
    memory = testing.InMemory(builder.to_state_partition(count, dict, "totals", itself).build(), keep_errors=True)
    [letter] = memory.send(["missing"]).errors
    # Those of an error that is kept in the file, that comes from several messages, from a source with partitions, and
    # that was replayed.
    further = {"id", "positions", "partition", "partitions", "replay_of"}
    assert names_in(section("## Dead letters")) == letter.keys() | further


def test_every_count_is_on_the_page_and_no_other():
    counts = Metrics().snapshot()
    whole, _, _ = section("## counts.json").partition("\n### ")
    assert names_in(whole) == counts.keys()
    assert names_in(section("### Delays")) == counts["delays"].keys()
    assert f"`{REPLAYS}`" in section("### Sources")
    limits = [limit for limit, _ in counts["delays"]["blocks"]]
    assert f"from {limits[0]} to {limits[-2]}" in section("### Delays")
