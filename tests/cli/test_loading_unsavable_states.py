"""States that would only fail when the application runs."""

import threading

import wallaroo
from wallaroo.cli.loading import unsavable_states


class Locked:
    def __init__(self):
        self.lock = threading.Lock()


class Broken:
    def __init__(self):
        raise OSError("no such file")


def nothing():
    return None


def application(**states):
    ab = wallaroo.ApplicationBuilder("app")
    decoder = wallaroo.decoder(bytes.decode)
    for name, state in states.items():
        keep = wallaroo.state_computation(name)(lambda data, state: (data, True))
        # Two pipelines share each state.
        for pipeline in "one", "other":
            ab.new_pipeline(f"{pipeline} {name}", wallaroo.TCPSourceConfig("127.0.0.1", "0", decoder))
            ab.to_stateful(keep, state, name)
    return ab.build()


def test_states_that_can_be_made_and_saved():
    assert list(unsavable_states(application(counts=dict, words=list))) == []


def test_each_state_is_reported_once():
    mistakes = list(unsavable_states(application(locked=Locked, broken=Broken, none=nothing, fine=dict)))
    assert [mistake.partition(" (")[0].partition(". ")[0] for mistake in mistakes] == [
        "the state 'locked' cannot be saved",
        "the state 'broken' cannot be made: OSError: no such file",
        "the state 'none' is made as None: what makes it must return an object",
    ]


def test_own_functions_decide_what_is_saved():
    own = application(locked=Locked, broken=Broken)
    assert list(unsavable_states(own, own_serialize=True)) == [
        "the state 'broken' cannot be made: OSError: no such file"
    ]
