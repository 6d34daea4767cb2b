"""Which functions are written into the loops, and that it makes no difference but for speed."""

import collections
import functools
import importlib
import linecache
import logging
import runpy
import textwrap
import typing
import warnings
from pathlib import Path

import pytest
from tests.engine.outbox_chunks import taken

import wallaroo
from wallaroo.engine.loop_codegen import GeneratedLoop
from wallaroo.engine.plan import Plan, StepRoute, new_layout
from wallaroo.engine.stages.inlining import inline
from wallaroo.engine.stages.live_state import MemoryStore, StateLog
from wallaroo.engine.stages.outbox import Outbox
from wallaroo.engine.stages.state_steps import BucketRun, StateStep
from wallaroo.engine.stages.steps import source_line
from wallaroo.engine.transport.packing import Stream
from wallaroo.errors import users_traceback

FACTOR = 1.8
BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


def loop_of(function, *arguments):
    """Return a loop with nothing but the function, None if that has to be called."""
    loop = GeneratedLoop(", ".join(arguments))
    return loop if inline(loop, function, arguments, lambda found, write: write("return ", found)) else None


def lines_of(function, *arguments):
    loop = loop_of(function, *(arguments or ["message"]))
    return loop and [line.removeprefix(" " * 8) for line in loop.source.splitlines()[2:-1]]


def fahrenheit(celsius):
    """Return degrees Fahrenheit."""
    return float(celsius) * 1.8 + 32


def line(degrees: float) -> bytes:
    return f"{degrees:.2f} {'hot' if degrees > 80 else 'cold'}\n".encode()


def symbol(order):
    return order.symbol


def joined(pair):
    return "{} of {}".format(pair[0], ", ".join(pair[1])).strip().encode("utf-8")


def with_global(celsius):
    return celsius * FACTOR


def with_own_function(celsius):
    return fahrenheit(celsius)


def with_statements(text):
    name, value = text.split(" ")
    name += "!"
    return name, float(value)


def with_effect(numbers):
    numbers.last.append(2)
    return numbers.pop()


def with_paths(number):
    if number < 0:
        return "negative"
    if number:
        size = "small"
        if number >= 10:
            size = "large"
    else:
        size = "no"
    if size == "large" and number > 100:
        if number > 1000:
            return "huge"
    elif size == "no":
        return None
    else:
        return size
    return "very large"


def with_a_parameter_that_changes(text):
    text = text.strip()
    return text, text


def without_value(_number):
    return


def without_end(message):
    message.seen = True


class Codec:
    salt = 3

    def decode(self, bs):
        return bs.decode("utf-8").strip().split(" ")[0].upper()

    def salted(self, data):
        return data + self.salt

    @staticmethod
    def double(data):
        return data * 2


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (fahrenheit, ["return float(message) * 1.8 + 32"]),
        (line, ["return f\"{message:.2f} {('hot' if message > 80 else 'cold')}\\n\".encode()"]),
        (symbol, ["return message.symbol"]),
        (joined, ["return '{} of {}'.format(message[0], ', '.join(message[1])).strip().encode('utf-8')"]),
        (Codec.double, ["return message * 2"]),
        (Codec().decode, ["return message.decode('utf-8').strip().split(' ')[0].upper()"]),
        (Codec().salted, ["return message + self_0.salt"]),
        (with_global, ["return message * FACTOR"]),
        (with_own_function, ["return fahrenheit(message)"]),
        (
            with_statements,
            ["name_0, value_1 = message.split(' ')", "name_0 += '!'", "return (name_0, float(value_1))"],
        ),
        (with_effect, ["message.last.append(2)", "return message.pop()"]),
        (with_a_parameter_that_changes, ["text_0 = message", "text_0 = text_0.strip()", "return (text_0, text_0)"]),
        (without_value, ["return None"]),
        (without_end, ["message.seen = True", "return None"]),
    ],
)
def test_simple_functions_are_written_into_the_loop(function, expected):
    assert lines_of(function) == expected


def test_all_paths_of_a_function_are_written():
    run = loop_of(with_paths, "message").compiled()
    numbers = [-1, 0, 1, 9, 10, 99, 101, 1001]
    assert [run(number) for number in numbers] == [with_paths(number) for number in numbers]


@pytest.mark.parametrize(
    ("file", "names"),
    [
        ("celsius.py", ["decode", "multiply", "add", "encode"]),
        ("market_spread.py", ["decode_prices", "decode_order", "by_symbol", "update_prices", "check_order", "encode"]),
        ("word_count.py", ["decode", "split", "first_letter", "count_word", "word_itself", "count_own_word", "encode"]),
    ],
)
def test_the_functions_of_the_benchmarks_are_written_into_the_loops(file, names):
    program = runpy.run_path(str(BENCHMARKS / "apps" / file))
    for name in names:
        function = program[name].__wrapped__
        arguments = ["message", "state"][: function.__code__.co_argcount]
        assert lines_of(function, *arguments) is not None, name


def with_default(celsius, factor=1.8):
    return celsius * factor


def with_comprehension(numbers):
    return [number + 1 for number in numbers]


def with_walrus(number):
    return (other := number) + other


def with_loop(numbers):
    total = 0
    for number in numbers:
        total += number
    return total


def with_handler(text):
    try:
        return float(text)
    except ValueError:
        return 0.0


def with_global_that_changes(number):
    global FACTOR  # noqa: PLW0603
    FACTOR = number
    return number


def with_a_global_named_like_one_of_the_loop(number):
    return number + message  # noqa: F821 - as if the program had one


def with_a_name_that_is_nowhere(number):
    return number + nowhere  # noqa: F821


def with_something_that_may_look_at_its_caller(text):
    print(text)
    return text


def with_a_look_at_its_variables(_text):
    return locals()


def with_a_variable_of_an_earlier_message(number):
    if number > 3:
        size = "large"
    return size


def with_a_variable_that_is_used_too_early(number):
    total += number  # noqa: F821, F841
    return number


def with_a_function(number):
    return (lambda: number)()  # noqa: PLC3002


def with_an_end_in_the_middle(number):
    if number > 3:
        if number > 5:
            return "large"
        number += 1
    return number


def with_many_paths(number):  # noqa: C901, PLR0911
    if number == 0:
        return "0"
    if number == 1:
        return "1"
    if number == 2:
        return "2"
    if number == 3:
        return "3"
    if number == 4:
        return "4"
    if number == 5:
        return "5"
    if number == 6:
        return "6"
    if number == 7:
        return "7"
    if number == 8:
        return "8"
    if number == 9:
        return "9"
    if number == 10:
        return "10"
    if number == 11:
        return "11"
    return "more"


def of_many(*numbers):
    return numbers


def made(offset):
    def closure(number):
        return number + offset

    return closure


def made_recursive():
    def closure(number):
        return closure(number - 1) if number else 0

    return closure


LOG = logging.getLogger("inlined")


def with_a_logger_in_an_expression(text):
    return text or LOG.warning("empty")


def with_a_query(frame):
    limit = 3
    return frame.query("x > @limit", limit)


def with_code_behind_the_end(_number):
    return json  # noqa: F821


def generates_nothing(_number):
    return
    yield


async def asynchronous(number):
    return number


é_0 = 100  # noqa: PLC2401


def with_another_alphabet(number):
    é = number  # noqa: PLC2401
    return é + é_0


class Logs:
    log = LOG

    def decode(self, bs):
        self.log.warning("got %r", bs)
        return bs


class Base:
    def decode(self, data):
        return data + 1


class Derived(Base):
    def decode(self, data):
        return super().decode(data)

    def of_class(self, _data):
        return __class__

    def private(self, data):
        return data.__secret


def counted(function):
    @functools.wraps(function)
    def wrapper(message):
        wrapper.calls += 1
        return function(message)

    wrapper.calls = 0
    return wrapper


@counted
def decorated(number):
    return number + 1


@pytest.mark.parametrize(
    "function",
    [
        with_default,
        with_comprehension,
        with_walrus,
        with_loop,
        with_handler,
        with_global_that_changes,
        with_a_global_named_like_one_of_the_loop,
        with_a_name_that_is_nowhere,
        with_something_that_may_look_at_its_caller,
        with_a_look_at_its_variables,
        with_a_variable_of_an_earlier_message,
        with_a_variable_that_is_used_too_early,
        with_a_function,
        with_an_end_in_the_middle,
        with_many_paths,
        with_a_logger_in_an_expression,
        with_a_query,
        with_code_behind_the_end,
        with_another_alphabet,
        generates_nothing,
        asynchronous,
        Logs().decode,
        of_many,
        made(1),
        made_recursive(),
        Derived().decode,
        Derived().of_class,
        Derived().private,
        decorated,
        lambda number: number + 1,
        len,
        functools.partial(fahrenheit),
        eval("lambda number: number"),
    ],
)
def test_all_others_are_called(function, monkeypatch):
    monkeypatch.setitem(globals(), "message", 7)
    assert lines_of(function) is None


def test_globals_are_those_of_the_module_when_a_message_comes(monkeypatch):
    run = loop_of(with_global, "message").compiled()
    assert run(2) == 3.6
    monkeypatch.setitem(globals(), "FACTOR", 10)
    assert run(2) == 20


def test_a_function_of_pythons_that_the_module_has_replaced_is_that_of_the_module(tmp_path, monkeypatch):
    source = "def float(text):\n    return 7\n\ndef decode(text):\n    return float(text)\n"
    (tmp_path / "replaces_float.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    assert loop_of(importlib.import_module("replaces_float").decode, "message").compiled()("1") == 7


def test_a_long_expression_is_left_to_a_call(tmp_path, monkeypatch):
    for length, expected in ((20, True), (300, False)):
        name = f"adds_{length}"
        (tmp_path / f"{name}.py").write_text(f"def add(number):\n    return {' + '.join(['number'] * length)}\n")
        monkeypatch.syspath_prepend(tmp_path)
        assert (lines_of(importlib.import_module(name).add) is not None) == expected


def test_what_python_warns_of_is_not_repeated(tmp_path, monkeypatch):
    (tmp_path / "compares.py").write_text("def compare(number):\n    return number is 1000\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.warns(SyntaxWarning):
        compare = importlib.import_module("compares").compare
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert loop_of(compare, "message").compiled()(7) is False


def test_a_module_may_use_the_names_of_what_the_loops_need(dead_letters, tmp_path, monkeypatch):
    source = """
        import wallaroo

        OFFSET = 3

        @wallaroo.decoder
        def decode(bs):
            return int(bs) + OFFSET

        @wallaroo.computation("note")
        def note(number):
            global type, bytes
            type = bytes = "large"
            return number

        @wallaroo.encoder
        def encode(number):
            return str(number + OFFSET)

        def application_setup(args):
            ab = wallaroo.ApplicationBuilder("Names")
            ab.new_pipeline("numbers", wallaroo.TCPSourceConfig("127.0.0.1", 7010, decode)).to(note)
            ab.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", 7002, encode))
            return ab.build()
    """
    (tmp_path / "uses_names.py").write_text(textwrap.dedent(source))
    monkeypatch.syspath_prepend(tmp_path)
    application = importlib.import_module("uses_names").application_setup([])
    plan = Plan(application, new_layout(application.pipelines, 4))
    outbox = Outbox(plan)
    run = source_line(plan, outbox, application.pipelines[0])
    assert "OFFSET" in "".join(linecache.getlines(run.__code__.co_filename))
    run([b"1", b"2"])
    (chunk,) = taken(outbox)
    assert bytes(chunk.body) == b"78"
    assert dead_letters([chunk]) == []


@wallaroo.state_computation("pairs")
def in_pieces(number, seen):
    seen.append(number)
    return (*[number, True],)


@wallaroo.state_computation_multi("many")
def not_a_list(number, seen):
    seen.append(number)
    return ("ab" if number > 1 else [number], True)


@pytest.mark.parametrize(("computation", "sent"), [(in_pieces, b"1\n2\n3\n"), (not_a_list, b"1\n")])
def test_results_of_other_shapes(computation, sent, dead_letters):
    ab = wallaroo.ApplicationBuilder("Shapes")
    ab.new_pipeline("numbers", wallaroo.TCPSourceConfig("127.0.0.1", 7010, decode))
    ab.to_stateful(computation, list, "seen")
    ab.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", 7002, encode_any))
    application = ab.build()
    plan = Plan(application, new_layout(application.pipelines, 1))
    (route,) = (route for route in plan.routes if isinstance(route, StepRoute))
    outbox, store, log = Outbox(plan), MemoryStore(), StateLog(plan.serializer, "run")
    run = BucketRun(log, store, log.open(store))
    run.run(StateStep(plan, route, outbox), {None: 3}, Unchanged([1, 2, 3]), Stream([1, 2, 3]))
    run.save()
    chunks = taken(outbox)
    assert b"".join(bytes(chunk.body) for chunk in chunks if chunk.route >= 0) == sent
    assert len(dead_letters(chunks)) == 3 - sent.count(b"\n")


def test_a_loop_has_the_globals_of_one_module(tmp_path, monkeypatch):
    (tmp_path / "has_another_factor.py").write_text("FACTOR = 5\n\ndef times(number):\n    return number * FACTOR\n")
    monkeypatch.syspath_prepend(tmp_path)
    other = importlib.import_module("has_another_factor").times
    loop = GeneratedLoop("message")
    assert inline(loop, with_global, ["message"], lambda found, write: write("first = ", found))
    assert not inline(loop, other, ["message"], lambda found, write: write("second = ", found))
    # Without globals it does not matter where a function comes from.
    assert inline(loop, symbol, ["message"], lambda found, write: write("third = ", found))


def test_a_source_that_was_changed_after_the_import_is_not_used(tmp_path, monkeypatch):
    file = tmp_path / "changes_later.py"
    file.write_text("def convert(number):\n    return number + 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    convert = importlib.import_module("changes_later").convert
    assert lines_of(convert) == ["return message + 1"]
    for changed in ("number + 1.0", "number + True", "number - 1", "number.real"):
        file.write_text(f"def convert(number):\n    return {changed}\n")
        assert lines_of(convert) is None


@wallaroo.decoder
def decode(bs):
    return float(bs)


@wallaroo.computation("invert")
def invert(number):
    if number == 5:
        return (
            number
            .real
            .nope()
        )  # fmt: skip
    if number == 3.5:
        number = [
            number,
            "too odd"  # The columns and the lines of a longer expression.
            + number,
        ]
    return 100 / number


class Range:
    @staticmethod
    def check(number):
        if number > 90:
            raise ValueError(f"{number} is too large")
        return number


@wallaroo.computation_multi("twice")
def twice(number):
    return [number, Range.check(number)]


@wallaroo.partition
def by_tens(number):
    return [number // 10] if number > 50 else number // 10


class Tens:
    """Is as many instances as there are keys."""

    def __init__(self):
        self.seen = []

    def add(self, number):
        if number > 20:
            self.seen.append(number)
        return 1 // (len(self.seen) - 2)


@wallaroo.state_computation("count")
def count(number, tens):
    tens.seen.append(number)
    tens.add(number)
    if number == 25:
        return number
    return (len(tens.seen), number), True


@wallaroo.encoder
def encode(number):
    return f"{number:d}\n".encode() if number > 20 else None


@wallaroo.encoder
def encode_any(data):
    return f"{data}\n"


@wallaroo.encoder
def encode_pair(pair):
    return f"{pair[0]} {pair[1]:d}\n"


@pytest.fixture
def application():
    """Return an application whose functions are all simple, and all of which can fail."""
    ab = wallaroo.ApplicationBuilder("Inverted")
    ab.new_pipeline("to sink", wallaroo.TCPSourceConfig("127.0.0.1", 7010, decode)).to(invert).to(twice)
    ab.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", 7002, encode))
    ab.new_pipeline("to state", wallaroo.TCPSourceConfig("127.0.0.1", 7011, decode)).to(invert)
    ab.to_state_partition(count, Tens, "counts", by_tens)
    ab.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", 7002, encode_pair))
    return ab.build()


class Calling(Outbox):
    """An outbox with which all functions are called."""

    inlines = False


PAYLOADS = [b"4", b"x", b"0", b"10", b"1", b"50", b"3.5", b"5", b"4", b"33"]


@pytest.mark.parametrize("pipeline", [0, 1])
def test_what_fails_gives_the_letters_of_failing_calls(application, dead_letters, pipeline):
    plan = Plan(application, new_layout(application.pipelines, 4))
    found = []
    for kind in (Outbox, Calling):
        outbox = kind(plan)
        run = source_line(plan, outbox, application.pipelines[pipeline])
        assert ("function_" in "".join(linecache.getlines(run.__code__.co_filename))) == (kind is Calling)
        run(PAYLOADS)
        chunks = taken(outbox)
        letters = [{**letter, "time": None, "id": None} for letter in dead_letters(chunks)]
        found.append(
            (letters, [(chunk.route, chunk.number, bytes(chunk.body)) for chunk in chunks if chunk.route >= 0])
        )
    inlined, called = found
    assert inlined == called
    # The decoder, the division by zero, and the encoder or the key; and what only one of the pipelines has.
    assert len({letter["step"] for letter in inlined[0]}) == 4 - pipeline
    assert any('"too odd"' in letter["traceback"] for letter in inlined[0])
    assert any("return 100 / number" in letter["traceback"] for letter in inlined[0])
    assert any("\n    .nope()\n" in letter["traceback"] for letter in inlined[0])


class Unchanged:
    """A chunk of messages that no user code changes."""

    name = ()

    def __init__(self, messages):
        self._messages = messages

    def message(self, _key, index):
        return self._messages[index]

    def origin(self, _key, _index):
        return {}


def test_what_fails_in_a_state_computation_gives_the_states_and_letters_of_failing_calls(application, dead_letters):
    plan = Plan(application, new_layout(application.pipelines, 1))
    (route,) = (route for route in plan.routes if isinstance(route, StepRoute))
    messages = [1.0, 30.0, 2.0, 25.0, 40.0, 50, 25.0, "60", 70]
    found = []
    for kind in (Outbox, Calling):
        outbox, store, log = kind(plan), MemoryStore(), StateLog(plan.serializer, "run")
        step = StateStep(plan, route, outbox)
        run = BucketRun(log, store, log.open(store))
        for low in (0, 4, 6):
            some = messages[low : low + 4]
            run.run(step, {"all": len(some)}, Unchanged(some), Stream(some))
        run.save()
        chunks = taken(outbox)
        letters = [{**letter, "time": None, "id": None} for letter in dead_letters(chunks)]
        sent = [bytes(chunk.body) for chunk in chunks if chunk.route >= 0]
        found.append((letters, sent, {key: tens.seen for key, tens in run.bucket.objects.items()}))
    inlined, called = found
    assert inlined == called
    kinds = {letter["error"].partition(":")[0].rpartition(".")[2] for letter in inlined[0]}
    assert kinds == {"ReturnShapeError", "TypeError", "ValueError"}
    assert all("in add" in letter["traceback"] for letter in inlined[0] if letter["error"].startswith("TypeError"))


class Reading(typing.NamedTuple):
    city: str
    degrees: float = 0.0


Pair = collections.namedtuple("Pair", "one other")  # noqa: PYI024 - existing programs use both


class Checked(Pair):
    def __new__(cls, one, other):
        return super().__new__(cls, one, abs(other))


def reading(text):
    city, degrees = text.split()
    return Reading(city, float(degrees))


def nested(text):
    return Pair(Pair(text, 1), [Reading("oslo", 2.5)])


def not_all_values(text):
    return Reading(text)


def named_values(text):
    return Reading(text, degrees=1.0)


def starred(text):
    return Reading(*text.split())


def of_a_subclass(text):
    return Checked(text, -1)


def of_a_variable(kind):
    return kind("oslo", 2.5)


@pytest.mark.parametrize("function", [reading, nested])
def test_named_tuples_are_made_without_the_code_of_their_classes(function):
    (made,) = [line for line in lines_of(function) if "return" in line]
    assert "Reading(" not in made
    assert "Pair(" not in made
    result = loop_of(function, "message").compiled()("oslo 4.5")
    assert result == function("oslo 4.5")
    assert type(result) is type(function("oslo 4.5"))
    assert repr(result) == repr(function("oslo 4.5"))


@pytest.mark.parametrize("function", [not_all_values, named_values, starred, of_a_subclass])
def test_other_calls_of_classes_stay_calls(function):
    assert "new" not in lines_of(function)[-1]
    assert repr(loop_of(function, "message").compiled()("oslo 4.5")) == repr(function("oslo 4.5"))


def test_a_parameter_may_be_a_class():
    assert loop_of(of_a_variable, "message").compiled()(Reading) == Reading("oslo", 2.5)
    assert loop_of(of_a_variable, "message").compiled()(lambda *values: values) == ("oslo", 2.5)


def test_an_error_in_a_value_of_a_named_tuple_has_its_usual_traceback():
    with pytest.raises(ValueError, match="could not convert") as raised:
        loop_of(reading, "message").compiled()("oslo cold")
    shown = users_traceback(raised.value)
    assert "in reading" in shown
    assert "return Reading(city, float(degrees))" in shown
