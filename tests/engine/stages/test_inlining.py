"""Which functions are written into the loops, and that it makes no difference but for speed."""

import functools
import importlib
import linecache
import runpy
from pathlib import Path

import pytest
from tests.engine.taken import taken

import wallaroo
from wallaroo.engine.plan import Plan, new_layout
from wallaroo.engine.stages.inlining import expression_of
from wallaroo.engine.stages.outbox import Outbox
from wallaroo.engine.stages.steps import line_from, source_line

FACTOR = 1.8
BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


def shown(function, *, takes_bytes=False):
    return expression_of(function, "message", lambda _, hint: hint, takes_bytes=takes_bytes)


def fahrenheit(celsius):
    """Return degrees Fahrenheit."""
    return float(celsius) * 1.8 + 32


def line(degrees: float) -> bytes:
    return f"{degrees:.2f} {'hot' if degrees > 80 else 'cold'}\n".encode()


def symbol(order):
    return order.symbol


def shouted(pair):
    return str(pair[0]).upper().split(" ")[1:]


def joined(pair):
    return "{} of {}".format(pair[0], ", ".join(pair[1])).strip().encode("utf-8")


class Codec:
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
        (fahrenheit, "float(message) * 1.8 + 32"),
        (line, "f\"{message:.2f} {('hot' if message > 80 else 'cold')}\\n\".encode()"),
        (symbol, "message.symbol"),
        (shouted, "str(message[0]).upper().split(' ')[1:]"),
        (joined, "'{} of {}'.format(message[0], ', '.join(message[1])).strip().encode('utf-8')"),
        (Codec.double, "message * 2"),
    ],
)
def test_simple_functions_are_written_as_expressions(function, expected):
    assert shown(function) == expected


def test_methods_are_called_in_the_loop_only_of_what_is_surely_text_or_bytes():
    decode = Codec().decode
    assert shown(decode, takes_bytes=True) == "message.decode('utf-8').strip().split(' ')[0].upper()"
    assert shown(decode) is None


@pytest.mark.parametrize(
    ("file", "names"),
    [
        ("celsius.py", ["decode", "multiply", "add", "encode"]),
        ("market_spread.py", ["by_symbol", "encode"]),
    ],
)
def test_the_functions_of_the_benchmarks_are_written_into_the_loops(file, names):
    program = runpy.run_path(str(BENCHMARKS / "apps" / file))
    for name in names:
        function = program[name].__wrapped__
        assert shown(function, takes_bytes=name == "decode") is not None, name


def with_global(celsius):
    return celsius * FACTOR


def with_own_function(celsius):
    return fahrenheit(celsius)


def with_default(celsius, factor=1.8):
    return celsius * factor


def with_statement(celsius):
    warm = celsius * 1.8
    return warm + 32


def with_effect(numbers):
    return numbers.pop()


def with_method_of_a_message(message):
    return float(message.get())


def with_method_of_an_attribute(message):
    return message.text.strip()


def with_method_of_a_sum(data):
    return (data + "\n").encode("utf-8")


def with_comprehension(numbers):
    return [number + 1 for number in numbers]


def with_walrus(number):
    return (other := number) + other


def without_value(_number):
    return


def of_many(*numbers):
    return numbers


def made(offset):
    def closure(number):
        return number + offset

    return closure


def made_counting():
    calls = 0

    def closure(number):
        nonlocal calls
        calls += 1
        return number + calls

    return closure


def made_recursive():
    def closure(number):
        return closure(number - 1) if number else 0

    return closure


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


class Calls:
    def __call__(self, data):
        return data + 1

    def decode(len, data):  # noqa: A002, N805 - this is what the test is about
        return len(data)


def with_parameter_called_like_a_function(len):  # noqa: A002
    return len(2)


class MadeInAFunction:
    def __init__(self, offset):
        class Inner:
            def decode(self, data):
                return data + offset

        self.decode = Inner().decode


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
        with_global,
        with_own_function,
        with_default,
        with_statement,
        with_effect,
        with_method_of_a_message,
        with_method_of_an_attribute,
        with_method_of_a_sum,
        with_comprehension,
        with_walrus,
        without_value,
        of_many,
        made(1),
        made_counting(),
        made_recursive(),
        Derived().decode,
        Derived().of_class,
        Derived().private,
        Calls().decode,
        with_parameter_called_like_a_function,
        MadeInAFunction(1).decode,
        decorated,
        Codec().salted,
        lambda number: number + 1,
        len,
        functools.partial(fahrenheit),
        eval("lambda number: number"),
    ],
)
def test_all_others_are_called(function):
    assert shown(function) is None


def test_a_function_of_pythons_that_the_module_has_replaced_is_called(tmp_path, monkeypatch):
    source = "def float(text):\n    return 7\n\ndef decode(text):\n    return float(text)\n"
    (tmp_path / "replaces_float.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    assert shown(importlib.import_module("replaces_float").decode) is None


def test_a_source_that_was_changed_after_the_import_is_not_believed(tmp_path, monkeypatch):
    file = tmp_path / "changes_later.py"
    file.write_text("def convert(number):\n    return number + 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    convert = importlib.import_module("changes_later").convert
    assert shown(convert) == "message + 1"
    for changed in ("number + 1.0", "number + True", "number - 1", "number.real"):
        file.write_text(f"def convert(number):\n    return {changed}\n")
        assert shown(convert) is None


@wallaroo.decoder
def decode(bs):
    return float(bs)


@wallaroo.computation("invert")
def invert(number):
    return 100 / number


@wallaroo.partition
def by_tens(number):
    return [number // 10] if number > 50 else number // 10


@wallaroo.encoder
def encode(number):
    return f"{number:d}\n".encode() if number > 20 else None


@wallaroo.state_computation("count")
def count(_number, seen):
    seen.append(1)
    return len(seen), True


@pytest.fixture
def application():
    """Return an application whose functions are all simple, and all of which can fail."""
    ab = wallaroo.ApplicationBuilder("Inverted")
    ab.new_pipeline("to sink", wallaroo.TCPSourceConfig("127.0.0.1", 7010, decode)).to(invert)
    ab.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", 7002, encode))
    ab.new_pipeline("to state", wallaroo.TCPSourceConfig("127.0.0.1", 7011, decode)).to(invert)
    ab.to_state_partition(count, list, "counts", by_tens).done()
    return ab.build()


class Calling(Outbox):
    """An outbox with which all functions are called."""

    inlines = False


PAYLOADS = [b"4", b"x", b"0", b"10", b"1", b"50", b"3.5"]


@pytest.mark.parametrize("pipeline", [0, 1])
def test_failing_expressions_give_the_letters_of_failing_calls(application, dead_letters, pipeline):
    plan = Plan(application, new_layout(application.pipelines, 4))
    found = []
    for kind in (Outbox, Calling):
        outbox = kind(plan)
        source_line(plan, outbox, application.pipelines[pipeline])(PAYLOADS)
        chunks = taken(outbox)
        letters = [{**letter, "time": None, "id": None} for letter in dead_letters(chunks)]
        found.append(
            (letters, [(chunk.route, chunk.number, bytes(chunk.body)) for chunk in chunks if chunk.route >= 0])
        )
    inlined, called = found
    assert inlined == called
    # The decoder, the division by zero, and the encoder or the key.
    assert len({letter["step"] for letter in inlined[0]}) == 3
    assert all("During handling" not in letter["traceback"] for letter in inlined[0])
    assert any("return 100 / number" in letter["traceback"] for letter in inlined[0])


class Readings:
    """A message that gives other answers each time, and fails in between."""

    def __init__(self, *values):
        self.values = list(values)

    @property
    def next(self):
        return self.values.pop(0)


@wallaroo.computation("read")
def read(readings):
    return 100 / readings.next


@wallaroo.partition
def by_next(readings):
    return 100 // readings.next


@wallaroo.encoder
def encode_next(readings):
    return f"{readings.next:d}\n".encode()


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ((0, 5), "ZeroDivisionError"),  # The second attempt would be a success.
        (("x",), "TypeError"),  # The second attempt fails for want of values.
    ],
)
@pytest.mark.parametrize("index", [0, 1])
def test_what_a_second_attempt_returns_or_raises_is_not_believed(dead_letters, values, error, index):
    ab = wallaroo.ApplicationBuilder("Readings")
    ab.new_pipeline("to sink", wallaroo.TCPSourceConfig("127.0.0.1", 7010, decode)).to(read)
    ab.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", 7002, encode))
    ab.new_pipeline("to state", wallaroo.TCPSourceConfig("127.0.0.1", 7011, decode))
    ab.to_state_partition(count, list, "counts", by_next).done()
    outbox, line = line_of(ab, index)
    line([Readings(*values)])
    chunks = taken(outbox)
    (letter,) = dead_letters(chunks)
    assert letter["error"].startswith(error)
    assert [chunk.route for chunk in chunks if chunk.route >= 0] == []


def test_what_an_encoder_returns_at_a_second_attempt_is_not_sent(dead_letters):
    ab = wallaroo.ApplicationBuilder("Readings")
    ab.new_pipeline("to sink", wallaroo.TCPSourceConfig("127.0.0.1", 7010, decode)).to(keep)
    ab.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", 7002, encode_next))
    outbox, line = line_of(ab, 0)
    line([Readings("x", 5)])
    chunks = taken(outbox)
    (letter,) = dead_letters(chunks)
    assert letter["error"].startswith("ValueError: Unknown format code 'd'")
    assert [chunk.route for chunk in chunks if chunk.route >= 0] == []


@wallaroo.computation("keep")
def keep(message):
    return message


def line_of(builder, pipeline):
    """Return an outbox, and the loop from the first step of a pipeline on, which is written without calls."""
    application = builder.build()
    plan = Plan(application, new_layout(application.pipelines, 4))
    outbox = Outbox(plan)
    line = line_from(plan, outbox, application.pipelines[pipeline], 0)
    assert "failed_" in "".join(linecache.getlines(line.__code__.co_filename))
    return outbox, line
