"""What is said about modules that cannot be imported and applications that cannot be built."""

import sys
import textwrap

import pytest
from tests.processes import MACHIDA, environment, run_python, run_to_end

import wallaroo
from wallaroo.cli import loading
from wallaroo.errors import WallarooError


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Return a function that writes a module into a folder of its own and imports it as machida does."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write_and_import(text, **others):
        for name, content in {"old_program": text, **others}.items():
            (tmp_path / f"{name}.py").write_text(content)
            monkeypatch.delitem(sys.modules, name, raising=False)
        try:
            return loading.import_application("old_program")
        finally:
            for name in ("old_program", *others):
                sys.modules.pop(name, None)

    return write_and_import


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("print 'x'", "`print 'x'` is written `print('x')` in Python 3"),
        ("except ValueError, e:", "`except ValueError, e:` is written `except ValueError as e:` in Python 3"),
        ("x = `x`", "``x`` is written `repr(x)` in Python 3"),
        ("x = 0777", "`0777` is written `0o777` in Python 3"),
        ('exec "x = 1"', '`exec "x = 1"` is written `exec("x = 1")` in Python 3'),
        ('raise ValueError, "no"', '`raise ValueError, "no"` is written `raise ValueError("no")` in Python 3'),
        ('x = ur"x"', '`ur"x"` is written `r"x"` in Python 3'),
    ],
)
def test_the_error_for_a_module_in_python_2_says_what_to_write(module, tmp_path, line, expected):
    beginning = "try:\n    pass\n" if line.startswith("except") else "import wallaroo\n\n"
    ending = "\n    pass\n" if line.startswith("except") else "\n"
    with pytest.raises(WallarooError) as refused:
        module(beginning + line + ending)
    assert str(refused.value) == f"{tmp_path / 'old_program.py'}, line 3 is Python 2: {expected}."


def test_a_module_that_another_one_imports_is_named(module, tmp_path):
    with pytest.raises(WallarooError) as refused:
        module("import old_helpers\n", old_helpers="def f():\n    print 'x'\n")
    assert str(refused.value).startswith(f"{tmp_path / 'old_helpers.py'}, line 2 is Python 2: `print 'x'` is written")


def test_other_mistakes_are_reported_as_python_reports_them(module, tmp_path):
    with pytest.raises(WallarooError) as refused:
        module("x = 1\nx = (2\n")
    assert str(refused.value) == f"{tmp_path / 'old_program.py'}, line 2: '(' was never closed."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import cPickle", "the module `cPickle` is called `pickle` in Python 3"),
        ("letters = [x for x in xrange(26)]", "`xrange` is written `range` in Python 3"),
        (
            "import string\nletters = string.lowercase",
            "`string.lowercase` is written `string.ascii_lowercase` in Python 3",
        ),
    ],
)
def test_errors_of_a_module_have_a_hint(module, text, expected):
    with pytest.raises(WallarooError) as refused:
        module(text)
    assert str(refused.value).startswith("Importing old_program failed:\nTraceback (most recent call last):\n")
    assert str(refused.value).endswith(f"\nThis looks like Python 2: {expected}.")


def test_errors_of_a_module_without_a_hint_have_none(module):
    with pytest.raises(WallarooError) as refused:
        module("raise ValueError('no')")
    assert str(refused.value).endswith("\nValueError: no")


def test_errors_of_application_setup_have_a_hint(module):
    text = "def application_setup(args):\n    return {}.iteritems()\n"
    with pytest.raises(WallarooError) as refused:
        loading.build(loading.setup_function(module(text)), [])
    assert str(refused.value).startswith("application_setup failed:\nTraceback")
    assert str(refused.value).endswith("This looks like Python 2: `d.iteritems()` is written `d.items()` in Python 3.")


def test_a_module_in_python_2_that_application_setup_imports(tmp_path, monkeypatch):
    (tmp_path / "late_program.py").write_text("print 'x'\n")
    monkeypatch.syspath_prepend(tmp_path)

    def application_setup(args):
        import late_program  # noqa: PLC0415

        return late_program

    with pytest.raises(WallarooError) as refused:
        loading.build(application_setup, [])
    assert str(refused.value).startswith(f"{tmp_path / 'late_program.py'}, line 1 is Python 2: ")


@pytest.mark.parametrize(
    "result",
    [None, wallaroo.ApplicationBuilder("app"), wallaroo.source("words", None)],
)
def test_the_error_for_what_is_no_application_says_what_to_return(result):
    with pytest.raises(WallarooError) as refused:
        loading.build(lambda _: result, [])
    assert str(refused.value) == (
        f"application_setup returned {type(result).__name__} instead of an application: end it with "
        "`return ab.build()`, or, for a pipeline, with `return wallaroo.build_application(name, pipeline)`."
    )


def test_machida_reports_it_in_one_line(tmp_path):
    (tmp_path / "greet.py").write_text("print 'hello'\n")
    finished = run_to_end(*MACHIDA, "--application-module", "greet", cwd=tmp_path, env=environment(), code=3)
    said = "line 1 is Python 2: `print 'hello'` is written `print('hello')` in Python 3."
    assert finished.stderr == f"Error: {tmp_path / 'greet.py'}, {said}\n"


class TestProgramOf:
    SCRIPT = """
        import sys, wallaroo
        from wallaroo.cli.loading import program_of

        def application_setup(args):
            "A function of the script's own."

        class Holder:
            @staticmethod
            def inside(args):
                "One that is found through its class."

        def made():
            return lambda args: None

        if __name__ == "__main__":
            def late(args):
                "One that is only there in a script."

            try:
                program = program_of(eval(sys.argv[1]), ["--in", "x"])
                print(program.module, program.function, *program.arguments, program.setup() is application_setup)
            except wallaroo.WallarooError as error:
                print(error)
        """

    @pytest.fixture
    def said(self, tmp_path):
        def run(expression, *how):
            (tmp_path / "script.py").write_text(textwrap.dedent(self.SCRIPT))
            return run_python(*(how or ["script.py"]), expression, cwd=tmp_path).stdout

        return run

    def test_a_script_gets_its_own_name(self, said):
        assert said("application_setup") == "script application_setup --in x False\n"
        assert said("application_setup", "-m", "script") == "script application_setup --in x False\n"
        assert said("Holder.inside") == "script Holder.inside --in x False\n"

    @pytest.mark.parametrize("expression", ["made()", "Holder().__init__", "42"])
    def test_what_no_other_process_finds_is_refused(self, said, expression):
        assert "is not found by its name in the module" in said(expression)
        assert "Define application_setup(args) at the top level of a file" in said(expression)

    def test_what_only_the_script_has_is_refused(self, said):
        assert said("late") == (
            "late is only defined where script is run as a script. Every process of the run imports it, so put the "
            'function in front of `if __name__ == "__main__":`.\n'
        )

    def test_a_script_that_runs_when_it_is_imported_is_reported(self, tmp_path):
        (tmp_path / "script.py").write_text("import wallaroo\ndef setup(args): pass\nwallaroo.run(setup, [])\n")
        done = run_python("script.py", cwd=tmp_path, code=3)
        assert done.stdout == ""
        assert done.stderr == (
            "Error: script calls wallaroo.run when it is imported, which every process of the run does. Put the call "
            'below `if __name__ == "__main__":`.\n'
        )

    def test_a_package_that_is_run_keeps_its_name_and_a_folder_has_none(self, tmp_path):
        (tmp_path / "shop").mkdir()
        (tmp_path / "shop" / "__init__.py").touch()
        (tmp_path / "shop" / "__main__.py").write_text(textwrap.dedent(self.SCRIPT))
        done = run_python("-m", "shop", "application_setup", cwd=tmp_path)
        assert done.stdout == "shop.__main__ application_setup --in x False\n"
        done = run_python("shop", "application_setup", cwd=tmp_path)
        assert "Put application_setup into a file of another name, and import it from there." in done.stdout
