"""A topic of a real broker, announced by the real ingress and read by a real worker, block after block."""

import asyncio
import os
import signal
import time
from datetime import UTC, datetime

import pytest
from confluent_kafka import Consumer, Producer

import wallaroo
from wallaroo.connectors.kafka import source as kafka_source
from wallaroo.connectors.kafka.config import KafkaSourceConfig
from wallaroo.engine.plan import Input, Plan, new_layout
from wallaroo.engine.stages.worker import Worker
from wallaroo.errors import ApplicationError, WallarooError
from wallaroo.ingress.block_sequence import unpack_block
from wallaroo.ingress.config import IngressConfig, endpoint_of
from wallaroo.ingress.sequencer import FRAME, ReaderChannel
from wallaroo.ingress.server import IngressServer

from ...ingress.conftest import until  # noqa: TID252 - tests are not installed

NAME = "words"


@wallaroo.decoder
def decode(bs, message):
    return f"{message.partition}:{message.offset}:{bs.decode()};"


@wallaroo.encoder
def encode(text):
    return text


class Run:
    """An ingress with a topic, and a worker that computes its blocks; `found` has the values by partition, in order."""

    def __init__(self, folder, kafka, topic, **config):
        source = KafkaSourceConfig(topic, kafka.brokers, "Error", decode, **config)
        sink = wallaroo.TCPSinkConfig("127.0.0.1", 7002, encode)
        built = wallaroo.ApplicationBuilder("Words").new_pipeline(NAME, source).to_sink(sink).build()
        endpoint = endpoint_of(NAME, source, str(folder / "log"))
        self._config = IngressConfig([endpoint], str(folder / "control"), "token", str(folder / "sequence"))
        told = Input(kind=endpoint.kind, place=endpoint.place, log="")
        layout = new_layout(built.pipelines, 4)
        self._worker = Worker(Plan(built, layout, inputs={NAME: told}, sources=[NAME]))
        self.notices = []
        self.errors = []
        self.found = {}
        self.next_block = 0
        self.server = None

    def run(self, test, start=0):
        """Run a test in a life of the ingress, which ends without a word."""

        async def live():
            self.server = IngressServer(self._config, self.notices.append)
            try:
                await self.server.start()
                self.server.sequencer.join("a life", 0, 1, start, ReaderChannel(self._take, lambda: None))
                await test()
            finally:
                self.server.close()

        self.found = {}
        asyncio.run(asyncio.wait_for(live(), 120))
        return self.found

    async def reach(self, count):
        """Wait until so many messages have come out."""
        while sum(map(len, self.found.values())) < count:
            self.server.sequencer.delivered(self.next_block)
            await asyncio.sleep(0.001)

    def commit(self):
        """Commit everything that has come out."""
        ends = {lane: int(some[-1].split(":")[0]) + 1 for lane, some in self.found.items()}
        self.server.sequencer.committed(self.next_block)
        self.server.sources[NAME].commit(ends)

    def _take(self, frame):
        number, length, _ = FRAME.unpack_from(frame)
        if length < 0:
            return
        try:
            (share,) = self._worker.run_first(unpack_block(frame[FRAME.size :]), 1)
        except WallarooError as error:
            self.errors.append(str(error))
            return
        for chunk in share:
            if chunk.route == 0:
                for text in bytes(chunk.body).decode().split(";")[:-1]:
                    lane, _, rest = text.partition(":")
                    self.found.setdefault(int(lane), []).append(rest)
        self.next_block = number + 1


def values(found):
    """Return the values by partition, and check that their offsets ascend."""
    for some in found.values():
        offsets = [int(each.partition(":")[0]) for each in some]
        assert offsets == sorted(set(offsets))
    return {lane: [each.partition(":")[2] for each in some] for lane, some in found.items()}


def sent(lane, *numbers):
    return [{"value": f"{lane}-{number}", "partition": lane} for number in numbers]


def test_everything_is_announced_in_order_and_again_after_a_crash(kafka, tmp_path):
    topic = kafka.create_topic(partitions=3)
    kafka.produce(topic, [each for number in range(500) for lane in range(3) for each in sent(lane, number)])
    run = Run(tmp_path, kafka, topic)

    async def more_comes():
        await run.reach(1500)
        kafka.produce(topic, sent(1, *range(500, 3000)))
        await run.reach(4000)

    async def all_comes():
        await run.reach(4000)

    expected = {lane: [f"{lane}-{number}" for number in range(3000 if lane == 1 else 500)] for lane in range(3)}
    assert values(run.run(more_comes)) == expected
    # From the first block on, as after a crash without a commit: the same blocks have the same messages.
    again = run.run(all_comes)
    assert values(again) == expected

    async def after_a_commit():
        run.commit()
        kafka.produce(topic, sent(0, 500))
        await run.reach(4001)

    run.run(after_a_commit)
    assert run.notices == []

    async def the_rest():
        kafka.produce(topic, sent(2, 500))
        await run.reach(2)

    # Only what came after the commit.
    assert values(run.run(the_rest, start=run.next_block - 1)) == {0: ["0-500"], 2: ["2-500"]}


@pytest.mark.parametrize("start", ["latest", "time"])
def test_the_start_is_the_same_after_a_crash_before_the_first_message(kafka, tmp_path, start):
    topic = kafka.create_topic(partitions=2)
    before = int(time.time() * 1000) - 10_000
    kafka.produce(topic, [{**each, "timestamp": before} for lane in (0, 1) for each in sent(lane, 1, 2, 3)])
    given = start if start == "latest" else datetime.fromtimestamp(before / 1000 + 5, UTC)
    run = Run(tmp_path, kafka, topic, start=given)

    async def nothing_comes():
        await until((tmp_path / "log" / "starts.json").exists)

    async def one_comes():
        await run.reach(2)

    assert run.run(nothing_comes) == {}
    # While nothing runs. Had the start moved to the end of the topic, it would be lost.
    kafka.produce(topic, sent(0, 4) + sent(1, 4))
    assert values(run.run(one_comes)) == {0: ["0-4"], 1: ["1-4"]}


def test_the_positions_of_another_source_are_not_used(kafka, tmp_path):
    topic = kafka.create_topic()
    kafka.produce(topic, sent(0, 1))
    run = Run(tmp_path, kafka, topic)

    async def one_comes():
        await run.reach(1)

    async def never():
        raise AssertionError("it has started")

    run.run(one_comes)
    with pytest.raises(ApplicationError, match=f"Pipeline 'words' has read the topic '{topic}', and now 'other'"):
        Run(tmp_path, kafka, "other").run(never)
    (tmp_path / "log" / "starts.json").unlink()
    with pytest.raises(ApplicationError, match="Pipeline 'words' has read another source"):
        run.run(never)


def test_partitions_that_are_added_are_read_from_their_beginning(kafka, tmp_path):
    topic = kafka.create_topic(partitions=1)
    run = Run(tmp_path, kafka, topic, start="latest")

    async def grow():
        await until((tmp_path / "log" / "starts.json").exists)
        kafka.add_partitions(topic, 3)
        kafka.produce(topic, sent(0, 1) + sent(1, 1, 2) + sent(2, 1, 2, 3))
        await run.reach(6)

    assert values(run.run(grow)) == {0: ["0-1"], 1: ["1-1", "1-2"], 2: ["2-1", "2-2", "2-3"]}


def test_open_transactions_are_waited_for_and_aborted_ones_left_out(kafka, tmp_path):
    topic = kafka.create_topic()
    run = Run(tmp_path, kafka, topic)
    producer = Producer(kafka.client(transactional_id=topic))
    producer.init_transactions()

    def write(*numbers):
        producer.begin_transaction()
        for each in sent(0, *numbers):
            producer.produce(topic, **each)
        producer.flush()

    async def transactions():
        write(1, 2)
        producer.commit_transaction()
        await run.reach(2)
        write(3)
        producer.abort_transaction()
        write(4, 5)
        await asyncio.sleep(1)
        assert values(run.found) == {0: ["0-1", "0-2"]}
        producer.commit_transaction()
        await run.reach(4)

    assert values(run.run(transactions)) == {0: ["0-1", "0-2", "0-4", "0-5"]}


def test_what_is_committed_is_shown_in_the_group_and_a_foreign_member_does_no_harm(kafka, tmp_path):
    topic = kafka.create_topic(partitions=2)
    kafka.produce(topic, sent(0, 1, 2, 3) + sent(1, 1))
    run = Run(tmp_path, kafka, topic, group=f"shown-{topic}")

    async def committed():
        await run.reach(4)
        run.commit()
        await until(lambda: kafka.committed(f"shown-{topic}") == {(topic, 0): 3, (topic, 1): 1})
        # Somebody else reads with the same group, and the broker refuses our offsets from then on.
        foreign = Consumer(kafka.client(group_id=f"shown-{topic}", auto_offset_reset="latest"))
        try:
            foreign.subscribe([topic])
            while not foreign.assignment():
                foreign.poll(0.05)
            kafka.produce(topic, sent(0, 4))
            await run.reach(5)
            run.commit()
            while not run.notices:
                foreign.poll(0.05)
                await asyncio.sleep(0.01)
        finally:
            foreign.close()

    assert values(run.run(committed)) == {0: ["0-1", "0-2", "0-3", "0-4"], 1: ["1-1"]}
    assert run.notices[0].startswith(f"The offsets of the consumer group 'shown-{topic}' could not be brought up to")


def test_a_topic_that_does_not_exist_yet_is_waited_for(kafka, tmp_path):
    topic = f"late-{tmp_path.name}-{time.time_ns()}".replace("_", "-")[-200:]
    run = Run(tmp_path, kafka, topic)

    async def create():
        await until(lambda: run.notices)
        kafka.create_topic(topic)
        kafka.produce(topic, sent(0, 1))
        await run.reach(1)

    assert values(run.run(create)) == {0: ["0-1"]}
    assert run.notices == [
        f"Waiting for the topic {topic!r} at {kafka.address}: it does not exist; retrying until it can be read.",
        f"Reading the topic {topic!r} at {kafka.address} again.",
    ]


def test_a_broker_that_is_away_is_reported_and_waited_for(new_kafka, tmp_path):
    kafka = new_kafka()
    run = Run(tmp_path, kafka, "words", config={"reconnect.backoff.max.ms": 200})

    async def come_and_go():
        await until(lambda: run.notices)
        await asyncio.to_thread(kafka.start)
        await asyncio.to_thread(kafka.create_topic, "words")
        kafka.produce("words", sent(0, 1))
        await run.reach(1)
        await asyncio.to_thread(kafka.kill)
        await asyncio.to_thread(kafka.start)
        kafka.produce("words", sent(0, 2))
        await run.reach(2)

    assert values(run.run(come_and_go)) == {0: ["0-1", "0-2"]}
    assert run.notices[0] == (
        f"Waiting for the topic 'words' at {kafka.address}: no broker answers; retrying until it can be read."
    )


def test_a_change_of_the_leader_that_breaks_no_connection_is_noticed(new_kafka, tmp_path, monkeypatch):
    monkeypatch.setattr(kafka_source, "_LOOK_SECONDS", 0.1)
    # A broker that stands still for longer is given up, and elected again with a new epoch when it goes on.
    kafka = new_kafka({"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "200"}).start()
    topic = kafka.create_topic()
    run = Run(tmp_path, kafka, topic)

    def epochs():
        return {message.leader_epoch() for message in kafka.consume(topic)}

    async def change_leaders():
        count = 1
        kafka.produce(topic, sent(0, count))
        await run.reach(count)
        while len(await asyncio.to_thread(epochs)) == 1:
            os.kill(kafka.pid, signal.SIGSTOP)
            await asyncio.sleep(2)
            os.kill(kafka.pid, signal.SIGCONT)
            count += 1
            await asyncio.to_thread(kafka.produce, topic, sent(0, count))
        await run.reach(count)
        # Those of which there are more than the client has fetched, so that their end has to be asked for.
        await asyncio.to_thread(kafka.produce, topic, sent(0, *range(1000)))
        await run.reach(count + 1000)

    run.run(change_leaders)
    values(run.found)


def test_messages_that_were_removed_before_they_were_read_are_announced_as_such(kafka, tmp_path):
    topic = kafka.create_topic()
    kafka.produce(topic, sent(0, *range(10)))
    before = Run(tmp_path, kafka, topic)

    async def some_come():
        await before.reach(10)

    before.run(some_come)
    kafka.produce(topic, sent(0, *range(10, 20)))
    kafka.delete_before(topic, {0: 15})
    # With another worker: that of before may have fetched them in time.
    run = Run(tmp_path, kafka, topic)

    async def it_is_reported():
        await until(lambda: run.notices and run.errors)

    run.run(it_is_reported, start=before.next_block)
    assert run.errors[0].startswith("The messages 10 to 14 of partition 0")
    assert run.notices[0].startswith(f"The messages 10 to 14 of partition 0 of the topic '{topic}' at")
