"""The state log: workers that lag, attempts that never commit and restarts, all against plain dictionaries."""

import copy
import random

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from wallaroo.engine.stages.live_state import MemoryStore, StateLog
from wallaroo.engine.state_heads import BucketHead
from wallaroo.engine.transport.serializer import Serializer

WORKERS = 3
KEYS = [*"abcdefgh", None, 1, ("a", 2)]
blocks = st.dictionaries(st.sampled_from(KEYS), st.tuples(st.booleans(), st.integers(0, 400)), max_size=5)
workers = st.integers(0, WORKERS - 1)


def committed_entries(store):
    return BucketHead.load(store.head).entries


class CountingStore(MemoryStore):
    """A store that knows how much was written to it."""

    def __init__(self):
        super().__init__()
        self.written = 0

    def write_entry(self, number, data):
        self.written += len(data)
        super().write_entry(number, data)


def change(bucket, block, stamp):
    """Change the live objects in place, as user code does; return the keys that are to be saved."""
    for key, (_, size) in block.items():
        bucket.objects.setdefault(key, []).append((stamp, "x" * size))
        del bucket.objects[key][:-3]
    return {key for key, (save, _) in block.items() if save}


class LaggingWorkers(RuleBasedStateMachine):
    """Several workers hold live copies of one bucket; any of them may get the next block."""

    @initialize()
    def begin(self):
        self.store = MemoryStore()
        self.live = {}
        self.model = {}
        self.durable = {}
        self.stamp = 0
        self.runs = 0
        self.log = StateLog(Serializer(), "run 0")

    def attempt(self, worker, block, store):
        self.stamp += 1
        bucket = self.log.open(store, self.live.pop(worker, None))
        assert bucket.objects == self.model
        saved = change(bucket, block, self.stamp)
        self.log.save(bucket, store, saved, set(block))
        self.live[worker] = bucket
        return bucket

    @rule(worker=workers, block=blocks)
    def run_block(self, worker, block):
        bucket = self.attempt(worker, block, self.store)
        self.model = copy.deepcopy(bucket.objects)
        self.durable.update({key: self.model[key] for key, (save, _) in block.items() if save})

    @rule(worker=workers, block=blocks, times=st.integers(60, 70))
    def leave_the_others_far_behind(self, worker, block, times):
        for _ in range(times):
            self.run_block(worker, block)

    @rule(worker=workers, block=blocks, times=st.integers(1, 3))
    def fail_after_saving(self, worker, block, times):
        """The worker keeps what it made, but the block is never committed."""
        before = copy.deepcopy(self.model)
        aside = copy.deepcopy(self.store)
        for _ in range(times):
            bucket = self.attempt(worker, block, aside)
            self.model = copy.deepcopy(bucket.objects)
        self.model = before

    @rule(worker=workers, block=blocks)
    def fail_half_way(self, worker, block):
        """The worker had taken its live copy out before it began to change it."""
        bucket = self.log.open(self.store, self.live.pop(worker, None))
        change(bucket, block, "half-way")

    @rule(worker=workers)
    def look(self, worker):
        bucket = self.log.open(self.store, self.live.pop(worker, None))
        assert bucket.objects == self.model
        self.live[worker] = bucket

    @rule()
    def start_again(self):
        self.runs += 1
        self.log = StateLog(Serializer(), f"run {self.runs}")
        self.live.clear()
        self.model = copy.deepcopy(self.durable)
        assert self.log.open(self.store, None).objects == self.model

    @invariant()
    def a_fresh_worker_finds_everything(self):
        fresh = self.log.open(self.store, None)
        assert fresh.objects == self.model
        assert fresh.unsaved == {key for key in self.model if self.durable.get(key) != self.model[key]}

    @invariant()
    def another_run_would_find_what_was_saved(self):
        assert StateLog(Serializer(), "another run").open(self.store, None).objects == self.durable

    @invariant()
    def nothing_is_left_behind(self):
        assert [(number, len(data)) for number, data in sorted(self.store.entries.items())] == committed_entries(
            self.store
        )
        assert len(self.store.entries) < 30


LaggingWorkers.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestLaggingWorkers = LaggingWorkers.TestCase


def run_many(choose, rounds, store=None):
    """Run `rounds` blocks of the keys that `choose` picks; return the log, the store, the states and what it cost."""
    log, store = StateLog(Serializer(), "run"), store or CountingStore()
    bucket = None
    most = changed = 0
    for stamp in range(rounds):
        bucket = log.open(store, bucket)
        keys, size = choose(stamp)
        states = {key: (stamp, str(stamp) * (size // len(str(stamp)))) for key in keys}
        bucket.objects.update(states)
        changed += len(Serializer().dump_states(states))
        log.save(bucket, store, set(keys), set(keys))
        most = max(most, len(store.entries))
    return log, store, bucket, most, changed


def check(log, store, bucket):
    assert log.open(store, None).objects == bucket.objects
    assert sorted(store.entries) == [number for number, _ in committed_entries(store)]


def test_few_entries_whatever_the_history():
    chance = random.Random(1)
    log, store, bucket, most, changed = run_many(lambda _: (chance.sample(range(2000), 3), 100), 4000)
    check(log, store, bucket)
    assert most < 60
    assert store.written < 6 * changed


def test_ever_new_keys():
    log, store, bucket, most, changed = run_many(lambda stamp: ([stamp, -stamp], 300), 4000)
    check(log, store, bucket)
    assert len(bucket.objects) == 7999
    assert most < 60
    assert store.written < 6 * changed


def test_a_few_hot_keys_stay_small():
    log, store, bucket, most, changed = run_many(lambda stamp: ([stamp % 3, "hot"], 100), 3000)
    check(log, store, bucket)
    assert most <= 8
    assert sum(map(len, store.entries.values())) < 10_000
    assert store.written < 3 * changed


def test_one_key_is_always_one_entry():
    log, store, bucket, most, changed = run_many(lambda _: (["only"], 1000), 300)
    check(log, store, bucket)
    assert most == 1
    assert store.written < 1.5 * changed


def test_blocks_of_very_different_sizes():
    chance = random.Random(2)

    def choose(_):
        return chance.sample(range(300), chance.choice([1, 1, 1, 1, 1, 100])), chance.choice([10, 10, 10, 2000])

    log, store, bucket, most, changed = run_many(choose, 3000)
    check(log, store, bucket)
    assert most < 60
    assert store.written < 6 * changed


def test_passing_states_do_not_pile_up():
    log, store = StateLog(Serializer(), "run"), CountingStore()
    bucket = None
    for stamp in range(2000):
        bucket = log.open(store, bucket)
        bucket.objects[stamp % 50] = stamp
        bucket.objects["saved"] = stamp
        log.save(bucket, store, {"saved"} if stamp % 100 == 0 else set(), {stamp % 50, "saved"})
    check(log, store, bucket)
    assert len(store.entries) < 20
    again = StateLog(Serializer(), "next run")
    bucket = again.open(store, None)
    assert bucket.objects == {"saved": 1900}
    for stamp in range(20):
        bucket.objects["saved"] = stamp
        again.save(bucket, store, {"saved"}, {"saved"})
    assert sum(map(len, store.entries.values())) < 500


def test_a_block_that_changes_nothing_makes_a_version_without_an_entry():
    log, store = StateLog(Serializer(), "run"), MemoryStore()
    bucket = log.open(store, None)
    log.save(bucket, store, set(), set())
    assert store.entries == {}
    assert log.open(store, bucket) is bucket
    assert bucket.version == 1


def test_an_exact_live_copy_reads_no_entries():
    log, store = StateLog(Serializer(), "run"), MemoryStore()
    bucket = log.open(store, None)
    bucket.objects["a"] = [1]
    log.save(bucket, store, {"a"}, {"a"})
    store.entries.clear()
    assert log.open(store, bucket).objects == {"a": [1]}


def test_an_outdated_copy_reads_only_what_it_missed():
    log, store = StateLog(Serializer(), "run"), MemoryStore()
    one = log.open(store, None)
    one.objects.update({key: [key] for key in range(100)})
    log.save(one, store, set(range(100)), set(range(100)))
    other = log.open(store, None)
    one.objects[7].append("changed")
    log.save(one, store, {7}, {7})
    kept = other.objects[8]
    (first, *_) = committed_entries(store)
    del store.entries[first[0]]
    caught_up = log.open(store, other)
    assert caught_up is other
    assert caught_up.objects[7] == [7, "changed"]
    assert caught_up.objects[8] is kept


def test_states_come_back_as_fresh_copies():
    log, store = StateLog(Serializer(), "run"), MemoryStore()
    bucket = log.open(store, None)
    bucket.objects["a"] = [1]
    log.save(bucket, store, {"a"}, {"a"})
    log.committed(store)["a"].append("not in the store")
    assert log.committed(store) == {"a": [1]}


@settings(deadline=None)
@given(st.lists(blocks, max_size=30))
def test_an_applications_own_serialisation_is_used(blocks):
    def serialize(state):
        return repr(state).encode()

    def deserialize(data):
        return eval(data)

    store = MemoryStore()
    log = StateLog(Serializer(serialize, deserialize), "run")
    bucket = log.open(store, None)
    for stamp, block in enumerate(blocks):
        log.save(bucket, store, change(bucket, block, stamp), set(block))
    fresh = log.open(store, None)
    assert fresh.objects == bucket.objects
    assert fresh.unsaved == bucket.unsaved
