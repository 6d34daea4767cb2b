"""Classes that have other names, or other attributes, than when their objects were saved."""

import pickle
import sys
from types import ModuleType
from typing import NamedTuple

import pytest

import wallaroo
from wallaroo import class_changes
from wallaroo.class_changes import explain_missing_attribute, loads
from wallaroo.engine.stages.live_state import MemoryStore, StateLog
from wallaroo.engine.transport.dead_letter_record import Place, key_in, make_letter, message_in
from wallaroo.engine.transport.serializer import Serializer
from wallaroo.errors import SavedStateError


@pytest.fixture(autouse=True)
def forget(monkeypatch):
    """Begin each test without renamings and upgrades, and leave none behind."""
    monkeypatch.setattr(class_changes, "_renamed", {})
    monkeypatch.setattr(class_changes, "_upgrades", {})


@pytest.fixture
def module(monkeypatch):
    """Return a module of a program, which tests change as users do."""
    made = ModuleType("changing_program")
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made


def define(module, name, *bases, **attributes):
    made = type(name, bases, {"__module__": module.__name__, **attributes})
    setattr(module, name, made)
    return made


def state(kind, **attributes):
    made = kind()
    made.__dict__.update(attributes)
    return made


class Saved:
    """States as a run has saved them."""

    def __init__(self, states, serializer=None, run="run 0"):
        self.store = MemoryStore("totals")
        self._serializer = serializer or Serializer()
        log = self.log(run)
        bucket = log.open(self.store)
        bucket.objects.update(states)
        log.save(bucket, self.store, set(states), set(states))

    def log(self, run="run 1"):
        return StateLog(self._serializer, run)

    def loaded(self, run="run 1"):
        return self.log(run).open(self.store).objects


@pytest.mark.parametrize("many", [1, 40], ids=["one", "packed in columns"])
def test_a_class_with_another_name(module, many):
    old = define(module, "Totals")
    saved = Saved({key: state(old, number=key) for key in range(many)})
    del module.Totals
    new = define(module, "WordTotals")
    with pytest.raises(SavedStateError) as refused:
        saved.loaded()
    assert refused.value.exit_code == 3
    assert str(refused.value) == (
        "State 'totals' was saved with objects of the class changing_program.Totals, which no longer "
        f"exists (AttributeError: {refused.value.__cause__}). If it has another name or module now, write "
        'wallaroo.renamed("changing_program.Totals", NewName) below the class; otherwise restore it, or start fresh '
        "with --reset, which archives the saved states."
    )
    wallaroo.renamed("changing_program.Totals", new)
    assert [(type(each), each.number) for each in saved.loaded().values()] == [(new, key) for key in range(many)]


def test_a_module_that_no_longer_exists(module, monkeypatch):
    saved = Saved({"a": [state(define(module, "Totals"), number=1)]})
    monkeypatch.delitem(sys.modules, module.__name__)
    with pytest.raises(SavedStateError, match=r"class changing_program\.Totals, .*No module named 'changing_program'"):
        saved.log().try_loading(saved.store)
    wallaroo.renamed("changing_program.Totals", dict)
    with pytest.raises(SavedStateError, match="cannot load any more"):
        saved.log().try_loading(saved.store)


def test_classes_inside_classes_messages_keys_and_what_an_application_packs_itself(module):
    inner = define(module, "Inner")
    inner.__qualname__ = "Outer.Inner"
    module.Outer = type("Outer", (), {"Inner": inner})
    key = define(module, "Key", __hash__=lambda self: 7, __eq__=lambda self, other: type(self) is type(other))
    message, key_object = state(inner, number=5), key()
    packed = wallaroo.serialize(message)
    letter = make_letter(
        Place("p", "s", "step 1"), message, ValueError(), key=key_object, origin={}, serializer=Serializer()
    )
    travelled = Serializer().dump_messages({key_object: [message]})
    del module.Outer, module.Key
    other, other_key = define(module, "Other"), define(module, "OtherKey", __hash__=lambda self: 7)
    wallaroo.renamed("changing_program.Outer.Inner", other)
    wallaroo.renamed("changing_program.Key", other_key)
    ((found_key, (found,)),) = Serializer().load_messages(travelled).items()
    assert (type(found_key), type(found), found.number) == (other_key, other, 5)
    for each in (wallaroo.deserialize(packed), message_in(letter, Serializer())):
        assert (type(each), each.number) == (other, 5)
    assert type(key_in(letter)) is other_key


def built():
    config = wallaroo.TCPSourceConfig("127.0.0.1", "0", wallaroo.decoder(bytes.decode))
    return wallaroo.build_application("app", wallaroo.source("p", config))


def test_a_former_name_that_another_class_has_now_is_refused(module):
    new = define(module, "WordTotals")
    wallaroo.renamed("changing_program.Totals", new)
    built()
    define(module, "Totals")
    with pytest.raises(wallaroo.WallarooParameterError) as refused:
        built()
    assert str(refused.value) == (
        "The application 'app' has a mistake:\n  - wallaroo.renamed(\"changing_program.Totals\", WordTotals) says that "
        "changing_program.Totals is WordTotals now, but there is another class changing_program.Totals, whose objects "
        "would be loaded as WordTotals: give that class a name that was never used; or, if nothing saved has the old "
        "name any more, remove the line with wallaroo.renamed."
    )


def test_names_that_were_handed_on_from_class_to_class_are_refused(module):
    wallaroo.renamed("changing_program.A", define(module, "B"))
    wallaroo.renamed("changing_program.B", define(module, "C"))
    with pytest.raises(wallaroo.WallarooParameterError, match=r'renamed\("changing_program\.B", C\) says'):
        built()


def test_a_class_inside_another_one_that_has_a_former_name_is_refused(module):
    outer = define(module, "Outer")
    outer.Inner = type("Inner", (), {"__module__": module.__name__, "__qualname__": "Outer.Inner"})
    wallaroo.renamed("changing_program.Outer.Inner", define(module, "Other"))
    with pytest.raises(wallaroo.WallarooParameterError, match=r"another class changing_program\.Outer\.Inner"):
        built()


def test_what_only_looks_like_a_former_name_is_allowed(module, monkeypatch):
    new = define(module, "WordTotals")
    wallaroo.renamed("changing_program.Totals", new)
    module.Totals = new  # Other modules of the program may still import it by that name.
    built()
    module.Totals = dict  # It is saved by its own name.
    built()
    module.Totals = lambda: new
    built()
    monkeypatch.delitem(sys.modules, module.__name__)
    built()


def test_without_renamings_pickle_itself_loads(monkeypatch):
    monkeypatch.setattr(class_changes, "_Unpickler", None)
    assert loads(pickle.dumps({"a": 1})) == {"a": 1}


@pytest.mark.parametrize("many", [1, 40], ids=["one", "packed in columns"])
def test_a_class_that_has_got_a_setstate(module, many):
    old = define(module, "Totals")
    saved = Saved({key: state(old, number=key) for key in range(many)})

    def __setstate__(self, attributes):  # noqa: N807
        self.__dict__.update({"history": [], **attributes})

    define(module, "Totals", __setstate__=__setstate__)
    assert [(each.number, each.history) for each in saved.loaded().values()] == [(key, []) for key in range(many)]


def test_attributes_that_have_become_properties_or_slots(module):
    old = define(module, "Totals")
    saved = Saved({key: state(old, number=key) for key in range(3)})
    define(module, "Totals", number=property(lambda self: self.__dict__["number"] * 2))
    assert [each.number for each in saved.loaded().values()] == [0, 2, 4]
    define(module, "Totals", __slots__=("number",))
    assert [each.number for each in saved.loaded().values()] == [0, 1, 2]


class Pair(NamedTuple):
    one: int
    two: int


def test_a_named_tuple_with_one_more_field(module, monkeypatch):
    monkeypatch.setattr(Pair, "__module__", module.__name__)
    module.Pair = Pair
    saved = Saved({key: Pair(key, 2) for key in range(40)})

    class Longer(NamedTuple):
        one: int
        two: int
        three: str = "new"

    module.Pair = Longer
    assert saved.loaded()[7] == (7, 2, "new")


def test_states_are_upgraded_when_they_come_from_an_earlier_run(module):
    totals = define(module, "Totals")
    special = define(module, "Special", totals)
    saved = Saved({"a": state(totals, number=1), "b": state(special, number=2), "c": "other"})
    calls = []

    @wallaroo.state_upgrade(totals)
    def add_history(totals):
        calls.append(totals.number)
        if not hasattr(totals, "history"):
            totals.history = []

    found = saved.loaded()
    assert (found["a"].history, found["b"].history, found["c"]) == ([], [], "other")
    assert sorted(calls) == [1, 2]
    # What the run itself writes is up to date.
    calls.clear()
    saved = Saved(found, run="run 1")
    assert saved.loaded("run 1").keys() == {"a", "b", "c"}
    assert calls == []
    saved.loaded("run 2")
    assert sorted(calls) == [1, 2]


def test_an_upgrade_may_return_another_object(module):
    saved = Saved({"a": {"number": 3}})
    totals = define(module, "Totals")
    wallaroo.state_upgrade(dict)(lambda old: state(totals, **old))
    assert saved.loaded()["a"].number == 3


@pytest.mark.parametrize("error", [KeyError("history"), SystemExit(3)])
def test_an_upgrade_that_fails_is_reported(module, error):
    saved = Saved({"a": state(define(module, "Totals"))})

    @wallaroo.state_upgrade(module.Totals)
    def add_history(totals):
        raise error

    with pytest.raises(SavedStateError) as refused:
        saved.loaded()
    text = str(refused.value)
    assert "State 'totals' was saved with objects that the application cannot load any more" in text
    assert "in add_history\n    raise error\n" in text
    assert "__setstate__, or a function with @wallaroo.state_upgrade above it), or start fresh with --reset" in text


def test_running_out_of_memory_is_not_reported_as_a_fault_of_the_program():
    def deserialize(data):
        raise MemoryError

    saved = Saved({"a": 1}, Serializer(lambda each: b"", deserialize))
    with pytest.raises(MemoryError):
        saved.loaded()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("Totals", dict, "got 'Totals' (a str). For example, wallaroo.renamed(\"word_count.Totals\", WordTotals)."),
        ("word-count.Totals", dict, "got 'word-count.Totals' (a str)"),
        (dict, dict, "got the class dict"),
        ("word_count.Totals", "WordTotals", "takes the class that it is now; got 'WordTotals' (a str)"),
    ],
)
def test_invalid_renamings(old, new, said):
    with pytest.raises(wallaroo.WallarooParameterError) as refused:
        wallaroo.renamed(old, new)
    assert said in str(refused.value)


def test_invalid_upgrades():
    with pytest.raises(wallaroo.WallarooParameterError, match="takes the class of the states; got the function len"):
        wallaroo.state_upgrade(len)
    with pytest.raises(wallaroo.WallarooParameterError, match=r"of one argument, the state, below it; got two\(a, b\)"):

        @wallaroo.state_upgrade(dict)
        def two(a, b):
            pass


class Totals:
    def __init__(self):
        self.history = []


def noted(read, make=Totals):
    try:
        read()
    except Exception as error:  # noqa: BLE001 - whichever
        explain_missing_attribute(error, make)
        explain_missing_attribute(error, make)
        return getattr(error, "__notes__", [])
    raise AssertionError("nothing was raised")


def test_an_attribute_that_new_states_have_is_explained_once():
    old = Totals.__new__(Totals)
    (note,) = noted(lambda: old.history)
    assert note == (
        "A new Totals has the attribute 'history', and this one does not: it was probably saved before the class had "
        "it. Give the class a default (`history = ...` below `class Totals:`), or add the attribute when states are "
        "loaded, in a function with @wallaroo.state_upgrade(Totals) above it. Then replay the dead letters."
    )


def test_other_errors_are_left_alone():
    def fails():
        raise RuntimeError("no")

    old = Totals.__new__(Totals)
    assert noted(lambda: Totals().misspelt) == []
    assert noted(lambda: None.history) == []
    assert noted(lambda: {}["history"]) == []
    assert noted(lambda: old.history, fails) == []
    assert noted(lambda: old.history, dict) == []
