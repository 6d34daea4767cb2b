"""Whole little programs of every generation of the API, built and run in memory."""

import functools
import struct
import zlib

import pytest

import wallaroo
from wallaroo import testing

# The first generation: classes and builders.


class Text:
    def header_length(self):
        return 4

    def payload_length(self, bs):
        return struct.unpack(">I", bs)[0]

    def decode(self, bs):
        return bs.decode()


class Words:
    def name(self):
        return "words of a line"

    def compute_multi(self, line):
        return line.lower().split(" ")


class LongEnough:
    def __init__(self, length=2):
        self.length = length

    def name(self):
        return f"words of {self.length} letters or more"

    def compute(self, word):
        return word if len(word) >= self.length else None


class Tally:
    def __init__(self):
        self.seen = {}

    def add(self, word):
        self.seen[word] = self.seen.get(word, 0) + 1
        return self.seen[word]


class TallyBuilder:
    def build(self):
        return Tally()


class CountWord:
    def name(self):
        return "count a word"

    def compute(self, word, tally):
        return (word, tally.add(word)), True


class FirstLetter:
    def partition(self, word):
        return word[0]


class Line:
    def encode(self, counted):
        return "{} => {}\n".format(*counted)


TEXT = "the cat and the dog saw a cat"
COUNTED = [("the", 1), ("cat", 1), ("and", 1), ("the", 2), ("dog", 1), ("saw", 1), ("cat", 2)]


def of_classes(args, *, long_enough=LongEnough, count=None, state=None, partition=None):
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    ab = wallaroo.ApplicationBuilder("classes")
    ab.new_pipeline("lines", wallaroo.TCPSourceConfig(in_host, in_port, Text()))
    ab.to_parallel(Words)
    ab.to(long_enough)
    letters = list("abcdefghijklmnopqrstuvwxyz")
    ab.to_state_partition(count or CountWord(), state or TallyBuilder(), "tallies", partition or FirstLetter(), letters)
    ab.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, Line()))
    return ab.build()


def test_a_program_of_classes():
    assert testing.run(of_classes, [word.encode() for word in TEXT.split()]) == COUNTED
    assert testing.run(of_classes, [b"so so"], encoded=True) == [b"so => 1\n", b"so => 2\n"]


@pytest.mark.parametrize("long_enough", [LongEnough, LongEnough(), LongEnough(length=2)])
@pytest.mark.parametrize("count", [CountWord, CountWord()])
@pytest.mark.parametrize("state", [TallyBuilder, TallyBuilder(), Tally])
@pytest.mark.parametrize("partition", [FirstLetter, FirstLetter()])
def test_classes_and_objects_are_taken_everywhere(long_enough, count, state, partition):
    application = of_classes(
        ["--in", "h:1", "--out", "h:2"], long_enough=long_enough, count=count, state=state, partition=partition
    )
    assert testing.run(application, TEXT.split()) == COUNTED


def test_numbers_as_keys_and_one_state_for_all():
    class Shard:
        def partition(self, word):
            return zlib.crc32(word.encode()) % 4

    ab = wallaroo.ApplicationBuilder("numbers")
    ab.new_pipeline("lines", wallaroo.TCPSourceConfig("h", "1", Text())).to_parallel(Words)
    ab.to_state_partition_u64(CountWord(), TallyBuilder(), "shards", Shard(), [0, 1, 2, 3])
    ab.to_sink(wallaroo.TCPSinkConfig("h", "2", Line())).done()
    ab.new_pipeline("all lines", wallaroo.TCPSourceConfig("h", "3", Text())).to(Words)
    ab.to_stateful(CountWord(), TallyBuilder(), "all").to_sink(wallaroo.TCPSinkConfig("h", "2", Line()))
    memory = testing.InMemory(ab.build())
    memory.send([b"a", b"b a"], to="lines").send([b"a a", b"b"], to="all lines")
    assert memory.outputs("lines") == [("a", 1), ("b", 1), ("a", 2)]
    assert memory.outputs("all lines") == [("a", 1), ("a", 2), ("b", 1)]
    assert memory.state("all").seen == {"a": 2, "b": 1}
    assert {key for key, tally in memory.states("shards").items() if tally.seen} == {
        zlib.crc32(word) % 4 for word in (b"a", b"b")
    }


# The second generation: decorators, with the state given to the builder.


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(bs):
    return bs.decode()


@wallaroo.encoder
def encode(data):
    return f"{data}\n"


@wallaroo.computation_multi("letters")
def letters_of(text):
    return [letter if letter.isalpha() else None for letter in text]


class Votes:
    def __init__(self):
        self.votes = 0


@wallaroo.state_computation("vote")
def vote(letter, votes):
    votes.votes += 1
    return (letter, votes.votes), True


@wallaroo.state_computation_multi("vote twice")
def vote_twice(letter, votes):
    votes.votes += 2
    return [(letter, votes.votes - 1), (letter, votes.votes)], True


@wallaroo.partition
def by_letter(letter):
    return letter


@wallaroo.partition
def by_number_of_letter(letter):
    return ord(letter)


def in_config(port="1"):
    return wallaroo.TCPSourceConfig("127.0.0.1", port, decode)


def out_config(port="9"):
    return wallaroo.TCPSinkConfig("127.0.0.1", port, encode)


def votes(computation=vote, partition=by_letter, *keys):
    ab = wallaroo.ApplicationBuilder("votes").new_pipeline("texts", in_config()).to_parallel(letters_of)
    ab.to_state_partition(computation, Votes, "votes", partition, *keys)
    return ab.to_sink(out_config()).build()


@pytest.mark.parametrize("keys", [(), ([],), (None,), (["a", "b"],)])
def test_a_program_of_decorated_functions(keys):
    assert testing.run(votes(vote, by_letter, *keys), [b"ab!", b"a"]) == [("a", 1), ("b", 1), ("a", 2)]
    assert testing.run(votes(vote_twice, by_letter, *keys), ["b", "a"]) == [("b", 1), ("b", 2), ("a", 1), ("a", 2)]


def test_integer_keys_become_characters_if_characters_are_listed():
    memory = testing.InMemory(votes(vote, by_number_of_letter, ["a", "b"]))
    memory.send(["ab", "a"])
    assert memory.outputs() == [("a", 1), ("b", 1), ("a", 2)]
    assert set(memory.states("votes")) == {"a", "b"}


def test_numbers_are_numbers_where_numbers_are_listed_or_nothing_is():
    for keys in ([97, 98],), ():
        memory = testing.InMemory(votes(vote, by_number_of_letter, *keys)).send(["aba"])
        assert set(memory.states("votes")) == {97, 98}


def test_keys_that_are_not_listed_make_states():
    memory = testing.InMemory(votes(vote, by_letter, ["a"])).send(["azaz"])
    assert sorted(memory.outputs()) == [("a", 1), ("a", 2), ("z", 1), ("z", 2)]
    assert set(memory.states("votes")) == {"a", "z"}


def test_keys_that_are_not_listed_are_errors_on_request():
    memory = testing.InMemory(votes(vote, by_letter, ["a"]), keep_errors=True, strict_keys=True).send(["aza"])
    assert memory.outputs() == [("a", 1), ("a", 2)]
    (error,) = memory.errors
    assert (error["step"], error["key"]) == ("vote", "'z'")


def test_several_sinks_of_a_builder():
    ab = wallaroo.ApplicationBuilder("two sinks").new_pipeline("texts", in_config())
    ab.to(letters_of).to_sinks([out_config(), out_config("8")])
    assert testing.run_all(ab.build(), ["ab"]) == {"texts[0]": ["a", "b"], "texts[1]": ["a", "b"]}


# The third generation: pipelines that are chained.


@wallaroo.state_computation("count", state=Votes)
def count(letter, state):
    state.votes += 1
    return letter, state.votes


@wallaroo.state_computation_multi("count down", Votes)
def count_down(letter, state):
    state.votes += 1
    return [(letter, number) for number in range(state.votes, 0, -1)]


@wallaroo.key_extractor
def letter_as_key(letter):
    return letter


@wallaroo.computation("upper")
def upper(text):
    return text.upper()


def test_a_chained_program():
    def application_setup(args):
        in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
        out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
        texts = wallaroo.source("texts", wallaroo.TCPSourceConfig(in_host, in_port, decode, parallelism=4))
        pipeline = (
            texts.to(letters_of)
            .to(upper)
            .key_by(letter_as_key)
            .to(count)
            .to_sink(wallaroo.TCPSinkConfig(out_host, out_port, encode))
        )
        return wallaroo.build_application("chained", pipeline)

    assert testing.run(application_setup, [b"ab!", b"a"]) == [("A", 1), ("B", 1), ("A", 2)]
    assert testing.run(application_setup, [b"b"], encoded=True) == [b"('B', 1)\n"]


def chained(*steps):
    """Return an application of one pipeline; a step is a computation or, as a list, what gives the key."""
    pipeline = wallaroo.source("texts", in_config())
    for step in steps:
        pipeline = pipeline.key_by(*step) if isinstance(step, list) else pipeline.to(step)
    return wallaroo.build_application("chained", pipeline.to_sink(out_config()))


def test_without_a_key_all_messages_share_one_state():
    memory = testing.InMemory(chained(letters_of, count)).send(["ab"])
    assert memory.outputs() == [("a", 1), ("b", 2)]
    assert set(memory.states("count")) == {None}


def test_messages_keep_their_key_until_it_is_changed():
    @wallaroo.state_computation("again", Votes)
    def again(counted, state):
        state.votes += 1
        return *counted, state.votes

    assert testing.run(chained(letters_of, [letter_as_key], count_down, again), ["aab"]) == [
        ("a", 1, 1), ("a", 2, 2), ("a", 1, 3), ("b", 1, 1),
    ]  # fmt: skip
    texts = wallaroo.source("texts", in_config()).to(letters_of)
    collected = texts.key_by(letter_as_key).to(count).collect().to(again).to_sink(out_config())
    assert testing.run(wallaroo.build_application("collected", collected), ["aab"]) == [
        ("a", 1, 1), ("a", 2, 2), ("b", 1, 3),
    ]  # fmt: skip


class LetterOfPair:
    """Has both methods; the newer one is for `key_by`, the older one for `to_state_partition`."""

    def extract_key(self, letter):
        return letter

    def partition(self, letter):
        return "p"


class OwnLetter:
    def extract_key(self, letter):
        return letter


@pytest.mark.parametrize(
    "extractor",
    [letter_as_key, by_letter, FirstLetter, FirstLetter(), OwnLetter, OwnLetter(), LetterOfPair, LetterOfPair()],
)
def test_keys_of_every_generation(extractor):
    assert testing.run(chained(letters_of, [extractor], count), ["ab", "a"]) == [("a", 1), ("b", 1), ("a", 2)]


class VotesBuilder:
    def build(self):
        return Votes()


@pytest.mark.parametrize("state", [Votes, VotesBuilder, VotesBuilder(), functools.partial(Votes)])
def test_the_state_of_a_decorator_may_be_made_in_any_way(state):
    def add(letter, votes):
        votes.votes += 1
        return votes.votes

    assert testing.run(chained(letters_of, wallaroo.state_computation("add", state)(add)), ["aa"]) == [1, 2]


def test_an_output_alone_may_be_a_pair_or_nothing():
    @wallaroo.state_computation("pairs", dict)
    def pairs(text, state):
        state[text] = True
        return (text, False) if len(state) > 1 else None

    assert testing.run(chained(pairs), ["a", "b"]) == [("b", False)]


def test_classes_in_a_chain():
    assert testing.run(chained(Words, LongEnough()), ["a bc DEF"]) == ["bc", "def"]


# The fourth: names in front.


def test_a_program_with_names_in_its_addresses():
    def application_setup(args):
        in_name, in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
        out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
        config = wallaroo.TCPSourceConfig(in_name, in_host, in_port, decode)
        pipeline = wallaroo.source(in_name, config).to(upper)
        return wallaroo.build_application("named", pipeline.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, encode)))

    args = ["--in", "texts@127.0.0.1:7010", "--out", "127.0.0.1:7002"]
    assert testing.run(application_setup, {"texts": ["a"]}, args=args) == ["A"]


class PowersOfTwo:
    def initial_value(self):
        return 1

    def apply(self, v):
        return v * 2


@pytest.mark.parametrize("arguments", [(PowersOfTwo(),), ("powers", PowersOfTwo)])
def test_a_program_that_generates_its_messages(arguments):
    config = wallaroo.GenSourceConfig(*arguments)
    pipeline = wallaroo.source("powers", config).to_sink(out_config())
    builder = wallaroo.ApplicationBuilder("generated").new_pipeline("powers", config).to_sink(out_config())
    for application in wallaroo.build_application("generated", pipeline), builder.build():
        # Here, what the generator makes is given by hand: as it stands in the log, or as it is.
        assert testing.run(application, [wallaroo.serialize(1), 2]) == [1, 2]


# Generations mixed in one application.


def test_a_state_that_comes_with_its_computation_in_a_builder():
    ab = wallaroo.ApplicationBuilder("mixed").new_pipeline("texts", in_config())
    ab.to(letters_of).to(count).to_sink(out_config())
    assert testing.run(ab.build(), ["ab"]) == [("a", 1), ("b", 2)]


def test_both_kinds_of_state_computations_share_a_state():
    ab = wallaroo.ApplicationBuilder("mixed")
    ab.new_pipeline("one", in_config()).to_state_partition(vote, Votes, "count", wallaroo.partition(lambda _: None))
    ab.to_sink(out_config()).new_pipeline("other", in_config("2")).to(count).to_sink(out_config())
    memory = testing.InMemory(ab.build()).send(["x"], to="one").send(["y"], to="other").send(["z"], to="one")
    assert memory.outputs("one") == [("x", 1), ("z", 3)]
    assert memory.outputs("other") == [("y", 2)]


def test_an_extractor_as_a_partition_and_a_partition_as_an_extractor():
    ab = wallaroo.ApplicationBuilder("mixed").new_pipeline("texts", in_config()).to(letters_of)
    ab.to_state_partition(vote, Votes, "votes", letter_as_key, ["a", "b"]).to_sink(out_config())
    assert testing.run(ab.build(), ["ab", "a"]) == [("a", 1), ("b", 1), ("a", 2)]
    assert testing.run(chained(letters_of, [by_letter], count), ["ab", "a"]) == [("a", 1), ("b", 1), ("a", 2)]


def test_the_older_method_is_called_by_the_older_api():
    memory = testing.InMemory(votes(vote, LetterOfPair)).send(["ab"])
    assert set(memory.states("votes")) == {"p"}
