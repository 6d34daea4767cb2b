"""Options that machida does not know: the application's own, or a slip."""

import sys
from pathlib import Path
from types import ModuleType

import click
import pytest
from tests.processes import MACHIDA, environment, run_to_end

from wallaroo.cli.machida import main
from wallaroo.cli.misspellings import close_to, refuse_misspelled, split_arguments

KNOWN = [
    option
    for parameter in main.params
    if not getattr(parameter, "hidden", False)
    for option in parameter.opts
    if option.startswith("--")
]


@pytest.fixture
def program(tmp_path):
    """Write the source of a program, and return it as a module."""

    def write(source=""):
        made = ModuleType("program")
        made.__file__ = str(tmp_path / "program.py")
        Path(made.__file__).write_text(source)
        return made

    return write


@pytest.mark.parametrize(
    ("option", "meant"),
    [
        ("--resilence-dir", "--resilience-dir"),
        ("--resilience_dir", "--resilience-dir"),
        ("--resiliance-dir=state", "--resilience-dir"),
        ("--worker-counts", "--worker-count"),
        ("--reste", "--reset"),
        ("--mastre", "--master"),
        ("--on-eror", "--on-error"),
        ("--max-lag", "--max-log"),
        ("--spark-config", "--spark-conf"),
        ("--application-modul", "--application-module"),
        ("--application", "--application-module"),
        ("--resilience-directory", "--resilience-dir"),
        ("--state-dir=state", "--resilience-dir"),
        ("--workers", "--worker-count"),
        ("--conf", "--spark-conf"),
    ],
)
def test_a_slip_is_refused_with_what_was_meant_and_how_to_pass_it_on(program, option, meant):
    with pytest.raises(click.UsageError) as refused:
        refuse_misspelled(["--in", "127.0.0.1:0", option], KNOWN, program())
    bare = option.partition("=")[0]
    assert str(refused.value) == (
        f"no such option {bare}: did you mean {meant}? If {bare} is an option of the application, put `--` in front of "
        f"the application's own arguments: machida ... -- {option} ..."
    )


@pytest.mark.parametrize(
    "option",
    [
        "--in",
        "--out",
        "--input",
        "--output",
        "--topic",
        "--port",
        "--log",
        "--worker",
        "--max",
        "--name-of-topic",
        "--master-data",
        "--title",
        "--verbose",
        "--date",
    ],
)
def test_options_of_applications_are_not_taken_for_slips(option, program):
    assert close_to(option, KNOWN) is None
    refuse_misspelled([option], KNOWN, program())


@pytest.mark.parametrize("option", ["--workers", "--state-dir", "--application"])
def test_another_name_for_an_option_may_be_the_programs_own(option, program):
    refuse_misspelled([option], KNOWN, program(f"parser.add_argument('{option}')"))


def test_arguments_that_are_not_options_are_ignored(program):
    refuse_misspelled(["resilence-dir", "-reset", "--", "reset"], KNOWN, program())


@pytest.mark.parametrize("source", ["parser.add_argument('--bucket')", "'--bucket' in args", "# --bucket=NAME"])
def test_an_option_that_the_program_has_is_its_own(program, source):
    refuse_misspelled(["--bucket=a"], KNOWN, program(source))


@pytest.mark.parametrize("source", ["", "machida --buckets 8", "bucket", "--bucket-size"])
def test_an_option_that_it_does_not_have_is_not(program, source):
    with pytest.raises(click.UsageError, match="did you mean --buckets"):
        refuse_misspelled(["--bucket=a"], KNOWN, program(source))


def test_an_option_that_a_module_beside_the_program_has(program, tmp_path, monkeypatch):
    module = program("from settings_of_a_test import read")
    beside = ModuleType("settings_of_a_test")
    beside.__file__ = str(tmp_path / "settings_of_a_test.py")
    Path(beside.__file__).write_text("def read(args): return '--bucket' in args")
    with pytest.raises(click.UsageError):
        refuse_misspelled(["--bucket=a"], KNOWN, module)
    monkeypatch.setitem(sys.modules, "settings_of_a_test", beside)
    refuse_misspelled(["--bucket=a"], KNOWN, module)


def test_only_the_first_end_of_options_is_taken_away():
    assert split_arguments(["-w", "2"]) == (["-w", "2"], [])
    assert split_arguments(["-w", "2", "--", "a", "--", "b"]) == (["-w", "2"], ["a", "--", "b"])
    assert split_arguments(["--"]) == ([], [])


TELLS = """
import sys

def application_setup(args):
    print(*args)
    sys.exit(7)

if __name__ == "__main__":
    import wallaroo
    wallaroo.run(application_setup)
"""


class Command:
    """Runs machida, or a script, with a program that prints its arguments and ends."""

    def __init__(self, folder):
        (folder / "tells.py").write_text(TELLS)
        self._folder = folder

    def __call__(self, *arguments, script=False):
        start = [sys.executable, "tells.py"] if script else [*MACHIDA, "--application-module", "tells"]
        return run_to_end(*start, *arguments, cwd=self._folder, env=environment(), code=None)


@pytest.fixture
def command(tmp_path):
    return Command(tmp_path)


@pytest.mark.parametrize("script", [True, False])
def test_a_command_with_a_slip_ends_before_anything_is_built(command, script):
    done = command("--resilence-dir", "state", script=script)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Error: no such option --resilence-dir: did you mean --resilience-dir?" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("script", [True, False])
def test_what_follows_the_end_of_options_is_passed_on_unchanged(command, script):
    done = command("--name", "n", "--", "--resilence-dir", "--help", "--", "--version", script=script)
    assert done.returncode == 7, done.stderr
    told = done.stdout.split()
    assert told[-6:] == ["--name", "n", "--resilence-dir", "--help", "--", "--version"]
