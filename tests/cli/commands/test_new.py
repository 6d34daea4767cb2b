"""`wallaroo new`, and what it makes."""

import re
import sys

import pytest
from tests.processes import WALLAROO, environment, run_to_end


def run(*command, folder):
    return run_to_end(*command, cwd=folder, env=environment(), code=None)


def new(name, folder):
    return run(*WALLAROO, "new", name, folder=folder)


def test_the_files_and_the_output(tmp_path):
    done = new("fruit_stand", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "fruit_stand/\n"
        "  fruit_stand.py       the application\n"
        "  test_fruit_stand.py  its test\n"
        "  README.md            how to run it\n"
        "  .gitignore\n"
        "\n"
        "Next:\n"
        "  cd fruit_stand\n"
        "  python -m pytest            run the test, without Spark\n"
        "  wallaroo check fruit_stand  draw the application\n"
        "README.md explains how to run it.\n"
    )
    made = {path.name: path.read_text() for path in (tmp_path / "fruit_stand").iterdir()}
    assert set(made) == {"fruit_stand.py", "test_fruit_stand.py", "README.md", ".gitignore"}
    assert 'ApplicationBuilder("Fruit Stand")' in made["fruit_stand.py"]
    assert made["README.md"].startswith("# Fruit Stand\n")
    assert not any("$" in text for text in made.values())
    assert max(len(line) for text in made.values() for line in text.splitlines()) <= 120


def test_its_test_passes_and_can_fail(tmp_path):
    new("fruit_stand", tmp_path)
    project = tmp_path / "fruit_stand"
    done = run(sys.executable, "-m", "pytest", folder=project)
    assert done.returncode == 0, done.stdout
    assert re.search(r"=+ 2 passed in", done.stdout)

    program = project / "fruit_stand.py"
    program.write_text(program.read_text().replace("+= amount", "-= amount"))
    done = run(sys.executable, "-m", "pytest", folder=project)
    assert done.returncode == 1, done.stdout


def test_it_has_no_mistakes(tmp_path):
    new("fruit_stand", tmp_path)
    done = run(*WALLAROO, "check", "fruit_stand", folder=tmp_path / "fruit_stand")
    assert done.returncode == 0, done.stderr
    assert "│ add up           ├──▶│ TCP 127.0.0.1:7002 │" in done.stdout
    assert done.stdout.endswith("\nNo mistakes.\n")


def test_an_empty_folder_is_used_and_any_other_is_refused(tmp_path):
    project = tmp_path / "fruit"
    project.mkdir()
    assert new("fruit", tmp_path).returncode == 0
    (project / "fruit.py").write_text("mine")
    done = new("fruit", tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Error: The folder fruit is not empty. Choose another name, or move it away.\n"
    assert (project / "fruit.py").read_text() == "mine"


def test_a_file_of_that_name_is_refused(tmp_path):
    (tmp_path / "fruit").write_text("mine")
    done = new("fruit", tmp_path)
    assert (done.returncode, done.stderr) == (1, "Error: fruit is a file. Choose another name, or move it away.\n")
    assert (tmp_path / "fruit").read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("fruit-stand", "fruit_stand"),
        ("Fruit Stand!", "fruit_stand"),
        ("some/where/fruit", "fruit"),
        ("fruit.py", "fruit_py"),
        ("2fruits", "my_2fruits"),
        ("import", "my_import"),
        ("string", "my_string"),
        ("wallaroo", "my_wallaroo"),
        ("click", "my_click"),
    ],
)
def test_a_name_that_cannot_be_a_module_and_what_to_write_instead(tmp_path, name, instead):
    done = new(name, tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith(f" Write: wallaroo new {instead}\n")
    assert list(tmp_path.iterdir()) == []
    assert new(instead, tmp_path).returncode == 0


def test_a_module_of_that_name_beside_the_folder_is_no_conflict(tmp_path):
    (tmp_path / "fruit.py").touch()
    assert new("fruit", tmp_path).returncode == 0
