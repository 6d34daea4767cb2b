"""What a file in the current folder can, and cannot, take the place of."""

import os
from pathlib import Path

import pytest
from tests.processes import run_python

import wallaroo
from wallaroo.cli.loading import import_application
from wallaroo.errors import ApplicationError

SOURCES = str(Path(wallaroo.__file__).parents[1])

# It imports the application as machida does, and then what machida and the application need.
PROGRAM = """
import os, sys
from wallaroo.cli.loading import import_application
module = import_application(sys.argv[1])
import colorsys, numpy
print(module.__file__, getattr(module, "helper", None), colorsys.__file__, numpy.__file__, sep="\\n")
print(os.environ["PYTHONPATH"])
"""
# How machida tells another process to build the application, and how that does it.
SEND = """
import json, sys
from pathlib import Path
from wallaroo.cli.loading import import_application
from wallaroo.program import Program
import_application(sys.argv[1])
program = Program(sys.argv[1], "application_setup", ("an argument",))
Path("../program").write_text(json.dumps(program.instructions(program.setup()([]))))
"""
RECEIVE = """
import json, sys
from pathlib import Path
from wallaroo.program import build
application, module = build(json.loads(Path("../program").read_text()), "another process")
import colorsys, numpy
print(module.__file__, module.helper, colorsys.__file__, numpy.__file__, sep="\\n")
"""
APPLICATION = """
from goods import helper
from wallaroo.topology.model import Application

def application_setup(args):
    return Application("shop", ())
"""
PLANTED = "raise SystemExit('a planted module was imported: ' + __file__)\n"


@pytest.fixture
def here(tmp_path):
    """Return a folder that contains modules with well-known names."""
    folder = tmp_path / "here"
    folder.mkdir()
    for name in ("colorsys", "numpy"):
        (folder / f"{name}.py").write_text(PLANTED)
    return folder


@pytest.fixture
def elsewhere(tmp_path):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder


def load(name, folder, *path, how=("-c", PROGRAM)):
    """Import an application in a process of its own; return what it prints, and what it says to the user."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [SOURCES, *path]))}
    done = run_python(*how, name, cwd=folder, env=environment)
    return done.stdout.splitlines(), done.stderr


@pytest.mark.parametrize("entries", [[], [""], ["", ""]])
def test_the_current_folder_hides_nothing_from_an_application_from_elsewhere(here, elsewhere, entries):
    (elsewhere / "shop.py").write_text("import colorsys\n")
    (file, _, colors, numpy, path), said = load("shop", here, *entries, elsewhere, *entries)
    assert file == str(elsewhere / "shop.py")
    assert not Path(colors).is_relative_to(here)
    assert not Path(numpy).is_relative_to(here)
    assert path == os.pathsep.join([SOURCES, str(elsewhere)])
    assert said == ""


def test_nor_does_it_where_python_itself_has_put_it_first(here, elsewhere, tmp_path):
    (elsewhere / "shop.py").write_text("import colorsys\n")
    (elsewhere / "program.py").write_text(PROGRAM)
    (_, _, colors, numpy, _), _ = load("shop", here, elsewhere, how=("-m", "program"))
    assert not Path(colors).is_relative_to(here)
    assert not Path(numpy).is_relative_to(here)


def test_an_application_finds_the_modules_beside_it_and_hides_none_of_the_others(here):
    (here / "shop.py").write_text("import colorsys\nfrom goods import helper\n")
    (here / "goods.py").write_text("helper = 'found'\n")
    (file, helper, colors, numpy, _), said = load("shop", here)
    assert (file, helper) == (str(here / "shop.py"), "found")
    assert not Path(colors).is_relative_to(here)
    assert not Path(numpy).is_relative_to(here)
    assert said == (
        f"colorsys.py in this folder is not what `import colorsys` finds: that is {colors}. "
        "Rename yours if the application needs it.\n"
    )


# One that is elsewhere on the path, one of Python's own, and one of a package that is installed.
@pytest.mark.parametrize("name", ["shop", "turtledemo", "py4j"])
def test_an_application_in_the_current_folder_comes_before_others_of_its_name_and_alone(here, elsewhere, name):
    (here / f"{name}.py").write_text("from goods import helper\n")
    (here / "goods.py").write_text("helper = 'here'\n")
    (elsewhere / "shop.py").write_text("helper = 'elsewhere'\n")
    (file, helper, colors, numpy, _), _ = load(name, here, elsewhere)
    assert (file, helper) == (str(here / f"{name}.py"), "here")
    assert not Path(colors).is_relative_to(here)
    assert not Path(numpy).is_relative_to(here)


@pytest.mark.parametrize("name", ["shop", "turtledemo", "py4j"])
def test_nor_does_it_hide_others_in_the_processes_that_are_started(here, elsewhere, name):
    (here / name).mkdir()
    (here / name / "__init__.py").write_text(APPLICATION)
    (here / "goods.py").write_text("helper = 'here'\n")
    load(name, here, how=("-c", SEND))
    (file, helper, colors, numpy), _ = load(name, elsewhere, how=("-P", "-c", RECEIVE))
    assert (file, helper) == (str(here / name / "__init__.py"), "here")
    assert not Path(colors).is_relative_to(here)
    assert not Path(numpy).is_relative_to(here)


def test_what_is_hidden_by_a_folder_inside_the_current_one_is_reported_too(here):
    (here / "shop.py").write_text("from goods import helper\nimport offers\n")
    (here / "goods.py").write_text("helper = 'hidden'\n")
    (here / "offers").mkdir()
    (here / "offers" / "__init__.py").write_text("")
    # As if the virtual environment were inside the project.
    installed = here / ".venv" / "site-packages"
    installed.mkdir(parents=True)
    (installed / "goods.py").write_text("helper = 'installed'\n")
    (_, helper, *_), said = load("shop", here, installed)
    assert helper == "installed"
    assert said == (
        f"goods.py in this folder is not what `import goods` finds: that is {installed / 'goods.py'}. "
        "Rename yours if the application needs it.\n"
    )


@pytest.mark.parametrize("variable", [":", "", "::"])
def test_a_path_of_nothing_but_empty_entries_does_not_name_the_current_folder(here, variable):
    # Wallaroo itself is found without the variable.
    program = f"import sys\nsys.path.insert(1, {SOURCES!r})\n{PROGRAM}"
    done = run_python("-P", "-c", program, "json", cwd=here, env={**os.environ, "PYTHONPATH": variable})
    *_, numpy, path = done.stdout.splitlines()
    assert not Path(numpy).is_relative_to(here)
    assert path == ""


def test_a_current_folder_that_was_deleted_is_reported(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(ApplicationError, match=r"The current folder no longer exists.* Change to one that exists"):
        import_application("shop")


def test_a_folder_that_only_has_the_name_of_the_application_is_not_taken_for_it(here, elsewhere):
    (here / "shop").mkdir()
    (elsewhere / "shop").mkdir()
    (elsewhere / "shop" / "__init__.py").write_text("import colorsys\n")
    (file, _, _, numpy, _), _ = load("shop", here, elsewhere)
    assert file == str(elsewhere / "shop" / "__init__.py")
    assert not Path(numpy).is_relative_to(here)


def test_a_current_folder_named_in_the_path_is_kept(here):
    (here / "shop.py").write_text("import goods\nhelper = goods.helper\n")
    (here / "goods.py").write_text("helper = 'found'\n")
    for name in ("colorsys", "numpy"):
        (here / f"{name}.py").write_text("")
    (_, helper, colors, _, path), _ = load("shop", here, ".")
    assert helper == "found"
    assert colors == str(here / "colorsys.py")
    assert path == os.pathsep.join([SOURCES, "."])
