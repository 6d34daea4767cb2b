"""The stages without Spark: sequence, first stage, stages with state, commit, chained as the query chains them."""

import pickle
import random
from collections import Counter, defaultdict
from pathlib import Path

import cloudpickle

from wallaroo.engine.directory.commit import Commits
from wallaroo.engine.plan import Input
from wallaroo.engine.stages.state_files import StateFiles
from wallaroo.engine.stages.worker import Worker
from wallaroo.engine.transport.dead_letter_record import load_records
from wallaroo.engine.transport.shuffle_format import DEAD_LETTERS, PRINTED, pack_share, unpack_share
from wallaroo.ingress.block_sequence import Range, SequenceWriter
from wallaroo.ingress.log.writer import LogWriter
from wallaroo.topology.model import REPLAYS


def inputs_in(folder, names):
    """Return what a plan says of sources that have their logs in `folder`."""
    kinds = {name: "replay" if name == REPLAYS else "tcp" for name in names}
    return {name: Input(kind=kind, place={}, log=str(folder / name)) for name, kind in kinds.items()}


class Blocks:
    """What Spark does with a plan: takes shares from stage to stage, in `partitions` tasks, on any of the workers."""

    def __init__(self, plan, folder, workers=1, partitions=2, seed=0):
        self.folder = Path(folder)
        names = [*(pipeline.name for pipeline in plan.application.pipelines), REPLAYS]
        plan.inputs = inputs_in(self.folder, names)
        self.sequence = SequenceWriter(self.folder / "sequence", names)
        plan.sources = self.sequence.names
        self.plan = plan
        # Each with code of its own, as in processes.
        self.workers = [Worker(pickle.loads(cloudpickle.dumps(plan))) for _ in range(workers)]
        self.partitions = partitions
        self.commits = Commits(self.folder / "commit", self.folder / "states")
        self.chance = random.Random(seed)
        self.choose = self.chance.choice
        self.stages = {}
        self.done = self.commits.block
        self.sent = defaultdict(bytes)
        self.letters = []
        self.printed = ""

    def append(self, *ranges):
        """Accept messages, each range of them a source and its payloads, as one block."""
        taken = []
        for source, payloads in ranges:
            with LogWriter(self.folder / source) as log:
                first = log.end
                taken.append(Range(self.plan.sources.index(source), first, log.append(payloads)))
        self.sequence.append(0, 1, tuple(taken))

    def run(self, *ranges):
        """Accept messages as one block, compute it, and return what each sink is sent by it."""
        if ranges:
            self.append(*ranges)
        before = {route: len(data) for route, data in self.sent.items()}
        for block in self.sequence.read_from(self.done):
            self.compute(block)
            self.done = block.number + 1
        return {
            route: data[before.get(route, 0) :].decode().splitlines()
            for route, data in self.sent.items()
            if len(data) > before.get(route, 0)
        }

    def compute(self, block):
        for chunk in self.chunks_of(block):
            if chunk.route >= 0:
                self.sent[chunk.route] += chunk.body
                assert len(chunk.marks) == chunk.number
                assert sum(chunk.marks) == len(chunk.body)
            elif chunk.route == DEAD_LETTERS:
                self.letters += load_records(chunk.body)
            elif chunk.route == PRINTED:
                self.printed += bytes(chunk.body).decode()

    def chunks_of(self, block):
        """Compute a block, and return what reaches the driver, in its order."""
        levels = len(self.plan.layout.levels)
        shares = self.run_first(block, self.partitions if levels else 1)
        incoming = [[pack_share(share)] for share in shares]
        for level in range(levels):
            outgoing = [[] for _ in range(self.partitions)]
            for partition, mine in enumerate(incoming):
                onward = self.run_stage(level, partition, block, map(unpack_share, mine))
                for target, share in enumerate(onward):
                    outgoing[target].append(pack_share(share))
            incoming = outgoing
        chunks = [chunk for mine in incoming for share in mine for chunk in unpack_share(share)]
        return sorted(chunks, key=lambda chunk: (chunk.route, chunk.part))

    def run_first(self, block, partitions):
        return self.choose(self.workers).run_first(block, partitions)

    def run_stage(self, level, partition, block, shares):
        return self.stage(level, partition).run(shares)

    def stage(self, level, partition):
        if (level, partition) not in self.stages:
            heads = {name: head for name, head in self.commits.heads.items() if self.owner(name) == (level, partition)}
            files = StateFiles(self.folder / "states", heads)
            stage = self.choose(self.workers).open_stage(level, partition, self.partitions, files)
            self.stages[level, partition] = (stage, files)
        return self.stages[level, partition][0]

    def owner(self, name):
        return self.plan.layout.states[name[0]].level, self.plan.placement(name[0], self.partitions)(name[1])

    def commit(self):
        """End the epoch; the tasks continue."""
        changed = {}
        for stage, files in self.stages.values():
            self.letters += stage.end()
            changed.update(files.changed())
            files.begin_epoch()
        self.commits.commit(self.done, changed, {})

    def crash(self):
        """Discard everything that is not committed; the next tasks may run in other processes."""
        self.end_tasks()
        self.done = self.commits.block
        self.sent.clear()
        self.letters.clear()

    def end_tasks(self):
        for _, files in self.stages.values():
            files.close()
        self.stages.clear()

    def restart(self, **changes):
        """Continue as the next run of the application."""
        self.end_tasks()
        self.sequence.close()
        return Blocks(self.plan, self.folder, workers=len(self.workers), **changes)


def outputs_of(blocks):
    return Counter({route: data.decode().splitlines() for route, data in blocks.sent.items()})
