"""The reference of the API: everything that users import is there, once, with a description of its arguments."""

import inspect
import re
from pathlib import Path

import pytest
from tools.reference_pages import filled

import wallaroo
from wallaroo import experimental, testing

PAGE = filled((Path(__file__).parents[2] / "docs" / "reference" / "api.md").read_text())
SHOWN = re.findall(r"^::: (wallaroo[\w.]*)$", PAGE, re.MULTILINE)
PUBLIC = [
    *(f"wallaroo.{name}" for name in wallaroo.__all__ if name != "__version__"),
    "wallaroo.testing",
    *(f"wallaroo.testing.{name}" for name in testing.__all__),
    # Some are in `wallaroo` as well, and the later spelling of two names is said beside them.
    *(
        f"wallaroo.experimental.{name}"
        for name in experimental.__all__
        if name not in wallaroo.__all__ and not name.startswith("stream_")
    ),
]


def found(name):
    """Return what has a name such as `wallaroo.testing.run`."""
    thing = wallaroo
    for part in name.split(".")[1:]:
        thing = getattr(thing, part)
    return thing


def is_protocol(thing):
    return getattr(thing, "_is_protocol", False)


def public_functions():
    """Yield everything that can be called with its name: functions, and methods of classes."""
    for name in PUBLIC:
        thing = found(name)
        if inspect.isfunction(thing):
            yield name, thing
        # The methods of an interface are described by what they return, in a line each.
        elif inspect.isclass(thing) and not is_protocol(thing):
            methods = (each for each in vars(thing).items() if inspect.isfunction(each[1]))
            yield from ((f"{name}.{method}", each) for method, each in methods if not method.startswith("_"))


FUNCTIONS = dict(public_functions())


def test_everything_that_users_import_is_on_the_page_once():
    assert sorted(SHOWN) == sorted(PUBLIC)
    assert "`wallaroo.__version__`" in PAGE


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_docstring_says_what_every_argument_is(name):
    text = inspect.getdoc(FUNCTIONS[name])
    arguments = [
        each.name
        for each in inspect.signature(FUNCTIONS[name]).parameters.values()
        if each.name != "self" and not each.name.startswith("_")
    ]
    described = re.findall(r"^ {4}(\w+): ", text.partition("Args:\n")[2], re.MULTILINE)
    assert set(arguments) <= set(described), text


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_docstring_says_what_comes_back(name):
    function = FUNCTIONS[name]
    returned = inspect.signature(function).return_annotation
    if returned not in {None, "None", "NoReturn", inspect.Signature.empty}:
        assert re.search(r"^Returns:\n {4}\S", inspect.getdoc(function), re.MULTILINE), name
