"""An application whose module says itself how its messages travel."""

import wallaroo
from wallaroo import testing


@wallaroo.decoder
def decode(bs):
    return bs.decode()


@wallaroo.encoder
def encode(seen):
    return " ".join(seen)


class Word:
    """Refuses to be pickled."""

    def __init__(self, text):
        self.text = text

    def __reduce__(self):
        raise TypeError("only by the module's own functions")


def serialize(thing):
    return (thing.text if isinstance(thing, Word) else repr(thing)).encode()


def deserialize(data):
    text = data.decode()
    return eval(text) if text.startswith("[") else Word(text)


def with_own_serialisation(args):
    @wallaroo.computation("wrap")
    def wrap(text):
        return Word(text)

    @wallaroo.state_computation("collect")
    def collect(word, seen):
        seen.append(word.text)
        return tuple(seen), True

    ab = wallaroo.ApplicationBuilder("Own serialisation")
    ab.new_pipeline("words", wallaroo.TCPSourceConfig("127.0.0.1", "7010", decode))
    ab.to(wrap).to_stateful(collect, list, "seen")
    ab.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", "7002", encode))
    return ab.build()


def test_a_modules_own_serialize_and_deserialize_are_used():
    assert testing.run(with_own_serialisation, ["a", "b"]) == [("a",), ("a", "b")]
