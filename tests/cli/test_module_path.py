"""What a file in the current folder can, and cannot, take the place of."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import wallaroo

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
PLANTED = "raise SystemExit('a planted module was imported: ' + __file__)\n"


@pytest.fixture
def here(tmp_path):
    """Return a folder in which somebody has put modules with well-known names."""
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
    """Import an application in a process of its own; return what it prints, and what it says to the person."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [SOURCES, *path]))}
    command = [sys.executable, *how, name]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
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
        "colorsys.py in this folder is not what `import colorsys` finds: Python, or a package that is installed, has a "
        "module of this name. Rename yours if the application needs it.\n"
    )


@pytest.mark.parametrize("name", ["shop", "turtledemo"])
def test_an_application_in_the_current_folder_comes_before_others_of_its_name(here, elsewhere, name):
    for planted in ("colorsys", "numpy"):
        (here / f"{planted}.py").unlink()
    (here / f"{name}.py").write_text("helper = 'here'\n")
    (elsewhere / "shop.py").write_text("helper = 'elsewhere'\n")
    (file, helper, *_), _ = load(name, here, elsewhere)
    assert (file, helper) == (str(here / f"{name}.py"), "here")


def test_a_folder_that_only_has_the_name_of_the_application_is_not_taken_for_it(here, elsewhere):
    (here / "shop").mkdir()
    (elsewhere / "shop").mkdir()
    (elsewhere / "shop" / "__init__.py").write_text("import colorsys\n")
    (file, _, _, numpy, _), _ = load("shop", here, elsewhere)
    assert file == str(elsewhere / "shop" / "__init__.py")
    assert not Path(numpy).is_relative_to(here)


def test_who_names_the_current_folder_in_the_path_gets_it(here):
    (here / "shop.py").write_text("import goods\nhelper = goods.helper\n")
    (here / "goods.py").write_text("helper = 'found'\n")
    for name in ("colorsys", "numpy"):
        (here / f"{name}.py").write_text("")
    (_, helper, colors, _, path), _ = load("shop", here, ".")
    assert helper == "found"
    assert colors == str(here / "colorsys.py")
    assert path == os.pathsep.join([SOURCES, "."])
