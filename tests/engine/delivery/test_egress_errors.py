"""A block in which user code failed: all of it counts, or, by policy, none of it."""

import json
import socket
import threading
from contextlib import closing, contextmanager
from itertools import count, starmap

import pytest
from tests.engine.blocks import inputs_in
from tests.engine.delivery.recording_progress import RecordingProgress
from tests.processes import PATIENCE

from wallaroo.connectors import registry
from wallaroo.connectors.base import ReplayableKind
from wallaroo.engine.delivery.collector import Collector, Epoch
from wallaroo.engine.delivery.egress import Egress
from wallaroo.engine.delivery.error_policy import OnError
from wallaroo.engine.directory.commit import Commits
from wallaroo.engine.directory.home import Home
from wallaroo.engine.transport.dead_letter_record import dump_records
from wallaroo.engine.transport.shuffle_format import BLOCK, DEAD_LETTERS, Chunk
from wallaroo.errors import ErrorPolicyError
from wallaroo.ingress.block_sequence import Range, SequencedBlock
from wallaroo.topology.model import REPLAYS

RECORD = {"pipeline": "p", "step": "s", "message": "m", "error": "E: e", "traceback": "E: e", "source": "p"}


def sent(route, body):
    return Chunk(route, 0, 1, body)


def block(number, *ranges):
    return Chunk(BLOCK, 0, 0, SequencedBlock(number, 0, 1, tuple(starmap(Range, ranges))).pack())


def failed(*letters):
    return sent(DEAD_LETTERS, dump_records([RECORD | letter for letter in letters]))


@pytest.fixture
def server():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE)
        yield server


@pytest.fixture
def inputs(tmp_path):
    return inputs_in(tmp_path, ["p", REPLAYS])


@pytest.fixture
def start(make, server, tmp_path, inputs):
    plan = make.plan(make.pipeline("p", port=server.getsockname()[1]))

    plan.sources = ["p", "q", REPLAYS]
    plan.inputs = inputs
    numbers = count()

    @contextmanager
    def start_egress(on_error="dead-letter"):
        home, policy = Home(tmp_path), OnError.parse(on_error)
        commits = Commits(tmp_path / "commit.json", tmp_path / "states")
        with (
            closing(Collector(str(tmp_path / f"socket {next(numbers)}"), "token", commits)) as collector,
            closing(
                Egress(
                    plan,
                    home,
                    collector,
                    commits,
                    RecordingProgress([]),
                    threading.Event(),
                    lambda _: None,
                    on_error=policy,
                )
            ) as egress,
        ):
            yield egress

    return start_egress


@pytest.fixture
def kept(tmp_path):
    def read():
        path = tmp_path / "dead-letters.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    return read


def received(server):
    """Return what the next connection was sent; it has been closed by the sender."""
    connection, _ = server.accept()
    with connection, connection.makefile("rb") as stream:
        return stream.read()


@pytest.mark.parametrize("policy", ["fail", "2/h", "50%"])
def test_by_policy_nothing_of_a_block_is_sent_or_kept(start, server, kept, policy):
    chunks = [block(2, (0, 20, 120)), sent(0, b"two "), failed(*({"position": number} for number in range(20, 100)))]
    with start(policy) as egress:
        egress.deliver(1, [block(1, (0, 0, 20)), sent(0, b"one ")])
        with pytest.raises(ErrorPolicyError, match=r"step 's' failed for the message m, from message .. of 'p'"):
            egress.deliver(2, chunks)
    assert (egress.metrics.errors, kept()) == (0, [])
    assert received(server) == b"one "
    with start() as mended:
        mended.deliver(2, chunks)
    assert (mended.metrics.errors, len(kept())) == (80, 80)
    assert received(server) == b"two "


@pytest.mark.parametrize("policy", ["fail", "2/h", "2%"])
def test_what_cannot_be_saved_at_the_end_of_an_epoch_is_judged_as_well(start, kept, policy):
    with start(policy) as egress:
        egress.deliver(0, [block(0, (0, 0, 100))])
        with pytest.raises(ErrorPolicyError, match="step 's' failed for the message m"):
            egress._commit(Epoch("", 1, {}, {}, [RECORD] * 3))
        assert egress._commits.block == 0
    assert (egress.metrics.errors, kept()) == (0, [])


def test_the_letters_of_an_epochs_end_and_of_the_block_after_it_are_counted_together(start):
    with start("5/h") as egress:
        egress._commit(Epoch("", 1, {}, {}, [RECORD] * 3))
        with pytest.raises(ErrorPolicyError, match="6 dead letters in the last hour"):
            egress.deliver(1, [failed({}, {}, {})])


def test_what_was_kept_before_is_not_judged_again(start, kept):
    with start() as egress:
        egress.deliver(1, [failed({})])
    with start("fail") as egress:
        egress.deliver(1, [failed({})])
        with pytest.raises(ErrorPolicyError):
            egress.deliver(2, [failed({})])
    assert len(kept()) == 1


def test_a_share_counts_the_messages_of_blocks_without_errors(start):
    letters = failed(*[{"position": 1001}] * 10)
    with start("1%") as egress:
        egress.deliver(1, [block(1, (0, 0, 1000))])
        egress.deliver(2, [block(2, (0, 1000, 1100)), letters])
        assert egress.metrics.errors == 10


def test_a_share_of_the_block_alone_would_be_too_much(start):
    letters = failed(*[{"position": 1001}] * 10)
    with start("1%") as egress, pytest.raises(ErrorPolicyError, match="10 dead letters for 100 messages"):
        egress.deliver(2, [block(2, (0, 1000, 1100)), letters])


def test_where_the_position_is_not_known_the_block_is(start, kept):
    with start() as egress:
        egress.deliver(1, [block(1, (0, 5, 7), (0, 7, 8)), failed({}, {"position": 6}, {"source": "q"})])
        # A message without a position may now be one that was replayed.
        egress.deliver(2, [block(2, (0, 8, 9), (2, 0, 1)), failed({})])
    assert [(letter.get("position"), letter.get("positions")) for letter in kept()] == [
        (None, [5, 7]),
        (6, None),
        (None, None),
        (None, None),
    ]


class PartitionedKind(ReplayableKind):
    name = "partitioned"
    config_class = object
    nature = "has partitions"
    has_lanes = True

    mistakes = shown = intake = reader = None


def test_where_a_source_has_partitions_the_block_is_reported_for_each(start, kept, monkeypatch, inputs):
    monkeypatch.setattr(registry, "SOURCES", [*registry.SOURCES, PartitionedKind()])
    inputs["p"]["kind"] = "partitioned"
    with start() as egress:
        egress.deliver(1, [block(1, (0, 7, 9, 3), (0, 5, 7), (1, 0, 4), (0, 7, 8), (0, 9, 30, 3)), failed({})])
        egress.deliver(2, [block(2, (0, 8, 9)), failed({"partition": 0, "position": 8})])
    several, exact = kept()
    assert several["partitions"] == [
        {"partition": 0, "positions": [5, 7]},
        {"partition": 3, "positions": [7, 29]},
    ]
    assert "positions" not in several
    assert (exact["partition"], exact["position"]) == (0, 8)
    assert "partitions" not in exact
