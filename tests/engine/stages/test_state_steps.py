"""State computations: outputs and states as if the messages that failed had never come."""

import copy
import threading
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.outbox_chunks import taken

from wallaroo.engine.stages.live_state import MemoryStore, StateLog
from wallaroo.engine.stages.outbox import Outbox
from wallaroo.engine.stages.state_steps import BucketRun, CutOffError, StateStep
from wallaroo.engine.transport.packing import Stream
from wallaroo.introspection import a_type_of


class AsItIs:
    """A chunk of which only its messages are known."""

    name = ()

    def __init__(self, messages):
        self._messages = messages

    def message(self, key, index):
        return self._messages[key][index]

    def origin(self, _key, _index):
        return {}


class Machine:
    """One bucket of one state, its store, and the steps that work on it."""

    def __init__(self, make, function, *, state=list, multi=False, run_id="run", stream=Stream):
        step = make.state_step(function, make=state, multi=multi)
        self.outputs = []
        # An encoder that returns None sends nothing: it only records the output.
        self.plan = make.plan(make.pipeline("p", step, encoders=[self.outputs.append]))
        self.outbox = Outbox(self.plan)
        self.step = StateStep(self.plan, self.plan.routes[0], self.outbox)
        self.store = MemoryStore()
        self.live = None
        self._stream = stream
        self.start_run(run_id)

    def start_run(self, run_id):
        self.log = StateLog(self.plan.serializer, run_id)
        self.live = None

    def block(self, *chunks):
        """Run chunks of `{key: messages}` as one block and return the outputs."""
        self.outputs.clear()
        run = BucketRun(self.log, self.store, self.live or self.log.open(self.store))
        for chunk in chunks:
            messages = self._stream(list(chain.from_iterable(chunk.values())))
            run.run(self.step, {key: len(some) for key, some in chunk.items()}, AsItIs(chunk), messages)
        run.save()
        self.live = run.bucket
        return list(self.outputs)

    @property
    def states(self):
        """Return the live states, which are the same that another worker would find."""
        assert self.log.open(self.store).objects == self.live.objects
        return self.live.objects

    def saved(self):
        """Return the states that the next run will find."""
        return StateLog(self.plan.serializer, "the next run").open(self.store).objects


def made_one_by_one(messages):
    """Return a stream of messages that do not exist until they are taken, as those that travel in columns."""
    counter = iter(messages)
    return Stream(None, (message for message in counter), counter)


@pytest.fixture(scope="session", name="machine", params=[Stream, made_one_by_one])
def machine_fixture(make, request):
    return lambda function, **options: Machine(make, function, stream=request.param, **options)


@pytest.fixture(scope="session")
def failed(dead_letters):
    """Return a function from a machine to its dead letters, as (message, error)."""
    return lambda machine: [
        (record["message"], record["error"].rpartition(".")[2]) for record in dead_letters(taken(machine.outbox))
    ]


def collect(message, state):
    """Add the message to the state; one that says "fail" fails when the state is already changed."""
    state.append(message)
    if "fail" in str(message):
        state.clear()
        raise ValueError(message)
    if message == "shape":
        return message
    return (message, len(state)), message != "unsaved"


@pytest.mark.parametrize(
    "messages",
    [
        ["fail", "a", "b"],
        ["a", "fail", "b"],
        ["a", "b", "fail"],
        ["fail"],
        ["fail", "fail", "a", "fail", "b", "fail", "c"],
        ["a", "shape", "b", "shape", "fail"],
    ],
)
@pytest.mark.parametrize("before", [[], ["x", "y"]])
def test_failing_messages_leave_no_trace(machine, failed, messages, before):
    good = [message for message in messages if message not in {"fail", "shape"}]
    tried, expected = machine(collect), machine(collect)
    assert tried.block({"k": before}) == expected.block({"k": before})
    assert tried.block({"k": messages, "other": ["z"]}) == expected.block({"k": good, "other": ["z"]})
    assert tried.states == {**expected.states, "k": before + good}
    assert tried.block({"k": ["after"]}) == expected.block({"k": ["after"]})
    assert [message for message, _ in failed(tried)] == [repr(m) for m in messages if m in {"fail", "shape"}]
    assert tried.saved() == expected.saved()


class Neither:
    def __bool__(self):
        raise ValueError("neither true nor false")


@pytest.mark.parametrize("save", ["word", 0, 1, None, Neither(), np.array([True])])
def test_a_save_state_that_is_no_bool_is_a_failure(machine, dead_letters, save):
    def compute(message, state):
        state.append(message)
        return message, save if message == "bad" else True

    tried = machine(compute)
    assert tried.block({"k": ["a", "bad", "b", "bad", "c"]}) == ["a", "b", "c"]
    assert tried.states == tried.saved() == {"k": ["a", "b", "c"]}
    records = dead_letters(taken(tried.outbox))
    assert [record["message"] for record in records] == ["'bad'"] * 2
    for record in records:
        assert f"expected True or False for save_state, got {a_type_of(save)}: " in record["error"]
        assert "Write `return output, True`" in record["error"]


@pytest.mark.parametrize("before", [[], ["fail"]])
def test_a_bool_of_numpy_is_a_save_state(machine, before):
    def compute(message, state):
        if message == "fail":
            raise ValueError(message)
        state.append(message)
        return message, np.int64(message) > 1

    tried = machine(compute)
    assert tried.block({"k": [*before, 1], "j": [*before, 2]}) == [1, 2]
    assert tried.states == {"k": [1], "j": [2]}
    assert tried.saved() == {"j": [2]}


def test_a_failure_in_a_later_chunk_keeps_what_the_earlier_ones_did(machine, failed):
    tried = machine(collect)
    tried.block({"k": ["0"]})
    outputs = tried.block({"k": ["a", "b"]}, {"j": ["x"], "k": ["c", "fail 1", "d"]}, {"k": ["fail 2", "e"]})
    assert outputs == [("a", 2), ("b", 3), ("x", 1), ("c", 4), ("d", 5), ("e", 6)]
    assert tried.states == {"k": ["0", *"abcde"], "j": ["x"]}
    assert failed(tried) == [("'fail 1'", "ValueError: fail 1"), ("'fail 2'", "ValueError: fail 2")]


@pytest.mark.parametrize("first", ["whole", "failed before"])
@pytest.mark.parametrize("result", [None, 7, "ok", "out", [1, True], (), (1,), (1, 2, 3), {1: 2, 3: 4}])
def test_results_of_the_wrong_shape_are_failures(machine, dead_letters, result, first):
    def compute(message, state):
        state.append(message)
        return result if message == "bad" else (message, True)

    tried = machine(compute)
    before = ["bad"] if first == "failed before" else []
    assert tried.block({"k": [*before, "a", "bad", "b"]}) == ["a", "b"]
    assert tried.states == {"k": ["a", "b"]}
    for record in dead_letters(taken(tried.outbox)):
        assert record["message"] == "'bad'"
        assert record["key"] == "'k'"
        assert "expected a tuple (output, save_state)" in record["error"]


@pytest.mark.parametrize("result", ["ab", 7, {"a": 1}, iter([1]), (item for item in "ab")])
def test_multi_steps_must_give_lists(machine, dead_letters, result):
    def compute(message, state):
        state.append(message)
        return (result if message == "bad" else [message, None, message]), True

    tried = machine(compute, multi=True)
    assert tried.block({"k": ["a", "bad", "b", "bad", "c"]}) == list("aabbcc")
    assert tried.states == {"k": ["a", "b", "c"]}
    records = dead_letters(taken(tried.outbox))
    assert len(records) == 2
    for record in records:
        assert f"expected a list of results or None, got {a_type_of(result)}" in record["error"]


def test_multi_steps_may_give_lists_tuples_and_none(machine):
    results = {"list": [1, None, 2], "tuple": (3, 4), "none": None, "empty": []}
    tried = machine(lambda message, state: (results[message], True), multi=True)
    assert tried.block({"k": list(results)}) == [1, 2, 3, 4]


def test_none_is_no_output(machine):
    tried = machine(lambda message, state: (message or None, True))
    assert tried.block({"k": [1, 0, 2]}) == [1, 2]


def test_a_state_that_cannot_be_made_fails_its_messages(machine, failed):
    broken = [True]

    def state():
        if broken[0]:
            raise RuntimeError("no state today")
        return []

    tried = machine(collect, state=state)
    assert tried.block({"k": ["a", "b"], "j": ["c"]}, {"k": ["d"]}) == []
    assert tried.states == {}
    assert failed(tried) == [(repr(message), "RuntimeError: no state today") for message in "abcd"]
    broken[0] = False
    assert tried.block({"k": ["e"]}) == [("e", 1)]


def test_a_state_of_none_is_refused_clearly(machine, failed):
    tried = machine(collect, state=lambda: None)
    assert tried.block({"k": ["a"]}) == []
    assert failed(tried) == [("'a'", "ValueError: making a state for 'state' gave None")]


class TestUnpicklableStates:
    """A state that cannot be serialised fails with the messages of the block that made it so."""

    @staticmethod
    def compute(message, state):
        if "fail" in message:
            raise ValueError(message)
        state.append(threading.Lock() if message == "lock" else message)
        return message, "unsaved" not in message

    def test_the_key_goes_back_to_what_it_was(self, machine, failed):
        tried = machine(self.compute)
        tried.block({"k": ["a"], "j": ["b"]})
        tried.block({"k": ["c", "lock"], "j": ["d"]}, {"new": ["lock"]})
        assert tried.states == {"k": ["a"], "j": ["b", "d"]}
        assert sorted(message for message, _ in failed(tried)) == ["'c'", "'lock'", "'lock'"]
        tried.block({"k": ["e"], "new": ["f"]})
        assert tried.states == tried.saved() == {"k": ["a", "e"], "j": ["b", "d"], "new": ["f"]}

    def test_a_message_that_had_failed_already_fails_once(self, machine, failed):
        tried = machine(self.compute)
        tried.block({"k": ["a"]})
        tried.block({"k": ["fail 1", "b", "fail 2", "lock", "fail 3"]})
        assert tried.states == {"k": ["a"]}
        assert sorted(message for message, _ in failed(tried)) == ["'b'", "'fail 1'", "'fail 2'", "'fail 3'", "'lock'"]

    def test_what_was_not_saved_before_stays_unsaved(self, machine):
        tried = machine(self.compute)
        tried.block({"k": ["a"], "j": ["a"]})
        tried.block({"k": ["unsaved"]})
        tried.block({"k": ["lock"], "j": ["b"]})
        assert tried.states == {"k": ["a", "unsaved"], "j": ["a", "b"]}
        # So many entries that they are merged: the states of all keys are written again.
        for number in range(20):
            tried.block({f"key {number}": ["x"]})
        assert tried.saved()["k"] == ["a"]

    def test_a_state_that_cannot_be_copied_is_made_again_from_its_messages(self, machine, failed):
        def compute(message, state):
            state.append(threading.Lock() if message == "lock" else message)
            if message == "unlock":
                state[:] = [item for item in state if isinstance(item, str)]
            if message == "fail":
                raise ValueError
            return message, True

        tried = machine(compute)
        tried.block({"k": ["a", "lock", "fail", "b", "fail", "unlock"]})
        assert tried.states == {"k": ["a", "b", "unlock"]}
        assert len(failed(tried)) == 2

    def test_errors_of_user_code_are_not_mistaken_for_a_failing_disk(self, machine, failed):
        tried = machine(self.compute)
        tried.store = FullStore()
        with pytest.raises(OSError, match="No space left"):
            tried.block({"k": ["a"]})
        assert (failed(tried), tried.store.tries) == ([], 1)

        tried = machine(lambda message, state: (state.append(NoFile()), True))
        tried.block({"k": ["a"]})
        assert [message for message, _ in failed(tried)] == ["'a'"]


class FullStore(MemoryStore):
    """A store on a full disk."""

    tries = 0

    def write_entry(self, number, data):
        self.tries += 1
        raise OSError(28, "No space left on device")


class NoFile:
    def __reduce__(self):
        raise OSError(28, "No space left on device")


class TestSaveStateFalse:
    def test_the_change_lasts_for_this_run_only(self, machine):
        tried = machine(collect)
        tried.block({"k": ["a"], "j": ["unsaved"]})
        tried.block({"k": ["unsaved"]})
        assert tried.states == {"k": ["a", "unsaved"], "j": ["unsaved"]}
        assert tried.saved() == {"k": ["a"]}
        tried.start_run("another run")
        assert tried.block({"k": ["b"], "j": ["c"]}) == [("b", 2), ("c", 1)]

    def test_a_later_save_saves_it_too(self, machine):
        tried = machine(collect)
        tried.block({"k": ["unsaved"]})
        tried.block({"k": ["a"]})
        assert tried.saved() == {"k": ["unsaved", "a"]}

    def test_one_saving_message_saves_the_state_as_it_is_after_the_block(self, machine):
        tried = machine(collect)
        tried.block({"k": ["a", "unsaved"]}, {"k": ["unsaved"]})
        assert tried.saved() == {"k": ["a", "unsaved", "unsaved"]}

    def test_a_failing_message_does_not_save(self, machine):
        tried = machine(collect)
        tried.block({"k": ["unsaved", "fail", "unsaved"]})
        assert tried.states == {"k": ["unsaved", "unsaved"]}
        assert tried.saved() == {}


words = st.sampled_from(["a", "b", "c", "unsaved", "fail", "shape"])
chunks = st.dictionaries(st.sampled_from("jkl"), st.lists(words, min_size=1, max_size=5), max_size=3)
history = st.lists(st.tuples(st.sampled_from(["go on", "move", "restart"]), st.lists(chunks, max_size=3)), max_size=8)


@settings(max_examples=150, deadline=None)
@given(history)
def test_as_if_the_failing_messages_had_never_come(machine, history):
    tried = machine(collect)
    states, durable = {}, {}
    for number, (event, block) in enumerate(history):
        if event == "restart":
            tried.start_run(f"run {number}")
            states = copy.deepcopy(durable)
        elif event == "move":
            tried.live = None
        expected, save = [], set()
        for chunk in block:
            for key, messages in chunk.items():
                for message in messages:
                    if message not in {"fail", "shape"}:
                        states.setdefault(key, []).append(message)
                        expected.append((message, len(states[key])))
                        save |= {key} if message != "unsaved" else set()
        durable.update({key: list(states[key]) for key in save})
        assert tried.block(*block) == expected
        assert {key: state for key, state in tried.states.items() if state} == states
        assert tried.saved() == durable


def test_messages_that_cannot_be_made_are_not_forgotten(make):
    def broken(messages):
        counter = iter(messages)

        def made():
            yield next(counter)
            raise MemoryError

        return Stream(None, made(), counter)

    machine = Machine(make, collect, stream=broken)
    with pytest.raises(CutOffError):
        machine.block({"k": ["a", "b", "c"]})


def test_nor_are_messages_of_other_keys(make):
    def broken(messages):
        counter = iter(messages)

        def made():
            for message in counter:
                if message == "b":
                    raise MemoryError
                yield message

        return Stream(None, made(), counter)

    machine = Machine(make, collect, stream=broken)
    # The one that cannot be made is the last of its key, and none remains to be made for it.
    with pytest.raises(CutOffError):
        machine.block({"k": ["a", "b"], "l": ["c"]})
