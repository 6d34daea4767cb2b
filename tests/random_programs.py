"""Random programs: branches, merges, keys, states, chosen sinks, and code that fails now and then.

A program is text, as a user would write it. Many of its functions are a single expression, which the engine writes into
its loops, and others are not. A message is `(source, number, value, trail)`; each step adds its number to the trail.
A message whose value is None asks the states that it meets for their totals.

What is promised of a program's outputs does not depend on where and how it runs: see `Program.promised`.
"""

import ast
import random
import re
from collections import Counter, defaultdict
from typing import NamedTuple

BEGIN = """\
import wallaroo


def application_setup(args):
    out = wallaroo.tcp_parse_output_addrs(args)[0]
"""

SIMPLE = [
    "m[2] + 3",
    "m[2] * 2 - 5",
    "max(m[2], 10)",
    "len(str(m[2]))",
    "100 // (m[2] % 7)",
    "[10, 20, 30, 40][int(m[2]) % 5]",
    "-m[2] if m[1] % 2 else m[2]",
    "m[2] and 60 // m[2]",
    "m[2] or m[1]",
    "int(str(m[2]).replace('-', ''))",
    "float(m[2])",
    "not m[2] > 5",
]
"""Values of one expression; some fail for some messages."""
ERRORS = ["ValueError(m)", "KeyError(m[1])", "SystemExit(3)", "StopIteration", "RuntimeError(f'{m[1]} of {m[0]}')"]
KEYS = [
    "m[1] % 3",
    "str(m[1] % 4)",
    "(m[1] % 2, m[1] % 3)",
    "m[1] % 5 * 1.0",
    "None if m[1] % 5 == 0 else m[1] % 5",
    "m[1] % (m[1] % 4)",
]
MANY = [
    "[{} for i in range({})]",
    "tuple({} for i in range({}))",
    "7 if m[1] % 9 == 4 else None if m[1] % 9 == 5 else [{} for i in range({})]",
    "[{} for i in range(7 // (m[1] % 5), {})]",
    "({} for i in range({})) if m[1] % 6 == 3 else []",
]
"""What gives several messages for one, or fails in the middle of it, or gives something else."""
CHOICES = [
    "['a{0}', 'b{0}'][m[1] % 2]",
    "None if m[1] % 3 == 0 else ['a{0}', 'b{0}'] if m[1] % 3 == 1 else 'a{0}'",
    "['a{0}', 'b{0}', 'nobody'][m[1] % 3]",
    "{{1: 'a{0}', 2: ('a{0}', 'b{0}')}}[m[1] % 4]",
]
ENCODED = [
    "f'{0}\\t{{m}}\\n'",
    "f'{0}\\t{{m}}\\t{{m[2] and 1 // (m[2] - 4)}}\\n'",
    "None if m[1] % 7 == 0 else f'{0}\\t{{m}}\\n'.encode()",
]

STATES_IN_A_ROW = 3
MESSAGES = 60
"""Of each source, and as many questions: every key of every state is asked for."""


class Stream(NamedTuple):
    """A pipeline of the program so far."""

    name: str
    ends: frozenset[str]
    """The pipelines that were merged in it; none may be merged twice."""
    keys: frozenset[int] = frozenset()
    """The steps at which its messages have got their keys."""
    order: tuple[object, ...] | None = ()
    """Within which its messages are in the order of the input: all of them, those of a key of a state, or none."""
    depth: int = 0


class Program:
    """One program, and what is known about it."""

    def __init__(self, seed: int, sources: int = 2, declarations: int = 14) -> None:
        self._chance = random.Random(seed)
        self._functions: list[str] = []
        self._setup: list[str] = []
        self._numbers = 0
        self._keys: dict[int, str] = {}
        self._states: set[int] = set()
        self._used: set[str] = set()
        self._ended: list[str] = []
        self.sources = [f"source {number}" for number in range(sources)]
        streams = [self._source(number) for number in range(sources)]
        for _ in range(declarations):
            streams += self._declare(streams)
        for stream in streams:
            if stream.name not in self._used:
                self._end(stream)
        self._setup.append(f"return wallaroo.build_application('Made up {seed}', {', '.join(self._ended)})")

    @property
    def text(self) -> str:
        """Return the program."""
        setup = "\n".join(f"    {line}" for line in self._setup)
        return "\n\n\n".join([BEGIN + setup, *self._functions]) + "\n"

    def inputs(self) -> list[tuple[str, list[bytes]]]:
        """Return payloads for the sources, in the order in which they are to be sent; some cannot be decoded."""
        left = {name: [self._payload(number) for number in range(MESSAGES)] for name in self.sources}
        found = []
        while left:
            name = self._chance.choice(sorted(left))
            size = self._chance.randint(1, MESSAGES // 2)
            found.append((name, left[name][:size]))
            if not (rest := left.pop(name)[size:]):
                continue
            left[name] = rest
        return found

    def questions(self) -> list[tuple[str, list[bytes]]]:
        """Return payloads that ask for the totals of all states."""
        return [(name, [b"%d," % number for number in range(MESSAGES)]) for name in self.sources]

    def _payload(self, number: int) -> bytes:
        bad = self._chance.choice([b"x", b"%d" % number, b"\xff,1", b"%d,one" % number])
        return bad if self._chance.random() < 0.05 else b"%d,%d" % (number, self._chance.randrange(-20, 100))

    def promised(self, lines: list[bytes]) -> dict[object, list[str]]:
        """Return the outputs of each sink, in lists within which the order is promised.

        These are messages of a source that went the same way, and had the same key at each state on it.
        """
        found = defaultdict(list)
        for line in lines:
            sink, message, *_ = line.decode().rstrip("\n").split("\t")
            source, number, _, trail = ast.literal_eval(message)
            way = [each[0] if isinstance(each, tuple) else each for each in trail]
            found[sink, source, *way, self._keys_on(way, number)].append(line.decode())
        return dict(found)

    def _keys_on(self, way: list[int], number: int) -> tuple[object, ...]:
        found, key = [], "None"
        for each in way:
            key = self._keys.get(each, key)
            if each in self._states:
                found.append(eval(key, {"m": (None, number)}))
        return tuple(found)

    def _next(self) -> int:
        self._numbers += 1
        return self._numbers

    def _function(self, decorator: str, name: str, result: str, *, parameters: str = "m", before: str = "") -> str:
        """Define a function, of a single expression where there is nothing to do before that."""
        lines = [f"@wallaroo.{decorator}", f"def {name}({parameters}):", *before.splitlines(), f"    return {result}"]
        self._functions.append("\n".join(lines))
        return name

    def _maybe(self, before: str) -> str:
        """Return something to do first, or nothing, so that a function is a single expression."""
        return before if self._chance.random() < 0.3 else ""

    def _source(self, number: int) -> Stream:
        decoded = f"({number}, int(bs.split(b',')[0]), int(bs.split(b',')[1]) if bs.split(b',')[1] else None, ())"
        decoder = self._function(
            "decoder(header_length=4, length_fmt='>I')",
            f"decode_{number}",
            decoded,
            parameters="bs",
            before=self._maybe("    assert bs != b'7,7'"),
        )
        config = f"wallaroo.TCPSourceConfig('127.0.0.1', '0', {decoder})"
        return self._stream(f"wallaroo.source('source {number}', {config})")

    def _stream(self, expression: str, **known: object) -> Stream:
        name = f"p{self._next()}"
        self._setup.append(f"{name} = {expression}")
        return Stream(name, frozenset({name}), **known)  # type: ignore[arg-type]

    def _after(self, stream: Stream, call: str, **known: object) -> Stream:
        self._used.add(stream.name)
        kept = {"keys": stream.keys, "order": stream.order, "depth": stream.depth}
        return self._stream(f"{stream.name}.{call}", **{**kept, **known})

    def _declare(self, streams: list[Stream]) -> list[Stream]:
        # What was declared last is continued more often than what has branches already.
        stream = self._chance.choice(streams[-4:] if self._chance.random() < 0.7 else streams)
        if self._chance.random() < 0.15:
            return self._merge(stream, streams)
        kinds = [self._step, self._step, self._step, self._many, self._key]
        if stream.depth < STATES_IN_A_ROW:
            kinds += [self._state, self._state]
        return [self._chance.choice(kinds)(stream)]

    def _message(self, value: str, number: int) -> str:
        return f"(m[0], m[1], None if m[2] is None else {value}, m[3] + ({number},))"

    def _step(self, stream: Stream) -> Stream:
        number = self._next()
        result = self._message(self._chance.choice(SIMPLE), number)
        if self._chance.random() < 0.2:
            result = f"None if m[2] is not None and m[1] % {self._chance.randint(2, 5)} == 0 else {result}"
        fails = f"    if m[2] is not None and m[2] % 6 == 1:\n        raise {self._chance.choice(ERRORS)}"
        if self._chance.random() < 0.2:
            self._functions.append(
                f"class Step{number}:\n"
                f"    def name(self):\n        return 'step {number}'\n\n"
                f"    def compute(self, m):\n        return {result}"
            )
            return self._after(stream, f"to(Step{number}())")
        name = self._function(f"computation('step {number}')", f"step_{number}", result, before=self._maybe(fails))
        return self._after(stream, f"to({name})")

    def _many(self, stream: Stream) -> Stream:
        number = self._next()
        value = self._message("m[2] + i", number)
        name = self._function(
            f"computation_multi('many {number}')",
            f"many_{number}",
            self._chance.choice(MANY).format(value, self._chance.randint(1, 3)),
            before=f"    if m[2] is None:\n        return [{self._message('0', number)}]",
        )
        return self._after(stream, f"to({name})")

    def _key(self, stream: Stream) -> Stream:
        number = self._next()
        # A step tells which way a message has gone, and so which key it has got.
        name = self._function(f"computation('way {number}')", f"way_{number}", self._message("m[2]", number))
        self._keys[number] = "None"
        call = "collect()"
        if self._chance.random() < 0.8:
            self._keys[number] = self._chance.choice(KEYS)
            key = self._function(
                "key_extractor", f"key_{number}", self._keys[number], before=self._maybe("    m = tuple(m)")
            )
            call = f"key_by({key})"
        return self._after(stream, f"to({name}).{call}", keys=frozenset({number}))

    def _merge(self, stream: Stream, streams: list[Stream]) -> list[Stream]:
        others = [each for each in streams if not each.ends & stream.ends]
        if not others:
            return []
        other = self._chance.choice(others)
        self._used |= {stream.name, other.name}
        merged = self._stream(
            f"{stream.name}.merge({other.name})",
            keys=stream.keys | other.keys,
            order=stream.order if stream.order == other.order else None,
            depth=max(stream.depth, other.depth),
        )
        return [merged._replace(ends=stream.ends | other.ends)]

    def _state(self, stream: Stream) -> Stream:
        number = self._next()
        self._states.add(number)
        # Where the order in which messages come is promised, the outputs show it.
        exact = stream.order == () or (stream.order is not None and stream.order[1] == stream.keys)
        value = "m[2] + s.count" if exact else "m[2]"
        result = self._message(value, number)
        many = self._chance.random() < 0.3
        if many:
            result = f"[{result}, {self._message('m[1]', number)}]"
        if self._chance.random() < 0.2:
            result = f"None if m[1] % 4 == 2 else {result}"
        asked = f"(m[0], m[1], None, m[3] + (({number}, s.count, s.total),))"
        fails = self._maybe(f"    if int(m[2]) % 11 == 3:\n        raise {self._chance.choice(ERRORS)}")
        self._functions.append(
            f"class State{number}:\n    def __init__(self):\n        self.count = 0\n        self.total = 0"
        )
        name = self._function(
            f"state_computation{'_multi' if many else ''}('state {number}', State{number})",
            f"state_{number}",
            result,
            parameters="m, s",
            before="    if m[2] is None:\n"
            f"        return {f'[{asked}]' if many else asked}\n"
            "    s.count += 1\n"
            f"    s.total += m[2]\n{fails}",
        )
        order = (number, stream.keys) if stream.order is not None else None
        return self._after(stream, f"to({name})", order=order, depth=stream.depth + 1)

    def _end(self, stream: Stream) -> None:
        number = self._next()
        if self._chance.random() < 0.4:
            choose = f"choose_{number}"
            chosen = self._chance.choice(CHOICES).format(number)
            self._functions.append(f"def {choose}(m):\n    return {chosen}")
            sinks = ", ".join(self._sink(f"{letter}{number}") for letter in "ab")
            end = f"to_sinks([{sinks}], choose={choose})"
        elif self._chance.random() < 0.3:
            end = f"to_sinks([{self._sink(f'a{number}')}, {self._sink(f'b{number}')}])"
        else:
            end = f"to_sink({self._sink(f'a{number}')})"
        self._ended.append(self._after(stream, end).name)

    def _sink(self, name: str) -> str:
        encoded = self._chance.choice(ENCODED).format(name)
        encoder = self._function("encoder", f"encode_{name}", encoded, before=self._maybe("    m = tuple(m)"))
        return f"wallaroo.TCPSinkConfig(*out, {encoder}, name={name!r})"


def known_of(letters: list[dict[str, object]]) -> Counter[tuple[object, ...]]:
    """Return what is the same of dead letters wherever a program runs."""
    fields = ("pipeline", "source", "step", "place", "key", "error", "message")
    # Where an object was in memory is chance.
    return Counter(tuple(re.sub(r" at 0x\w+", "", str(letter.get(field))) for field in fields) for letter in letters)
