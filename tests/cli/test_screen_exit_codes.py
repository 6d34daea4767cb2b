"""Exit codes: one for each kind of error, the same in the program, its help and the reference."""

import re
from pathlib import Path

from click.testing import CliRunner

from wallaroo import errors
from wallaroo.cli.commands.send import command as send
from wallaroo.cli.machida import main
from wallaroo.cli.screen import EXIT_CODES, SEND_EXIT_CODES

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "command-line.md").read_text()


def test_every_kind_of_error_has_a_code_in_the_table():
    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.WallarooError)
    ]
    # Success and click's own usage errors have no class.
    assert {kind.exit_code for kind in kinds} == set(EXIT_CODES) - {0, 2}


def test_the_help_and_the_reference_have_the_table():
    shown = CliRunner().invoke(main, ["--help"]).output
    assert dict(re.findall(r"^ +(\d)  (.+)$", shown.partition("Exit codes:")[2], re.MULTILINE)) == {
        str(code): meaning for code, meaning in EXIT_CODES.items()
    }
    section = PAGE.partition("### Exit codes of machida")[2].partition("\n#")[0]
    assert [int(code) for code in re.findall(r"^\| (\d) \|", section, re.MULTILINE)] == list(EXIT_CODES)


def test_the_help_and_the_reference_have_the_table_of_send():
    shown = CliRunner().invoke(send, ["--help"]).output
    assert dict(re.findall(r"^ +(\d+)  (.+)$", shown.partition("Exit codes:")[2], re.MULTILINE)) == {
        str(code): meaning for code, meaning in SEND_EXIT_CODES.items()
    }
    section = PAGE.partition("### Exit codes of wallaroo send")[2].partition("\n#")[0]
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)] == list(SEND_EXIT_CODES)
