"""The stored states: tasks that fail, attempts that never commit and restarts, compared with plain dictionaries."""

import copy
import random

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from wallaroo.engine.stages.live_state import MemoryStore, StateLog
from wallaroo.engine.state_manifest import BucketHead
from wallaroo.engine.transport.serializer import Serializer

KEYS = [*"abcdefgh", None, 1, ("a", 2)]
blocks = st.dictionaries(st.sampled_from(KEYS), st.tuples(st.booleans(), st.integers(0, 400)), max_size=5)


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


class TaskAfterTask(RuleBasedStateMachine):
    """A task has the live objects of one bucket until it fails, and another one continues from what is committed."""

    @initialize()
    def begin(self):
        self.store = MemoryStore()
        self.bucket = None
        self.model = {}
        self.durable = {}
        self.stamp = 0
        self.runs = 0
        self.log = StateLog(Serializer(), "run 0")

    def opened(self):
        if self.bucket is None:
            self.bucket = self.log.open(self.store)
        assert self.bucket.objects == self.model
        return self.bucket

    def compute(self, block, store):
        self.stamp += 1
        saved = change(self.bucket, block, self.stamp)
        self.log.save(self.bucket, store, saved, set(block))

    @rule(block=blocks)
    def run_block(self, block):
        bucket = self.opened()
        self.compute(block, self.store)
        self.model = copy.deepcopy(bucket.objects)
        self.durable.update({key: self.model[key] for key, (save, _) in block.items() if save})

    @rule(block=blocks, times=st.integers(60, 70))
    def run_many_blocks(self, block, times):
        for _ in range(times):
            self.run_block(block)

    @rule(block=blocks, times=st.integers(1, 3))
    def fail_after_saving(self, block, times):
        """What the task has written is never committed."""
        self.opened()
        aside = copy.deepcopy(self.store)
        for _ in range(times):
            self.compute(block, aside)
        self.bucket = None

    @rule(block=blocks)
    def fail_half_way(self, block):
        change(self.opened(), block, "half-way")
        self.bucket = None

    @rule()
    def start_again(self):
        self.runs += 1
        self.log = StateLog(Serializer(), f"run {self.runs}")
        self.bucket = None
        self.model = copy.deepcopy(self.durable)
        assert self.log.open(self.store).objects == self.model

    @invariant()
    def another_task_finds_everything(self):
        fresh = self.log.open(self.store)
        assert fresh.objects == self.model
        assert fresh.unsaved == {key for key in self.model if self.durable.get(key) != self.model[key]}

    @invariant()
    def another_run_would_find_what_was_saved(self):
        assert StateLog(Serializer(), "another run").open(self.store).objects == self.durable

    @invariant()
    def nothing_is_left_behind(self):
        assert [(number, len(data)) for number, data in sorted(self.store.entries.items())] == committed_entries(
            self.store
        )
        assert len(self.store.entries) < 30


TaskAfterTask.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestTaskAfterTask = TaskAfterTask.TestCase


def run_many(choose, rounds, store=None):
    """Run `rounds` blocks of the keys that `choose` picks; return the log, the store, the states and what it cost."""
    log, store = StateLog(Serializer(), "run"), store or CountingStore()
    bucket = log.open(store)
    most = changed = 0
    for stamp in range(rounds):
        keys, size = choose(stamp)
        states = {key: (stamp, str(stamp) * (size // len(str(stamp)))) for key in keys}
        bucket.objects.update(states)
        changed += len(Serializer().dump_states(states))
        log.save(bucket, store, set(keys), set(keys))
        most = max(most, len(store.entries))
    return log, store, bucket, most, changed


def check(log, store, bucket):
    assert log.open(store).objects == bucket.objects
    assert sorted(store.entries) == [number for number, _ in committed_entries(store)]


def test_few_entries_for_any_history():
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
    bucket = log.open(store)
    for stamp in range(2000):
        bucket.objects[stamp % 50] = stamp
        bucket.objects["saved"] = stamp
        log.save(bucket, store, {"saved"} if stamp % 100 == 0 else set(), {stamp % 50, "saved"})
    check(log, store, bucket)
    assert len(store.entries) < 20
    again = StateLog(Serializer(), "next run")
    bucket = again.open(store)
    assert bucket.objects == {"saved": 1900}
    for stamp in range(20):
        bucket.objects["saved"] = stamp
        again.save(bucket, store, {"saved"}, {"saved"})
    assert sum(map(len, store.entries.values())) < 500


def test_a_block_that_changes_nothing_makes_a_version_without_an_entry():
    log, store = StateLog(Serializer(), "run"), MemoryStore()
    bucket = log.open(store)
    log.save(bucket, store, set(), set())
    assert store.entries == {}
    assert log.open(store).version == bucket.version == 1


def test_the_head_of_an_earlier_version_can_be_read():
    assert BucketHead.load(b'[2, ["00ff", "0aff"], [[1, 70], [2, 5]]]') == BucketHead(2, [(1, 70), (2, 5)])


def test_states_come_back_as_fresh_copies():
    log, store = StateLog(Serializer(), "run"), MemoryStore()
    bucket = log.open(store)
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
    bucket = log.open(store)
    for stamp, block in enumerate(blocks):
        log.save(bucket, store, change(bucket, block, stamp), set(block))
    fresh = log.open(store)
    assert fresh.objects == bucket.objects
    assert fresh.unsaved == bucket.unsaved
