"""Everything public is documented in one style: a sentence, its arguments, what it returns, and an example."""

import inspect
import typing
from collections.abc import Callable
from types import FunctionType

import pytest

import wallaroo
from wallaroo import testing

UPCOMING = "wallaroo.api.upcoming"
PUBLIC = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in (wallaroo, testing)
    for name in module.__all__
    # Other names for types say what they mean where they are defined.
    if isinstance(thing := getattr(module, name), Callable)
    and typing.get_origin(thing) is None
    and thing.__module__ != UPCOMING
}
FUNCTIONS = {name: thing for name, thing in PUBLIC.items() if not inspect.isclass(thing)}
PLAIN_ERRORS = {wallaroo.WallarooError, wallaroo.WallarooParameterError}
"""They are raised, not made."""
CLASSES = {name: thing for name, thing in PUBLIC.items() if inspect.isclass(thing) and thing not in PLAIN_ERRORS}
METHODS = {
    f"{owner.__name__}.{name}": method
    for owner in (wallaroo.ApplicationBuilder, wallaroo.Pipeline, testing.InMemory)
    for name, method in vars(owner).items()
    if isinstance(method, FunctionType | property) and not name.startswith("_")
}
PROTOCOLS = {
    f"{owner.__name__}.{name}": method
    for owner in PUBLIC.values()
    if getattr(owner, "_is_protocol", False)
    for name, method in vars(owner).items()
    if isinstance(method, FunctionType | property) and not name.startswith("_")
}


def signature(function):
    return inspect.signature(function.fget if isinstance(function, property) else function)


def parameters(function):
    return [name for name in signature(function).parameters if name != "self"]


def section(documentation, title):
    """Return the lines of a section, without what comes after it."""
    _, found, rest = documentation.partition(f"\n\n{title}:\n")
    return rest.partition("\n\n")[0] if found else ""


CALLED = {**FUNCTIONS, **METHODS, **PROTOCOLS}


@pytest.mark.parametrize("function", CALLED.values(), ids=CALLED)
def test_functions_and_methods(function):
    documentation = inspect.getdoc(function)
    first = documentation.splitlines()[0]
    assert first.endswith(".")
    described = section(documentation, "Args")
    assert not [name for name in parameters(function) if f"    {name}: " not in described]
    if not isinstance(function, property):
        returns = signature(function).return_annotation
        assert bool(section(documentation, "Returns")) == (returns != "None")


# The example of an interface shows all its methods.
SHOWN = {**FUNCTIONS, **CLASSES, **METHODS}


@pytest.mark.parametrize("thing", SHOWN.values(), ids=SHOWN)
def test_examples(thing):
    assert "\n>>> " in inspect.getdoc(thing)
