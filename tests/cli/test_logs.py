"""What a run logs: for people, for programs, and in a file."""

import json
import os
import re
import stat
from datetime import datetime

import click
import pytest

from wallaroo.cli.logs import LEVELS, Level, Log
from wallaroo.cli.machida_options import log_from
from wallaroo.notices import Printed, never_failing

READY = "Application has successfully initialized."
TIME = r"\d\d:\d\d:\d\d"


def tell_everything(log):
    log.debug("a drawing")
    log.info("  listening   127.0.0.1:7010 for 'words'")
    log.info(READY)
    log.warning("Something is wrong.\nAnd more of it.")
    log.warning(Printed("a note of the application"))


def test_text_has_time_and_level_only_in_front_of_warnings(capsys):
    tell_everything(Log())
    out, err = capsys.readouterr()
    assert out == f"  listening   127.0.0.1:7010 for 'words'\n{READY}\n"
    assert re.fullmatch(rf"{TIME} WARN  Something is wrong\.\nAnd more of it\.\na note of the application\n", err)


def test_json_is_an_object_on_each_line(capsys):
    before = datetime.now().astimezone()
    tell_everything(Log(Level.DEBUG, as_json=True))
    out, err = ([json.loads(line) for line in stream.splitlines()] for stream in capsys.readouterr())
    assert [(each["level"], each["message"]) for each in out] == [
        ("debug", "a drawing"),
        ("info", "listening 127.0.0.1:7010 for 'words'"),
        ("info", READY),
    ]
    assert [(each["level"], each["message"]) for each in err] == [
        ("warning", "Something is wrong.\nAnd more of it."),
        ("info", "a note of the application"),
    ]
    for each in (*out, *err):
        assert set(each) == {"time", "level", "message"}
        assert before.replace(microsecond=0) <= datetime.fromisoformat(each["time"]) <= datetime.now().astimezone()


@pytest.mark.parametrize(
    ("level", "told"),
    [
        ("debug", ["a drawing", "listening", READY, "Something", "a note"]),
        ("info", ["listening", READY, "Something", "a note"]),
        ("warning", [READY, "Something", "a note"]),
        ("error", [READY, "a note"]),
    ],
)
@pytest.mark.parametrize("as_json", [True, False])
def test_lower_levels_are_not_shown_except_that_the_application_is_ready(capsys, tmp_path, level, told, as_json):
    log = Log(LEVELS[level], as_json=as_json, file=tmp_path / "log")
    log.always = {READY}
    tell_everything(log)
    for output in ("".join(capsys.readouterr()), (tmp_path / "log").read_text()):
        found = [text for text in ("a drawing", "listening", READY, "Something", "a note") if text in output]
        assert found == told


def test_a_file_has_date_time_and_level_on_each_line(capsys, tmp_path):
    (tmp_path / "log").write_text("what was there\n")
    log = Log(file=tmp_path / "log")
    tell_everything(log)
    log.info(click.style("Words", bold=True))
    first, *lines = (tmp_path / "log").read_text().splitlines()
    assert first == "what was there"
    told = [re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ", "", line) for line in lines]
    assert told == [
        "INFO  listening 127.0.0.1:7010 for 'words'",
        f"INFO  {READY}",
        "WARN  Something is wrong.",
        "And more of it.",
        "INFO  a note of the application",
        "INFO  Words",
    ]
    assert capsys.readouterr().out.startswith("  listening   127.0.0.1:7010")


def test_a_file_that_is_moved_away_is_made_again(tmp_path):
    path = tmp_path / "log"
    log = Log(as_json=True, file=path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    log.warning("one")
    path.rename(tmp_path / "old")
    log.warning("two")
    assert [json.loads(each.read_text())["message"] for each in (tmp_path / "old", path)] == ["one", "two"]


def test_a_file_that_cannot_be_written_is_reported_at_the_start_and_later_once(capsys, tmp_path):
    with pytest.raises(OSError, match="No such file"):
        Log(file=tmp_path / "missing" / "log")
    (tmp_path / "there").mkdir()
    log = Log(file=tmp_path / "there" / "log")
    (tmp_path / "there" / "log").unlink()
    (tmp_path / "there").rmdir()
    for text in ("one", "two"):
        log.info(text)
    out, err = capsys.readouterr()
    assert out == "one\ntwo\n"
    assert re.fullmatch(
        rf"{TIME} WARN  The log file \S+ cannot be written: No such file or directory\. The application continues\.\n",
        err,
    )


def test_the_file_has_what_a_closed_screen_does_not_get(tmp_path, monkeypatch):
    log = Log(file=tmp_path / "log")
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as gone:  # noqa: PTH123 - a descriptor
        monkeypatch.setattr("sys.stderr", gone)
        never_failing(log.warning)("told")
        os.dup2(os.open(os.devnull, os.O_WRONLY), writing)
    assert "WARN  told\n" in (tmp_path / "log").read_text()


@pytest.mark.parametrize("as_json", [True, False])
def test_an_error_that_ends_the_command_is_in_the_log(capsys, tmp_path, as_json):
    log = Log(Level.ERROR, as_json=as_json, file=tmp_path / "log")
    refusal = click.ClickException("It cannot be.")
    refusal.exit_code = 5
    with pytest.raises(SystemExit if as_json else click.ClickException) as ended, log.reporting_errors():
        raise refusal
    kept = (tmp_path / "log").read_text()
    out, err = capsys.readouterr()
    assert out == ""
    if as_json:
        assert ended.value.code == 5
        assert json.loads(err) == {**json.loads(kept), "level": "error", "message": "It cannot be."}
    else:
        assert err == ""  # The command itself reports it.
        assert kept.endswith(" ERROR It cannot be.\n")


@pytest.mark.parametrize(("given", "shown"), [(None, 1), ("info", 1), ("warn", 0), ("warning", 0), ("error", 0)])
def test_levels_as_options_name_them(capsys, given, shown):
    log_from({"log_level": given, "log_format": "text", "log_file": None}).info("said")
    assert capsys.readouterr().out.count("said") == shown
