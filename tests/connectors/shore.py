"""A made-up sink, and an ingress with a worker behind it, for tests with made-up kinds of sources."""

import asyncio

import wallaroo
from wallaroo.connectors.base import SinkKind
from wallaroo.engine.plan import Input, Plan, new_layout
from wallaroo.engine.stages.worker import Worker
from wallaroo.engine.transport.dead_letter_record import load_records
from wallaroo.engine.transport.shuffle_format import DEAD_LETTERS
from wallaroo.ingress.block_sequence import unpack_block
from wallaroo.ingress.config import IngressConfig, endpoint_of
from wallaroo.ingress.lanes import Lane
from wallaroo.ingress.limits import Limits
from wallaroo.ingress.sequencer import FRAME, ReaderChannel
from wallaroo.ingress.server import IngressServer


@wallaroo.decoder
def decode(bs):
    return bs.decode()


@wallaroo.encoder
def encode(data):
    return data


class Shelf:
    """A config: outputs are put into a list, which stays."""

    encoder = encode

    def __init__(self):
        self.blocks = []


class ShelfConnection:
    name = "shelf"

    def __init__(self, config, context):
        self._config = config
        self._context = context

    def connect(self):
        self._context.notice("there is a shelf")

    def deliver(self, block):
        self._config.blocks.append((block.number, [bytes(each) for each in block.messages()]))
        block.delivered()

    def close(self):
        self._config.blocks.append(("closed", self._context.application, self._context.effectively_once))


class ShelfKind(SinkKind):
    config_class = Shelf

    def mistakes(self, config):
        return iter(())

    def shown(self, config):
        return ("a shelf",)

    def connection(self, config, context):
        return ShelfConnection(config, context)


def application(source, sink):
    return wallaroo.ApplicationBuilder("Tides").new_pipeline("north sea", source).to_sink(sink).build()


class Shore:
    """An ingress, and a worker: takes blocks from one to the other, and keeps what comes out."""

    def __init__(self, folder, source, max_log=1 << 30, known=None, built=None):
        self.built = built or application(source, Shelf())
        endpoint = endpoint_of("north sea", source, str(folder / "log"), known)
        self.config = IngressConfig(
            [endpoint],
            str(folder / "control"),
            "token",
            str(folder / "sequence"),
            limits=Limits(max_log=max_log),
        )
        told = Input(kind=endpoint.kind, place=endpoint.place, log="")
        plan = Plan(self.built, new_layout(self.built.pipelines, 4), inputs={"north sea": told}, sources=["north sea"])
        self.worker = Worker(plan)
        self.outputs = {}
        self.letters = []
        self.ends = {}
        """Of the messages that have come to the worker, by lane."""
        self.notices = []

    def run(self, test, start=0, readers=1):
        """Run a test with an ingress, which is not stopped cleanly."""

        async def live():
            server = IngressServer(self.config, self.notices.append)
            try:
                await server.start()
                if readers:
                    server.sequencer.join("a life", 0, readers, start, ReaderChannel(self._take, lambda: None))
                await test(server)
            finally:
                server.close()

        self.outputs.clear()
        self.letters.clear()
        self.ends.clear()
        asyncio.run(asyncio.wait_for(live(), 60))
        return dict(self.outputs)

    async def reach(self, server, ends):
        """Wait until the messages before these, by lane, have come out, and report deliveries meanwhile."""
        while any(self.ends.get(Lane(0, lane), 0) < end for lane, end in ends.items()):
            server.sequencer.delivered(max(self.outputs, default=-1) + 1)
            await asyncio.sleep(0.001)

    def _take(self, frame):
        number, length, _ = FRAME.unpack_from(frame)
        if length >= 0:
            block = unpack_block(frame[FRAME.size :])
            (share,) = self.worker.run_first(block, 1)
            assert number not in self.outputs
            self.ends.update(block.ends)
            self.letters += (
                each for chunk in share if chunk.route == DEAD_LETTERS for each in load_records(chunk.body)
            )
            self.outputs[number] = b"".join(bytes(chunk.body) for chunk in share if chunk.route == 0)
