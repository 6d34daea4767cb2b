"""Everything public is documented in one style: a sentence, its arguments, what it returns, and an example."""

import inspect

import pytest

import wallaroo
from wallaroo import testing

UPCOMING = "wallaroo.api.upcoming"
PUBLIC = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in (wallaroo, testing)
    for name in module.__all__
    if callable(getattr(module, name)) and getattr(module, name).__module__ != UPCOMING
}
FUNCTIONS = {name: thing for name, thing in PUBLIC.items() if not inspect.isclass(thing)}
PLAIN_ERRORS = {wallaroo.WallarooError, wallaroo.WallarooParameterError}
"""They are raised, not made."""
CLASSES = {name: thing for name, thing in PUBLIC.items() if inspect.isclass(thing) and thing not in PLAIN_ERRORS}
METHODS = {
    f"{owner.__name__}.{name}": method
    for owner in (wallaroo.ApplicationBuilder, wallaroo.Pipeline, testing.InMemory)
    for name, method in vars(owner).items()
    if inspect.isfunction(method) and not name.startswith("_")
}


def parameters(function):
    return [name for name in inspect.signature(function).parameters if name != "self"]


def section(documentation, title):
    """Return the lines of a section, without what comes after it."""
    _, found, rest = documentation.partition(f"\n\n{title}:\n")
    return rest.partition("\n\n")[0] if found else ""


@pytest.mark.parametrize("function", [*FUNCTIONS.values(), *METHODS.values()], ids=[*FUNCTIONS, *METHODS])
def test_functions_and_methods(function):
    documentation = inspect.getdoc(function)
    first = documentation.splitlines()[0]
    assert first.endswith(".")
    described = section(documentation, "Args")
    assert not [name for name in parameters(function) if f"    {name}: " not in described]
    returns = inspect.signature(function).return_annotation
    assert bool(section(documentation, "Returns")) == (returns != "None")


@pytest.mark.parametrize("thing", [*FUNCTIONS.values(), *CLASSES.values()], ids=[*FUNCTIONS, *CLASSES])
def test_examples(thing):
    assert "\n>>> " in inspect.getdoc(thing)
