"""Branches and chosen sinks in blocks: outputs, keys, positions of what fails, and letters that are replayed."""

import base64
import gc
import json
import pickle
import random
import re
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp

import pytest
from tests.engine.blocks import Blocks
from tests.engine.outbox_chunks import taken
from tests.engine.query import Query

import wallaroo
from wallaroo import testing
from wallaroo.engine.stages.dead_letter_replay import NoPlaceError
from wallaroo.engine.stages.outbox import Outbox
from wallaroo.engine.stages.steps import source_line
from wallaroo.topology.model import REPLAYS, Computation, SinkGroup

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
def test_outputs_are_those_of_plain_python_in_any_layout(make, tmp_path, partitions, tasks):
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
def test_branches_may_come_after_any_number_of_steps(make, tmp_path, many):
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


class Only:
    """Passes numbers whose remainder is the given one, with its mark; notes how many of it are made."""

    made = 0

    def name(self):
        return type(self).__name__

    def __init__(self):
        type(self).made += 1

    def compute(self, data):
        return f"{data}{self.mark}" if int(data[0]) % 2 == self.remainder else None


def only(name, remainder=None):
    """Return a class of its own; without a remainder it passes everything."""
    rest = {"made": 0, "mark": name, "remainder": remainder}
    if remainder is None:
        rest["compute"] = lambda self, data: f"{data}{self.mark}"
    return type(name, (Only,), rest)


def forks_in_series(make, many):
    """Return a pipeline whose messages each take one of two branches, which merge, again and again; its steps."""
    kinds, ways = [], [(0, 1)]
    for number in range(many):
        first = len(kinds)
        kinds += only(f"e{number}", 0), only(f"o{number}", 1), only(f"m{number}")
        ways += (first + 2,), (first + 2,), (first + 3, first + 4)
    ways[-1] = (SinkGroup((0,)),)
    steps = tuple(Computation(each.__name__, each, multi=False) for each in kinds)
    return replace(make.pipeline("p"), steps=steps, ways=tuple(ways)), kinds


def loop_of(make, pipeline, monkeypatch):
    """Return the first loop of a pipeline, its outbox, and how many lines of text were made for it."""
    plan, texts = make.plan(pipeline), {}
    monkeypatch.setattr("linecache.cache", texts)
    outbox = Outbox(plan)
    run = source_line(plan, outbox, pipeline)
    return run, outbox, sum(len(lines) for _, _, lines, _ in texts.values())


def test_what_several_branches_lead_to_is_made_once_and_takes_the_messages_of_each_in_order(make, monkeypatch):
    kinds = [only(name) for name in "abcd"]
    a, b, c, d = kinds
    base = source()
    merged = base.to(a).merge(base.to(b)).merge(base).to(c)
    ends = merged.merge(base).to_sink(sink(1, "all")), merged.to(d).to_sink(sink(2, "d"))
    (pipeline,) = wallaroo.build_application("app", *ends).pipelines
    for each in kinds:
        each.made = 0  # One of each was made to learn its name.
    run, outbox, _ = loop_of(make, pipeline, monkeypatch)
    assert [each.made for each in kinds] == [1, 1, 1, 1]
    run([b"1", b"2"])
    sent = {chunk.route: chunk.body.decode().split() for chunk in taken(outbox)}
    assert sent == {
        0: ["1ac", "1bc", "1c", "1", "2ac", "2bc", "2c", "2"],
        1: ["1acd", "1bcd", "1cd", "2acd", "2bcd", "2cd"],
    }


def test_forks_and_merges_in_series_make_code_that_grows_with_the_steps(make, monkeypatch):
    def lines_of(many):
        pipeline, kinds = forks_in_series(make, many)
        run, outbox, lines = loop_of(make, pipeline, monkeypatch)
        assert {each.made for each in kinds} == {1}
        run([b"1", b"2"])
        (chunk,) = taken(outbox)
        odd, even = ("".join(f"{each}{number}m{number}" for number in range(many)) for each in "oe")
        assert chunk.body.decode().split() == [f"1{odd}", f"2{even}"]
        return lines

    few, more, most = map(lines_of, (4, 8, 12))
    assert most - more == more - few
    lines_of(150)


PLACES = ["decode", "split", "key", "state", "choose", "encode", "shout", "other"]


@pytest.fixture
def troubled(make, tmp_path):
    """Return a query for a branched program, each part of which fails for its word until it is repaired."""

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


def test_every_message_that_fails_is_reported_with_its_position(troubled, dead_letters):
    lines = lines_with_troubles()
    troubled.append("p", [line.encode() for line in lines], block=5)
    letters = dead_letters(troubled.chunks())
    assert len(letters) > 50
    for letter in letters:
        numbers = re.findall(r"[ab](\d+)!", letter["message"])
        assert (letter["source"], {str(letter["position"])}) == ("p", set(numbers))


def test_a_letter_whose_chooser_is_gone_is_reported(troubled, make, tmp_path, dead_letters):
    troubled.append("p", [b"a!choose"])
    (letter,) = named(dead_letters(troubled.chunks()))
    assert (letter["step"], letter["place"]) == ("choose", "choose 1")
    changed = wallaroo.build_application("app", source().to(split).to_sink(sink(1)))
    (tmp_path / "changed").mkdir()
    query = Query(plan_of(make, changed), tmp_path / "changed")
    query.append(REPLAYS, [json.dumps(letter).encode()])
    (again,) = dead_letters(query.chunks())
    assert NoPlaceError.__name__ in again["error"]
    assert "pipeline 'p' has no choose any more" in again["error"]
    assert again["payload"] == letter["payload"]


@wallaroo.computation("clean")
def clean(text):
    if text.startswith("!"):
        raise ValueError(text)
    return text


@wallaroo.computation("first")
def first(text):
    return text


@wallaroo.computation("second")
def second(text):
    return text


def mended(letter):
    """Return a letter whose message no longer fails."""
    return {**letter, "encoding": "pickle", "payload": base64.b64encode(pickle.dumps("x")).decode()}


@pytest.fixture
def replayed(make, tmp_path, dead_letters):
    """Return a function that lets a program fail at all places where it can, and replays the letters in a changed one.

    It returns for each letter's place the sinks that its message reaches, or why it was refused.
    """

    def replay(before, after, letters=lambda letter: letter):
        then, now = (Query(plan_of(make, each), Path(mkdtemp(dir=tmp_path))) for each in (before, after))
        then.append("p", [b"!"])
        found = {}
        for letter in named(dead_letters(then.chunks())):
            now.append(REPLAYS, [json.dumps(letters(mended(letter))).encode()])
            chunks = now.chunks(tasks=1)
            sinks = [now.plan.routes[chunk.route].sink for chunk in chunks if chunk.route >= 0]
            refused = [again["error"].partition("NoPlaceError: ")[2] for again in dead_letters(chunks)]
            found[letter["place"]] = refused or [each.name or each.port for each in sinks]
        return found

    return replay


def two_branches(one=first, other=second, names=("x", "y"), *, turned=False):
    """Return a program with the same step in two branches."""
    base = source()
    branches = [base.to(one).to(clean).to_sink(sink(1, names[0])), base.to(other).to(clean).to_sink(sink(2, names[1]))]
    return wallaroo.build_application("app", *(reversed(branches) if turned else branches))


def test_a_letter_of_a_step_in_several_branches_goes_back_to_its_own(replayed):
    assert replayed(two_branches(), two_branches()) == {"step 2": ["x"], "step 4": ["y"]}
    assert replayed(two_branches(), two_branches(turned=True)) == {"step 2": ["x"], "step 4": ["y"]}


def test_a_letter_of_a_branch_that_is_gone_is_not_sent_down_another(replayed):
    remaining = wallaroo.build_application("app", source().to(second).to(clean).to_sink(sink(2, "y")))
    found = replayed(two_branches(), remaining)
    assert found["step 4"] == ["y"]
    (refused,) = found["step 2"]
    assert refused == (
        "pipeline 'p' has changed, and the step 'clean' of this message, which was after 'first' and before 'x', "
        "cannot be matched with certainty. Replay the message with the earlier program, or take it from the letter "
        "(`wallaroo dead-letters show`), and send it again"
    )


def test_branches_with_the_same_steps_are_distinguished_by_their_sinks(replayed):
    same = {"one": first, "other": first}
    assert replayed(two_branches(**same), two_branches(**same, turned=True)) == {"step 2": ["x"], "step 4": ["y"]}
    unnamed = {**same, "names": (None, None)}
    assert replayed(two_branches(**unnamed), two_branches(**unnamed, turned=True)) == {"step 2": [1], "step 4": [2]}
    found = replayed(two_branches(**same), two_branches(**same, names=("x", "z")))
    assert found["step 2"] == ["x"]
    assert "after 'first' and before 'y'" in found["step 4"][0]


def program_with_sinks(*sinks):
    return wallaroo.build_application("app", source().to(upper).to_sinks(list(sinks)))


@wallaroo.encoder
def picky(data):
    return encode.encode(clean.compute(data))


def test_a_letter_of_an_encoder_goes_back_to_the_same_sink(replayed):
    one, other, third = sink(1, encoder=picky), sink(2, encoder=picky), sink(3, encoder=picky)
    before = program_with_sinks(one, other)
    assert replayed(before, program_with_sinks(third, other, one)) == {"encoder 1": [1], "encoder 2": [2]}
    found = replayed(before, program_with_sinks(other, third))
    assert found["encoder 2"] == [2]
    assert "which was after 'upper', 'TCP 127.0.0.1:1, encoded by picky'" in found["encoder 1"][0]
    assert "give each sink a name" in found["encoder 1"][0]
    # The only sink of a line may have another address.
    assert replayed(program_with_sinks(one), program_with_sinks(third)) == {"encoder 1": [3]}


def test_a_sink_is_found_by_its_name_wherever_it_is(replayed):
    before = program_with_sinks(sink(1, "x", picky), sink(2, "y", picky))
    after = wallaroo.build_application("app", source().to_sink(sink(7, "y")), source("q").to_sink(sink(1)))
    assert replayed(before, after) == {"encoder 1": ["pipeline 'p' has no sink 'x' any more"], "encoder 2": ["y"]}


def numbered_only(letter):
    """Return a letter as an earlier release has written it."""
    return {name: value for name, value in letter.items() if name != "path"}


def test_a_letter_of_an_earlier_release_is_refused_where_it_could_be_another_place(replayed):
    refusal = "an earlier release has written this letter, with only the number of its {}, which cannot be matched"
    found = replayed(two_branches(), two_branches(), numbered_only)
    assert found["step 2"][0].startswith(refusal.format("step, 2"))
    assert found["step 4"][0].startswith(refusal.format("step, 4"))
    two_sinks = program_with_sinks(sink(1, encoder=picky), sink(2, encoder=picky))
    found = replayed(two_sinks, two_sinks, numbered_only)
    assert found["encoder 2"][0].startswith(refusal.format("sink, 2"))
    one_sink = program_with_sinks(sink(1, encoder=picky))
    assert replayed(two_sinks, one_sink, numbered_only) == {
        "encoder 1": [1],
        "encoder 2": ["pipeline 'p' has no sink number 2 any more"],
    }
    line = wallaroo.build_application("app", source().to(clean).to_sink(sink(1)))
    longer = wallaroo.build_application("app", source().to(first).to(clean).to_sink(sink(1)))
    assert replayed(line, longer, numbered_only) == {"step 1": [1]}
