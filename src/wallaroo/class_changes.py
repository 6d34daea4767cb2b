"""Classes of states and messages that changed since they were saved: renamed, moved, or with new attributes.

Saved objects refer to classes by module and name, and have the attributes they had then. A program declares here what
has changed. Every process of a run imports the program, so all of them know.
"""

from __future__ import annotations

import inspect
import io
import pickle
import sys
from typing import TYPE_CHECKING, Any, TypeVar

from wallaroo.errors import WallarooParameterError
from wallaroo.introspection import a_kind_of, accepts, call_text, label

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Upgrade = TypeVar("Upgrade", bound="Callable[[Any], Any]")

_renamed: dict[str, type] = {}
_upgrades: dict[type, Callable[[Any], Any]] = {}


class MissingClassError(Exception):
    """Saved data contains an object of a class that no longer exists; the text is its name."""


def renamed(old: str, new: type) -> None:
    """Declare that a class of states or messages used to have another name, or was in another module.

    Write this below the class, and keep it: states that get no messages keep the old name on disk. No other class may
    get the old name: its objects would be loaded as objects of `new`. An application is not built then.

    Args:
        old: The former module and name of the class, as in "word_count.Totals".
        new: The class as it is now.

    Raises:
        WallarooParameterError: `old` is not such a name, or `new` is not a class.

    >>> class WordTotals:
    ...     pass
    >>> renamed("word_count.Totals", WordTotals)
    """
    if not isinstance(old, str) or not all(part.isidentifier() for part in old.split(".")) or "." not in old:
        raise WallarooParameterError(
            f"wallaroo.renamed takes the module and the name that the class had, in quotes; got {a_kind_of(old)}. "
            'For example, wallaroo.renamed("word_count.Totals", WordTotals).'
        )
    if not inspect.isclass(new):
        raise WallarooParameterError(
            f'wallaroo.renamed("{old}", ...) takes the class that it is now; got {a_kind_of(new)}. For example, '
            f'wallaroo.renamed("{old}", WordTotals).'
        )
    _renamed[old] = new


def renaming_mistakes() -> Iterator[str]:
    """Check that no former name has been given to another class, as its objects could not be distinguished.

    Yields:
        A sentence for each such name.
    """
    for old, new in _renamed.items():
        again = _class_called(old)
        if again is not None and again is not new:
            now = new.__name__
            yield (
                f'wallaroo.renamed("{old}", {now}) says that {old} is {now} now, but there is another class {old}, '
                f"whose objects would be loaded as {now}: give that class a name that was never used; or, if nothing "
                "saved has the old name any more, remove the line with wallaroo.renamed"
            )


def _class_called(name: str) -> type | None:
    """Return the class that objects refer to by this name when they are saved, or None if there is none."""
    module, _, qualified = name.rpartition(".")
    while module and module not in sys.modules:
        module, _, outer = module.rpartition(".")
        qualified = f"{outer}.{qualified}"
    found: Any = sys.modules.get(module)
    for part in qualified.split("."):
        found = getattr(found, part, None)
    # What is only imported there has another name when it is saved.
    is_defined_there = inspect.isclass(found) and (found.__module__, found.__qualname__) == (module, qualified)
    return found if is_defined_there else None


def state_upgrade(state_class: type) -> Callable[[Upgrade], Upgrade]:
    """Register a function that upgrades each state of a class when it is first loaded from disk in a run.

    The function gets the state as it was saved, and changes it, or returns another object to use instead. It may get a
    state that an earlier run has already upgraded, so it must check before it changes anything. It must be
    deterministic, because states are loaded again after a failure. If new attributes have one value for all states, a
    default in the class is enough.

    Args:
        state_class: The class of the states; subclasses are included.

    Returns:
        A decorator, which returns the function unchanged.

    Raises:
        WallarooParameterError: `state_class` is not a class, or what is decorated does not take one argument.

    >>> class Totals:
    ...     def __init__(self):
    ...         self.total = 0
    ...         self.history = []
    >>> @state_upgrade(Totals)
    ... def add_history(totals):
    ...     if not hasattr(totals, "history"):
    ...         totals.history = []
    """
    if not inspect.isclass(state_class):
        raise WallarooParameterError(
            f"@wallaroo.state_upgrade takes the class of the states; got {a_kind_of(state_class)}. For example, "
            "@wallaroo.state_upgrade(Totals)."
        )

    def register(function: Upgrade) -> Upgrade:
        if not callable(function) or not accepts(function, 1):
            written = call_text(function, label(function)) if callable(function) else a_kind_of(function)
            raise WallarooParameterError(
                f"@wallaroo.state_upgrade({state_class.__name__}) needs a function of one argument, the state, below "
                f"it; got {written}."
            )
        _upgrades[state_class] = function
        return function

    return register


def loads(data: bytes | memoryview) -> Any:
    """Unpickle data, resolving former class names to the current classes."""
    return _Unpickler(io.BytesIO(data)).load() if _renamed else pickle.loads(data)


def missing_class(data: bytes) -> MissingClassError | None:
    """Return the first class that pickled data refers to and that does not exist, or None if there is none."""
    try:
        _Unpickler(io.BytesIO(data)).load()
    except MissingClassError as missing:
        return missing
    except (Exception, SystemExit):  # noqa: BLE001 - code of the user's.
        return None
    return None


class _Unpickler(pickle.Unpickler):
    """Resolves former names of classes."""

    def find_class(self, module: str, name: str) -> Any:
        full = f"{module}.{name}"
        if full in _renamed:
            return _renamed[full]
        try:
            return super().find_class(module, name)
        except (ImportError, AttributeError) as error:
            raise MissingClassError(full) from error


def upgraded(states: dict[Any, Any]) -> dict[Any, Any]:
    """Return states, by key, upgraded by the functions that the program registered for their classes."""
    if not _upgrades:
        return states
    by_class = {kind: _upgrade_of(kind) for kind in set(map(type, states.values()))}
    return {key: _upgraded(state, by_class[type(state)]) for key, state in states.items()}


def _upgrade_of(kind: type) -> Callable[[Any], Any] | None:
    return next((_upgrades[each] for each in kind.__mro__ if each in _upgrades), None)


def _upgraded(state: Any, upgrade: Callable[[Any], Any] | None) -> Any:
    made = None if upgrade is None else upgrade(state)
    return state if made is None else made


def explain_missing_attribute(error: BaseException, make: Callable[[], Any]) -> None:
    """Add a note with a remedy to an error if a state lacks an attribute that one created by `make` has.

    >>> class Totals:
    ...     def __init__(self):
    ...         self.history = []
    >>> old = Totals.__new__(Totals)
    >>> try:
    ...     old.history
    ... except AttributeError as error:
    ...     explain_missing_attribute(error, Totals)
    ...     print(error.__notes__[0].partition(".")[0])
    A new Totals has the attribute 'history', and this one does not: it was probably saved before the class had it
    """
    if not isinstance(error, AttributeError) or not isinstance(error.name, str):
        return
    try:
        fresh = make()
        is_new = type(fresh) is type(error.obj) and hasattr(fresh, error.name) and not hasattr(error.obj, error.name)
    except (Exception, SystemExit):  # noqa: BLE001 - code of the user's.
        return
    kind = type(fresh).__name__
    note = (
        f"A new {kind} has the attribute {error.name!r}, and this one does not: it was probably saved before the class "
        f"had it. Give the class a default (`{error.name} = ...` below `class {kind}:`), or add the attribute when "
        f"states are loaded, in a function with @wallaroo.state_upgrade({kind}) above it. Then replay the dead letters."
    )
    if is_new and note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def why_not_loaded(state: str, data: bytes, error: BaseException, traceback: str) -> str:
    """Return why saved states cannot be loaded, and what to do.

    Args:
        state: The name of the state.
        data: The data that could not be loaded.
        error: What was raised.
        traceback: The lines of the user's code that raised it, if any.
    """
    way_out = "or start fresh with --reset, which archives the saved states"
    if (missing := missing_class(data)) is not None:
        cause = missing.__cause__
        return (
            f"State {state!r} was saved with objects of the class {missing}, which no "
            f"longer exists ({type(cause).__name__}: {cause}). If it has another name or module now, write "
            f'wallaroo.renamed("{missing}", NewName) below the class; otherwise restore it, {way_out}.'
        )
    return (
        f"State {state!r} was saved with objects that the application cannot load any more "
        f"({type(error).__name__}):\n{traceback}\nMake the class take what it had then (a default for a new attribute, "
        f"a method __setstate__, or a function with @wallaroo.state_upgrade above it), {way_out}."
    )
