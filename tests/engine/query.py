"""A query without Spark, for tests that append messages and look at what reaches the driver."""

from collections import Counter, defaultdict
from itertools import pairwise

from tests.engine.blocks import Blocks

from wallaroo.engine.transport.shuffle_format import BLOCK
from wallaroo.ingress.block_sequence import Range
from wallaroo.ingress.log.reader import LogReader
from wallaroo.ingress.log.writer import LogWriter


class Query(Blocks):
    """Blocks that are cut, computed and committed together; as many of each source as there are tasks."""

    def __init__(self, plan, folder, workers=1, partitions=2):
        super().__init__(plan, folder, workers, partitions)
        self.appended = Counter()

    def append(self, source, payloads, block=3):
        with LogWriter(self.folder / source) as log:
            for start in range(0, len(payloads), block):
                log.append(payloads[start : start + block])

    def cut(self, tasks):
        """Put what has been appended since into the sequence."""
        for number, source in enumerate(self.plan.sources):
            with LogWriter(self.folder / source) as log:
                start, end = self.appended[source], log.end
                self.appended[source] = end
            borders = sorted({start, end, *(self.border(source, start, end, part / tasks) for part in range(1, tasks))})
            for low, high in pairwise(borders):
                self.sequence.append(0, 1, (Range(number, low, high),))

    def border(self, source, start, end, part):
        """Return where an append ended, about so far between two positions."""
        log = LogReader(self.folder / source)
        cuts = [cut for there in log.present(start, end) for cut in log.cut(*there, 100)]
        return min((low for low, _ in cuts), key=lambda low: abs(low - start - part * (end - start)), default=end)

    def chunks(self, tasks=2):
        """Run what has been appended since, commit it, and return what reaches the driver."""
        self.cut(tasks)
        reached = self.reached()
        self.commit()
        return reached

    def reached(self):
        """Compute what has been cut, and return what reaches the driver."""
        reached = []
        for block in self.sequence.read_from(self.done):
            chunks = (chunk for chunk in self.chunks_of(block) if chunk.route != BLOCK)
            reached += [chunk._replace(body=bytes(chunk.body)) for chunk in chunks]
            self.done = block.number + 1
        return reached

    def output(self, **options):
        """Return what is sent to each sink."""
        return self.lines_of(self.chunks(**options))

    def compute_all(self):
        """Compute what has been cut, without a commit, and return what is sent to each sink."""
        return self.lines_of(self.reached())

    @staticmethod
    def lines_of(chunks):
        sent = defaultdict(bytes)
        for chunk in chunks:
            assert chunk.route >= 0
            sent[chunk.route] += chunk.body
        return {route: data.decode().splitlines() for route, data in sent.items()}
