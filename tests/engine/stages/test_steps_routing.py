"""Branches and chosen sinks in blocks: outputs, keys, positions of what fails, and letters that are put back."""

import gc
import json
import random
import re
from collections import Counter, defaultdict

import pytest
from tests.engine.blocks import Blocks
from tests.engine.query import Query

import wallaroo
from wallaroo import testing
from wallaroo.engine.stages.dead_letter_replay import NoPlaceError
from wallaroo.topology.model import REPLAYS

WORDS = ["ant", "bee", "badger", "aphid", "cat", "antelope"]


@pytest.fixture(autouse=True)
def unfreeze():
    """Undo what a worker does to the garbage collector of its process."""
    yield
    gc.unfreeze()


@wallaroo.decoder
def decode(bs):
    return bs.decode()


@wallaroo.encoder
def encode(data):
    return f"{data}\n"


@wallaroo.computation_multi("split")
def split(line):
    return line.split()


@wallaroo.computation("upper")
def upper(text):
    return text.upper()


@wallaroo.key_extractor
def first_letter(text):
    return text[0].lower()


@wallaroo.state_computation("count", dict)
def count(word, seen):
    seen[word] = seen.get(word, 0) + 1
    return word, seen[word]


@wallaroo.state_computation("lines", list)
def lines_so_far(line, seen):
    seen.append(line)
    return len(seen), line


def length(word):
    return ["short", "long"][len(word) > 4]


def sink(port, name=None, encoder=encode):
    return wallaroo.TCPSinkConfig("127.0.0.1", port, encoder, name=name)


def source(name="p", decoder=decode):
    return wallaroo.source(name, wallaroo.TCPSourceConfig("127.0.0.1", 0, decoder))


def plan_of(make, application):
    return make.plan(*application.pipelines)


def animals():
    """Return an application that branches behind its source and behind a step, merges, and chooses sinks."""
    lines = source()
    words = lines.to(split)
    chosen = words.to_sinks([sink(1, "short"), sink(2, "long")], choose=length)
    counted = words.merge(words.to(upper)).key_by(first_letter).to(count).to_sink(sink(3, "counts"))
    numbered = lines.to(lines_so_far).to_sink(sink(4, "lines"))
    return wallaroo.build_application("Animals", chosen, counted, numbered)


def some_lines(number, seed=1):
    chance = random.Random(seed)
    return [" ".join(chance.choices(WORDS, k=chance.randrange(5))) for _ in range(number)]


def oracle(lines):
    """Return what each sink of `animals` has to get; the counts for each first letter."""
    expected = {"short": [], "long": [], "lines": []}
    counts, totals = defaultdict(list), Counter()
    for number, line in enumerate(lines, 1):
        for word in line.split():
            expected[length(word)].append(word)
            for each in (word, word.upper()):
                totals[each] += 1
                counts[word[0]].append(str((each, totals[each])))
        expected["lines"].append(str((number, line)))
    return expected, counts


@pytest.mark.parametrize(("partitions", "tasks"), [(1, 1), (2, 3), (3, 2)])
def test_outputs_are_those_of_plain_python_whatever_the_layout(make, tmp_path, partitions, tasks):
    query = Query(plan_of(make, animals()), tmp_path, workers=2, partitions=partitions)
    sent = defaultdict(list)
    lines = some_lines(200)
    for start in range(0, 200, 50):
        query.append("p", [line.encode() for line in lines[start : start + 50]], block=7)
        for route, some in query.output(tasks=tasks).items():
            sent[query.plan.routes[route].sink.name] += some
    expected, counts = oracle(lines)
    found = defaultdict(list)
    for text in sent.pop("counts"):
        found[text[2].lower()].append(text)
    assert found == counts
    assert sent == expected


def test_memory_gives_the_same(make):
    lines = some_lines(60)
    memory = testing.InMemory(animals()).send(lines)
    expected, _ = oracle(lines)
    assert {name: list(map(str, memory.outputs(f"p[{name}]"))) for name in expected} == expected


def test_a_source_without_keys_does_not_find_those_of_another_one(make, tmp_path):
    keyed, plain = source("keyed").key_by(first_letter), source("plain")
    application = wallaroo.build_application("app", keyed.merge(plain).to(count).to_sink(sink(1)))
    blocks = Blocks(plan_of(make, application), tmp_path)
    blocks.run(("keyed", [b"ab", b"cd"]), ("plain", [b"ef"]), ("keyed", [b"ab"]), ("plain", [b"ab"]))
    blocks.commit()
    outputs = Counter(line for data in blocks.sent.values() for line in data.decode().splitlines())
    # All without a key share one state, in which there is one "ab" more.
    assert outputs == Counter(["('ab', 1)", "('cd', 1)", "('ef', 1)", "('ab', 2)", "('ab', 1)"])


def test_a_key_is_for_its_own_branch_also_when_many_messages_come_at_once(make, tmp_path):
    base = source()
    application = wallaroo.build_application(
        "app", base.key_by(first_letter).to(count).to_sink(sink(1)), base.to(lines_so_far).to_sink(sink(2))
    )
    blocks = Blocks(plan_of(make, application), tmp_path)
    sent = blocks.run(("p", [b"a", b"b", b"a", b"c"]))
    counted, numbered = (sent[route.number] for route in blocks.plan.routes if not hasattr(route, "step"))
    assert sorted(counted) == ["('a', 1)", "('a', 2)", "('b', 1)", "('c', 1)"]
    assert numbered == ["(1, 'a')", "(2, 'b')", "(3, 'a')", "(4, 'c')"]


@pytest.mark.parametrize("many", [8, 40])
def test_branches_may_lie_behind_any_number_of_steps(make, tmp_path, many):
    base = source()
    for _ in range(many):
        base = base.to(upper)
    one, other = base, base
    for _ in range(many):
        one = one.to(upper)
    choose = lambda text: text[:1]  # noqa: E731
    application = wallaroo.build_application(
        "app",
        one.to_sinks([sink(1, "A"), sink(2, "B")], choose=choose),
        other.to_sinks([sink(3, "B2"), sink(4, "A2")], choose=lambda text: f"{text[:1]}2"),
    )
    blocks = Blocks(plan_of(make, application), tmp_path)
    sent = blocks.run(("p", [b"a1", b"b1", b"a2", b"c"]))
    assert sent == {0: ["A1", "A2"], 1: ["B1"], 2: ["B1"], 3: ["A1", "A2"]}
    assert [letter["place"] for letter in blocks.letters] == ["choose 1", "choose 2"]


PLACES = ["decode", "split", "key", "state", "choose", "encode", "shout", "other"]


@pytest.fixture
def troubled(make, tmp_path):
    """Return a query for a branched program, each part of which fails for its word until it is mended."""

    def check(part, text):
        if f"!{part}" in text and not (tmp_path / "mended").exists():
            raise ValueError(text)
        return text

    decoder = wallaroo.decoder(lambda bs: check("decode", bs.decode()))
    parts = {
        "split": wallaroo.computation_multi("split")(lambda line: check("split", line).split()),
        "shout": wallaroo.computation("shout")(lambda word: check("shout", word) + "!"),
        "key": wallaroo.key_extractor(lambda word: check("key", word)[0]),
        "other key": wallaroo.key_extractor(lambda word: word[0]),
        "encode": wallaroo.encoder(lambda word: f"{check('encode', word)}\n"),
        "other": wallaroo.encoder(lambda counted: f"{check('other', counted)}\n"),
    }

    @wallaroo.state_computation("number", dict)
    def number(word, seen):
        seen[word] = seen.get(word, 0) + 1
        return f"{check('state', word)} {seen[word]}"

    words = source(decoder=decoder).to(parts["split"])
    chosen = words.to_sinks(
        [sink(1, "short", parts["encode"]), sink(2, "long", parts["encode"]), sink(3, "both", parts["encode"])],
        choose=lambda word: ["both", "short" if check("choose", word).startswith("a") else "long"],
    )
    numbered = words.to(parts["shout"]).key_by(parts["key"]).to(number)
    application = wallaroo.build_application("app", chosen, numbered.to_sink(sink(4, "numbers", parts["other"])))
    return Query(plan_of(make, application), tmp_path)


def lines_with_troubles():
    return [f"a{n}!{PLACES[n % 8]} fine b{n}!{PLACES[(5 * n + 1) % 8]} fine b{n}!key c" for n in range(24)]


def texts_of(query, *some_chunks):
    found = defaultdict(list)
    for chunk in (chunk for chunks in some_chunks for chunk in chunks if chunk.route >= 0):
        found[query.plan.routes[chunk.route].sink.name] += chunk.body.decode().splitlines()
    return {name: sorted(texts) for name, texts in found.items()}


def named(letters):
    return [{"id": f"letter{number}", **letter} for number, letter in enumerate(letters)]


def test_everything_is_there_once_after_all_letters_were_replayed(troubled, tmp_path, dead_letters):
    lines = lines_with_troubles()
    troubled.append("p", [line.encode() for line in lines])
    first = troubled.chunks()
    letters = named(dead_letters(first))
    assert {letter["place"] for letter in letters} == {
        *("decoder", "choose 1", "encoder 1", "encoder 2", "encoder 3", "encoder 4"),
        *(f"step {number}" for number in (1, 2, 3, 4)),
    }
    (tmp_path / "mended").touch()
    troubled.append(REPLAYS, [json.dumps(letter).encode() for letter in letters], block=2)
    second = troubled.chunks(tasks=3)
    assert dead_letters(second) == []
    expected, totals = defaultdict(list), Counter()
    for word in " ".join(lines).split():
        totals[word] += 1
        expected["both"].append(word)
        expected["short" if word.startswith("a") else "long"].append(word)
        expected["numbers"].append(f"{word}! {totals[word]}")
    assert texts_of(troubled, first, second) == {name: sorted(texts) for name, texts in expected.items()}


def test_every_message_that_fails_is_told_with_its_position(troubled, dead_letters):
    lines = lines_with_troubles()
    troubled.append("p", [line.encode() for line in lines], block=5)
    letters = dead_letters(troubled.chunks())
    assert len(letters) > 50
    for letter in letters:
        numbers = re.findall(r"[ab](\d+)!", letter["message"])
        assert (letter["source"], {str(letter["position"])}) == ("p", set(numbers))


def test_a_letter_whose_chooser_is_gone_is_told(troubled, make, tmp_path, dead_letters):
    troubled.append("p", [b"a!choose"])
    (letter,) = named(dead_letters(troubled.chunks()))
    assert (letter["step"], letter["place"]) == ("choose", "choose 1")
    changed = wallaroo.build_application("app", source().to(split).to_sink(sink(1)))
    (tmp_path / "changed").mkdir()
    query = Query(plan_of(make, changed), tmp_path / "changed")
    query.append(REPLAYS, [json.dumps(letter).encode()])
    (again,) = dead_letters(query.chunks())
    assert NoPlaceError.__name__ in again["error"]
    assert "pipeline 'p' has no choose number 1 any more" in again["error"]
    assert again["payload"] == letter["payload"]
