"""A query without Spark: log, first stage, stages with state and sinks, chained as Spark chains them."""

import pickle
from collections import Counter, defaultdict
from pathlib import Path

import cloudpickle
import pyarrow as pa

from wallaroo.engine.stages.state import MemoryStore
from wallaroo.engine.stages.worker import Worker
from wallaroo.engine.transport.chunks import ARROW_SCHEMA, from_table, record_batches
from wallaroo.ingress.log_reader import LogReader
from wallaroo.ingress.log_writer import LogWriter
from wallaroo.topology.model import REPLAYS


class Query:
    """What Spark does with a plan: cuts ranges, groups chunks and keeps a store for each group of each level."""

    def __init__(self, plan, folder, workers=1):
        sources = [*(pipeline.name for pipeline in plan.application.pipelines), REPLAYS]
        plan.logs = {source: str(Path(folder) / source) for source in sources}
        self.workers = [Worker(pickle.loads(cloudpickle.dumps(plan))) for _ in range(workers)]
        self.plan = plan
        self.stores = defaultdict(MemoryStore)
        self.folder = Path(folder)
        self.read = Counter()

    def append(self, source, payloads, block=3):
        with LogWriter(self.folder / source) as log:
            for start in range(0, len(payloads), block):
                log.append(payloads[start : start + block])

    def chunks(self, tasks=2, choose=lambda workers: workers[0]):
        """Run what has been appended since as one batch, and return what reaches the driver."""
        chunks = []
        for source in self.plan.logs:
            log = LogReader(self.folder / source)
            start, end = self.read[source], log.end()
            self.read[source] = end
            for cut in (cut for there in log.present(start, end) for cut in log.cut(*there, tasks)):
                chunks += choose(self.workers).run_source(source, cut[0], log.read(*cut))
        for level in range(len(self.plan.layout.levels)):
            groups = defaultdict(list)
            for chunk in chunks:
                groups[chunk.grp].append(chunk)
            chunks = []
            for group, of_group in sorted(groups.items(), reverse=True):
                store = self.stores[level, group]
                chunks += choose(self.workers).run_group(level, group, reversed(of_group), store)
        for worker in self.workers:
            worker.end_of_task()
        return list(from_table(pa.Table.from_batches(record_batches(chunks), ARROW_SCHEMA)))

    def output(self, **options):
        """Return what a batch sends to each sink."""
        sent = defaultdict(bytes)
        for chunk in self.chunks(**options):
            assert chunk.route >= 0
            sent[chunk.route] += chunk.body
        return {route: data.decode().splitlines() for route, data in sent.items()}
