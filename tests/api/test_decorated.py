"""What decorated functions offer, and what is said, when an application is built, about those that cannot be used."""

import functools
import inspect

import pytest

import wallaroo


@wallaroo.computation("double")
def double(data):
    """Twice the data."""
    return data * 2


@wallaroo.computation_multi(name="both")
def both(data):
    return [data, data * 2]


@wallaroo.state_computation("add")
def add(data, state):
    state.append(data)
    return len(state), True


@wallaroo.state_computation_multi("add all")
def add_all(data, state):
    state.extend(data)
    return list(state), False


@wallaroo.partition
def parity(data):
    return data % 2


@wallaroo.key_extractor
def sign(data):
    return data < 0


@wallaroo.state_computation("collect", list)
def collected(data, state):
    state.append(data)
    return len(state)


@wallaroo.state_computation_multi(name="collect all", state=list)
def all_collected(data, state):
    state.append(data)
    return state


@wallaroo.encoder
def encode(data):
    return b"%d" % data


def test_a_decorated_function_is_called_like_the_function():
    assert double(data=4) == 8
    assert both(4) == [4, 8]
    assert add(1, []) == (1, True)
    assert add_all([1, 2], state=[0]) == ([0, 1, 2], False)
    assert parity(3) == 1
    assert sign(data=-3) is True
    assert collected(1, [2]) == 2
    assert all_collected(1, state=[2]) == [2, 1]
    assert encode(3) == b"3"


def test_every_part_has_a_name():
    parts = (double, both, add, add_all, parity, sign, collected, all_collected, encode)
    assert [part.name() for part in parts] == [
        "double", "both", "add", "add all", "parity", "sign", "collect", "collect all", "encode",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("part", "attribute"),
    [
        (double, "compute"),
        (both, "compute_multi"),
        (add, "compute"),
        (add_all, "compute_multi"),
        (parity, "partition"),
        (sign, "extract_key"),
        (collected, "compute"),
        (all_collected, "compute_multi"),
        (encode, "encode"),
    ],
)
def test_the_engine_gets_the_raw_function(part, attribute):
    assert inspect.isfunction(vars(part)[attribute])
    assert vars(part)[attribute] is part.__wrapped__


def test_single_and_multi_are_distinguished_by_their_method():
    assert not hasattr(double, "compute_multi")
    assert not hasattr(both, "compute")


def test_what_the_function_says_about_itself_is_kept():
    assert double.__doc__ == "Twice the data."
    assert double.__module__ == __name__
    assert double.__qualname__ == "double"
    assert list(inspect.signature(double).parameters) == ["data"]
    assert repr(double) == "<@wallaroo.computation 'double'>"


def test_functions_with_optional_arguments_fit():
    assert wallaroo.computation("scaled")(lambda data, by=3: data * by)(2) == 6
    assert wallaroo.state_computation("any")(lambda *both: (both, True))(1, 2) == ((1, 2), True)


def test_callables_other_than_functions_fit():
    assert wallaroo.computation("to int")(int)("42") == 42
    assert wallaroo.computation("upper")(str.upper)("a") == "A"
    from_base_two = wallaroo.computation("binary")(functools.partial(int, base=2))
    assert from_base_two("101") == 5
    assert from_base_two.__name__ == "int"


SOURCE = wallaroo.TCPSourceConfig("127.0.0.1", "0", wallaroo.decoder(bytes.decode))
SINK = wallaroo.TCPSinkConfig("127.0.0.1", "7002", encode)


def mistakes_of(builder):
    with pytest.raises(wallaroo.WallarooParameterError) as refused:
        builder.build()
    return str(refused.value).split("\n  - ")[1:]


def started(decoder=None):
    source = SOURCE if decoder is None else wallaroo.TCPSourceConfig("127.0.0.1", "0", decoder)
    return wallaroo.ApplicationBuilder("app").new_pipeline("words", source)


def used(part):
    """Return a builder that uses what a decorator gave, where such parts belong."""
    if hasattr(part, "own_state") or (hasattr(part, "stateful") and not part.stateful):
        return started().to(part)
    if hasattr(part, "stateful"):
        return started().to_stateful(part, dict, "state")
    if hasattr(part, "header_length"):
        return started(part)
    if hasattr(part, "encode"):
        return started().to_sink(wallaroo.TCPSinkConfig("127.0.0.1", "7002", part))
    return started().to_state_partition(add, list, "state", part)


NAMED = [
    wallaroo.computation,
    wallaroo.computation_multi,
    wallaroo.state_computation,
    wallaroo.state_computation_multi,
]


@pytest.mark.parametrize("decorator", NAMED)
@pytest.mark.parametrize(
    ("decorate", "got"),
    [
        (lambda decorator, function: decorator(function), ""),
        (lambda decorator, function: decorator()(function), ""),
        (lambda decorator, function: decorator("")(function), ""),
        (lambda decorator, function: decorator(5)(function), "; got 5 (an int)"),
        (lambda decorator, function: decorator(None)(function), "; got None"),
    ],
)
def test_the_error_for_a_decorator_without_a_name_says_what_to_write(decorator, decorate, got):
    def count_words(data, state=None):
        return data, state

    part = decorate(decorator, count_words)
    assert part(1, 2) == (1, 2)
    name = f"@wallaroo.{decorator.__name__}"
    (mistake,) = mistakes_of(used(part))
    assert mistake.endswith(f'count_words): {name} on count_words needs a name: write {name}("count_words"){got}.')


@pytest.mark.parametrize(
    ("decorator", "function", "expected"),
    [
        (wallaroo.computation("x"), lambda: 1, "must allow 1 argument, as in <lambda>(data)"),
        (wallaroo.computation_multi("x"), lambda data, state: 1, "it is written as <lambda>(data, state)"),
        (
            wallaroo.state_computation("x"),
            lambda data: 1,
            "must allow 2 arguments, as in <lambda>(data, state)",
        ),
        (
            wallaroo.state_computation_multi("x"),
            lambda data: 1,
            "@wallaroo.state_computation_multi on <lambda>",
        ),
        (
            wallaroo.partition,
            lambda: 1,
            "@wallaroo.partition on <lambda>: your function must allow 1 argument",
        ),
        (wallaroo.key_extractor, lambda: 1, "@wallaroo.key_extractor on <lambda>: your function must allow 1 argument"),
        (wallaroo.state_computation("x", dict), lambda data: 1, "must allow 2 arguments, as in <lambda>(data, state)"),
        (wallaroo.state_computation_multi("x", state=dict), lambda: 1, "@wallaroo.state_computation_multi on <lambda>"),
        (wallaroo.encoder, lambda data, more: 1, "@wallaroo.encoder on <lambda>"),
        (wallaroo.decoder, lambda: 1, "as in <lambda>(bs)"),
        (wallaroo.decoder(), lambda: 1, "as in <lambda>(bs)"),
    ],
)
def test_wrong_arity_is_a_mistake(decorator, function, expected):
    (mistake,) = mistakes_of(used(decorator(function)))
    assert expected in mistake


@pytest.mark.parametrize(
    "decorator",
    [
        wallaroo.computation("x"),
        wallaroo.state_computation("x", dict),
        wallaroo.partition,
        wallaroo.key_extractor,
        wallaroo.encoder,
        wallaroo.decoder(),
    ],
)
def test_only_callables_can_be_decorated(decorator):
    (mistake,) = mistakes_of(used(decorator(7)))
    assert mistake.endswith(" needs a function below it; got 7 (an int).")


def test_a_class_with_methods_needs_no_decorator():
    class Split:
        def __init__(self, separator, most):
            self.arguments = separator, most

        def compute_multi(self, data):
            return data.split()

    (mistake,) = mistakes_of(used(wallaroo.computation_multi("split")(Split)))
    assert "Split is a class. Either write a function Split(data), or leave the decorator out" in mistake


def test_all_mistakes_of_decorated_functions_are_listed_at_once():
    @wallaroo.decoder(8)
    def decoded(bs, more, most):
        return bs, more, most

    @wallaroo.state_computation(name="", state=5)
    def counted(data):
        return data

    sink = wallaroo.TCPSinkConfig("127.0.0.1", "7002", wallaroo.encoder(lambda: b""))
    mistakes = mistakes_of(started(decoded).to(counted).to(wallaroo.computation(double)).to_sink(sink))
    assert [mistake.partition(": ")[0] for mistake in mistakes] == [
        *["pipeline 'words'"] * 2,
        *["pipeline 'words', step 1 (to counted)"] * 3,
        "pipeline 'words', step 2 (to double)",
        "pipeline 'words', to_sink",
    ]


STATEFUL = [wallaroo.state_computation, wallaroo.state_computation_multi]


class Sized:
    def __init__(self, size):
        self.size = size


class Counts:
    pass


def test_only_a_state_that_was_given_is_brought():
    assert (collected.own_state, all_collected.own_state) == (list, list)
    assert not hasattr(add, "own_state")
    assert not hasattr(add_all, "own_state")


@pytest.mark.parametrize("decorator", STATEFUL)
@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({}, "the state must be a class, or an object with a build() method; got {} (a dict): give the class itself"),
        (None, "the state must be a class, or an object with a build() method; got None"),
        (Sized(1), "got Sized(...) (a Sized): give the class itself, Sized."),
        (Sized, "the state Sized cannot be made without arguments (Sized(size))"),
    ],
)
def test_a_state_that_is_no_state_is_a_mistake(decorator, state, expected):
    (mistake,) = mistakes_of(started().to(decorator("count", state)(lambda data, state: data)))
    where = "pipeline 'words', step 1 (to <lambda>): "
    assert mistake.startswith(f"{where}@wallaroo.{decorator.__name__} on <lambda>: the state ")
    assert expected in mistake


@pytest.mark.parametrize("decorator", STATEFUL)
@pytest.mark.parametrize("arguments", [(Counts, "count"), (Counts,)])
def test_the_name_comes_before_the_state(decorator, arguments):
    part = decorator(*arguments)(lambda data, state: data)
    name = f"@wallaroo.{decorator.__name__}"
    (mistake,) = mistakes_of(used(part))
    assert mistake.endswith(
        f': {name} takes the name first, and then the state: write {name}("what the step does", Counts).'
    )


@pytest.mark.parametrize("decorator", STATEFUL)
def test_a_state_without_a_name(decorator):
    (mistake,) = mistakes_of(used(decorator(state=dict)(lambda data, state: data)))
    assert "<lambda> needs a name" in mistake
