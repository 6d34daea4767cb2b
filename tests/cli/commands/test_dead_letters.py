"""`wallaroo dead-letters`, on directories as applications leave them."""

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import time

import pytest
from click.testing import CliRunner
from tests.processes import PATIENCE, WALLAROO

from wallaroo.cli.wallaroo import main
from wallaroo.connectors.dead_letter_replay.source import ReplayQueue
from wallaroo.engine.delivery.dead_letter_file import DeadLetterFile, read_letters
from wallaroo.engine.directory.home import Home
from wallaroo.engine.transport.dead_letter_record import Place, make_letter
from wallaroo.engine.transport.serializer import Serializer
from wallaroo.ingress.log import LogWriter
from wallaroo.program import import_settings
from wallaroo.topology.model import REPLAYS

COUNT = Place("words", "count", "step 2")
DECODER = Place("words", "decoder", "decoder")
ENCODER = Place("other", "encoder", "encoder 1")


def letter(place, message, error, *, key=None, minutes_ago=0, **origin):
    made = make_letter(place, message, error, key=key, origin=origin, serializer=Serializer())
    return {**made, "time": time.time() - 60 * minutes_ago}


@pytest.fixture
def home(tmp_path):
    """Return the directory of an application whose code has failed in several places."""
    home = Home(tmp_path / "home")
    home.open()
    home.close()
    (home.path / "plan.json").write_text(json.dumps(import_settings()))
    letters = [
        letter(
            DECODER, b"caf\xe9", UnicodeDecodeError("utf-8", b"", 0, 1, "no"), minutes_ago=90, source="w", position=3
        ),
        letter(COUNT, ("w", 1), KeyError("w"), key="w", minutes_ago=20, source="w", positions=[4, 9]),
        letter(COUNT, ("x", 2), ValueError("two\nlines"), key="x", source="w", position=7),
        letter(ENCODER, lambda: 0, KeyError("z"), source="o", position=8),
    ]
    DeadLetterFile(home.dead_letters, lambda _: None).add(letters)
    return home


@pytest.fixture
def ids(home):
    return [json.loads(line)["id"] for line in home.dead_letters.read_text().splitlines()]


@pytest.fixture
def run(home):
    """Run `wallaroo dead-letters ...` and return what it printed."""

    def run_command(command, *arguments, refused=False, where=("--resilience-dir", str(home.path)), answer=None):
        result = CliRunner().invoke(main, ["dead-letters", command, *where, *map(str, arguments)], input=answer)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert (result.exit_code != 0) is refused, result.output
        return result.output

    return run_command


@pytest.fixture
def queued(home):
    """Return the ids of the letters that wait to be taken by the application."""
    queue = ReplayQueue(home.replays, home.log_of(REPLAYS))
    return lambda: [line["letter"]["id"] for line in queue.lines()]


def take(home, number):
    """Take letters from the queue, as a running application does."""
    with LogWriter(home.log_of(REPLAYS)) as log:
        log.append([b"a letter"] * number)


def rows(output):
    return [line.split() for line in output.splitlines() if re.match(r"[0-9a-f]{12} ", line)]


class TestList:
    def test_a_row_for_each_the_newest_last(self, run, ids):
        found = rows(run("list"))
        assert [row[0] for row in found] == ids
        assert [row[3] for row in found] == ["decoder", "count", "count", "encoder"]
        assert found[1][3:] == ["count", "KeyError:", "'w'", "waiting", "words", "'w'", "4-9"]
        assert found[2][3:] == ["count", "ValueError:", "two", "waiting", "words", "'x'", "7"]
        assert found[3][3:] == ["encoder", "KeyError:", "'z'", "waiting", "other", "8"]

    def test_where_a_source_has_partitions_they_are_reported(self, run, home):
        ranges = [{"partition": 0, "positions": [4, 9]}, {"partition": 2, "positions": [3, 3]}]
        letters = [
            letter(COUNT, 1, KeyError(1), source="w", partition=2, position=7),
            letter(COUNT, 1, KeyError(1), source="w", partitions=ranges),
        ]
        home.dead_letters.unlink()
        DeadLetterFile(home.dead_letters, lambda _: None).add(letters)
        exact, other = rows(run("list"))
        assert (exact[-1], other[-2:]) == ("2:7", ["0:4-9,", "2:3-3"])
        assert "from       message 7 of partition 2 of 'w'\n" in run("show", exact[0])
        where = "one of the messages 4 to 9 of partition 0 or one of the messages 3 to 3 of partition 2 of 'w'"
        assert f"from       {where}\n" in run("show", other[0])

    @pytest.mark.parametrize(
        ("options", "wanted"),
        [
            (["--pipeline", "words"], [0, 1, 2]),
            (["--step", "count"], [1, 2]),
            (["--step", "decoder"], [0]),
            (["--error", "keyerror"], [1, 3]),
            (["--error", "LINES"], [2]),
            (["--since", "1h"], [1, 2, 3]),
            (["--since", "300s"], [2, 3]),
            (["--since", "2020-01-31"], [0, 1, 2, 3]),
            (["--since", "2999-01-31T12:00"], []),
            (["--before", "1h"], [0]),
            (["--before", "300s", "--since", "1h"], [1]),
            (["--step", "count", "--error", "KeyError"], [1]),
            (["--last", "2"], [2, 3]),
            (["--state", "replayed"], []),
            (["--state", "waiting", "--last", "1"], [3]),
        ],
    )
    def test_filters(self, run, ids, options, wanted):
        expected = [ids[index] for index in wanted]
        assert [row[0] for row in rows(run("list", *options))] == expected
        assert [json.loads(line)["id"] for line in run("list", "--json", *options).splitlines()] == expected

    def test_all_fields_as_json(self, run, home):
        lines = [json.loads(line) for line in run("list", "--json").splitlines()]
        kept = [json.loads(line) for line in home.dead_letters.read_text().splitlines()]
        assert lines == [{**each, "state": "waiting"} for each in kept]

    def test_only_the_newest_of_many_are_listed(self, run, home):
        DeadLetterFile(home.dead_letters, lambda _: None).add(
            [letter(COUNT, each, KeyError(each)) for each in range(100)]
        )
        output = run("list")
        assert len(rows(output)) == 50
        assert "These are the newest of 104; --last shows more." in output
        assert len(rows(run("list", "--last", "70"))) == 70

    def test_without_any(self, run, home):
        home.dead_letters.unlink()
        assert run("list") == "There are none.\n"

    def test_those_of_an_earlier_release_have_names_too(self, run, home):
        old = {
            name: value for name, value in letter(COUNT, 1, KeyError(1)).items() if name not in {"place", "key_pickle"}
        }
        home.dead_letters.write_text(json.dumps(old) + "\n")
        ((name, *_),) = rows(run("list"))
        assert "It cannot be replayed: an earlier release has written it" in run("show", name)


class TestShow:
    def test_everything_about_one(self, run, ids):
        output = run("show", ids[2][:6])
        for fact in ("id         " + ids[2], "state      waiting", "step       count (step 2)", "key        'x'"):
            assert fact + "\n" in output
        assert "from       message 7 of 'w'\n" in output
        assert re.search(r"payload    \d+ bytes, pickle\n\n\('x', 2\)\n\nValueError: two\nlines\n", output)

    def test_bytes_that_are_no_text(self, run, ids):
        assert "0000  63 61 66 e9                                      caf.\n" in run("show", ids[0])

    def test_what_could_not_be_packed_says_so(self, run, ids):
        output = run("show", ids[3])
        assert "<function" in output
        assert "It cannot be replayed: its message could not be packed, and only its text is kept." in output

    def test_an_object_of_a_class_of_the_applications(self, run, home, tmp_path, monkeypatch):
        (tmp_path / "goods_of_a_test.py").write_text(
            "class Apple:\n    def __repr__(self):\n        return 'an apple'\n"
        )
        with monkeypatch.context() as patched:
            patched.syspath_prepend(tmp_path)
            (home.path / "plan.json").write_text(json.dumps(import_settings()))
            from goods_of_a_test import Apple  # noqa: PLC0415

            DeadLetterFile(home.dead_letters, lambda _: None).add([letter(COUNT, [Apple()], KeyError(1))])
        monkeypatch.delitem(__import__("sys").modules, "goods_of_a_test")
        monkeypatch.setattr("sys.path", list(__import__("sys").path))
        name = rows(run("list"))[-1][0]
        assert "\n[an apple]\n" in run("show", name)
        (tmp_path / "goods_of_a_test.py").unlink()
        monkeypatch.delitem(__import__("sys").modules, "goods_of_a_test")
        assert "\n[an apple]\n" in run("show", name)  # As it was reported when it failed.

    def test_as_json(self, run, ids, home):
        kept = json.loads(home.dead_letters.read_text().splitlines()[1])
        assert json.loads(run("show", ids[1], "--json")) == {**kept, "state": "waiting"}

    def test_a_missing_letter_or_an_ambiguous_id(self, run, ids):
        assert "There is no dead letter 'xyz' in" in run("show", "xyz", refused=True)
        output = run("show", "", refused=True)
        assert f"'' could be any of these: {', '.join(ids)}. Write more of it." in output


class TestReplay:
    def test_some_by_their_ids_in_this_order(self, run, ids, queued):
        output = run("replay", ids[2][:8], ids[0])
        assert output == "Queued 2 messages for the next start of the application.\n"
        assert queued() == [ids[2], ids[0]]

    def test_states_go_from_waiting_to_queued_to_replayed(self, run, ids, home):
        run("replay", ids[0])
        run("replay", ids[1])
        take(home, 1)
        states = [json.loads(line)["state"] for line in run("list", "--json").splitlines()]
        assert states == ["replayed", "queued", "waiting", "waiting"]
        assert ["queued" in row for row in rows(run("list"))] == [False, True, False, False]
        assert [row[0] for row in rows(run("list", "--state", "queued"))] == [ids[1]]

    def test_a_running_application_takes_them_at_once(self, run, ids, home):
        with (home.path / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            assert run("replay", ids[0]) == "Queued 1 message for the running application.\n"

    def test_all_letters_that_can_be_replayed_and_have_not_been(self, run, ids, queued):
        run("replay", ids[1])
        output = run("replay", "--all")
        assert output.startswith("1 dead letter cannot be replayed; `wallaroo dead-letters show` says why.\n")
        assert queued() == [ids[1], ids[0], ids[2]]
        assert run("replay", "--all").endswith("There is nothing to replay.\n")
        assert queued() == [ids[1], ids[0], ids[2]]

    def test_by_filter(self, run, ids, queued):
        run("replay", "--step", "count", "--error", "value")
        assert queued() == [ids[2]]

    def test_again_only_when_requested(self, run, ids, queued):
        run("replay", ids[1])
        assert "has been replayed already. To replay it again, add --again." in run("replay", ids[1], refused=True)
        assert queued() == [ids[1]]
        run("replay", "--again", ids[1])
        run("replay", "--again", "--step", "count")
        assert queued() == [ids[1], ids[1], ids[1], ids[2]]

    def test_one_that_cannot_be_replayed_refuses_all(self, run, ids, queued):
        output = run("replay", ids[0], ids[3], refused=True)
        assert f"{ids[3]} cannot be replayed: its message could not be packed" in output
        assert queued() == []

    @pytest.mark.parametrize("arguments", [[], ["abc", "--all"], ["abc", "--step", "count"]])
    def test_the_selection_must_be_unambiguous(self, run, arguments):
        assert "Specify the dead letters to replay" in run("replay", *arguments, refused=True)


def ids_in(home):
    return [letter["id"] for letter in read_letters(home.dead_letters)]


class TestDelete:
    @pytest.mark.parametrize(
        ("options", "gone"),
        [
            (["--all"], [0, 1, 2, 3]),
            (["--step", "count"], [1, 2]),
            (["--pipeline", "other"], [3]),
            (["--error", "KeyError"], [1, 3]),
            (["--before", "1h"], [0]),
            (["--step", "count", "--before", "10m"], [1]),
            (["--state", "queued"], [2]),
            (["--state", "queued", "--step", "decoder"], []),
        ],
    )
    def test_the_selected_letters_are_deleted(self, run, ids, home, options, gone):
        run("replay", ids[2])
        said = run("delete", *options, "--yes")
        assert said == {0: "There is nothing to delete.\n", 1: "1 dead letter deleted.\n"}.get(
            len(gone), f"{len(gone)} dead letters deleted.\n"
        )
        assert ids_in(home) == [each for index, each in enumerate(ids) if index not in gone]

    def test_some_by_the_beginnings_of_their_ids(self, run, ids, home):
        run("delete", ids[2][:8], ids[0], "-y")
        assert ids_in(home) == [ids[1], ids[3]]
        assert "There is no dead letter" in run("delete", ids[1], ids[0], "-y", refused=True)
        assert ids_in(home) == [ids[1], ids[3]]

    def test_nothing_is_deleted_without_a_yes(self, run, ids, home):
        run("replay", ids[0])
        before = everything_about(home.path)
        for answer in ("n\n", "\n", ""):
            said = run("delete", "--all", refused=True, answer=answer)
            assert said.startswith(f"Delete 4 dead letters (3 waiting, 1 queued) from {home.dead_letters}? [y/N]")
        assert everything_about(home.path) == before
        assert run("delete", ids[0], answer="y\n").endswith("1 dead letter deleted.\n")
        assert ids_in(home) == ids[1:]

    def test_a_queued_letter_is_still_replayed(self, run, ids, queued):
        run("replay", ids[1])
        run("delete", "--all", "--yes")
        assert queued() == [ids[1]]

    @pytest.mark.parametrize("arguments", [[], ["abc", "--all"], ["abc", "--step", "count"], ["--yes"]])
    def test_the_selection_must_be_unambiguous(self, run, ids, home, arguments):
        assert "Specify the dead letters to delete" in run("delete", *arguments, refused=True)
        assert ids_in(home) == ids

    def test_letters_added_after_the_question_are_kept(self, run, ids, home, monkeypatch):
        def answer(*_, **__):
            DeadLetterFile(home.dead_letters, lambda _: None).add([letter(COUNT, 1, KeyError(1))])
            return True

        monkeypatch.setattr("click.confirm", answer)
        run("delete", "--all")
        (kept,) = read_letters(home.dead_letters)
        assert kept["id"] not in ids


class Terminal:
    """Runs `wallaroo dead-letters` in a terminal of a certain width, and returns what is to be seen there."""

    def __init__(self, home, columns):
        self._home = home
        self._columns = columns

    def __call__(self, command, *arguments):
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, self._columns, 0, 0))
        environment = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
        where = ["--resilience-dir", str(self._home.path)]
        process = subprocess.Popen(
            [*WALLAROO, "dead-letters", command, *where, *arguments], env=environment, stdout=theirs, stderr=theirs
        )
        os.close(theirs)
        seen = b""
        with contextlib.suppress(OSError):  # Linux reports in this way that the other side is closed.
            while data := os.read(ours, 1 << 16):
                seen += data
        os.close(ours)
        assert process.wait(PATIENCE) == 0, seen
        return re.sub(r"\x1b\[\d*m", "", seen.decode()).replace("\r\n", "\n").splitlines()


@pytest.fixture
def terminal(home):
    return lambda columns: Terminal(home, columns)


LONG = (
    "ValueError: the configuration of the instrument 'AUTO.GRAPHICS' has neither a currency nor a settlement date that "
    "falls on a working day of the exchange"
)


class TestScreen:
    @pytest.fixture(autouse=True)
    def long_letter(self, home):
        place = Place("prices of all instruments", "look up the settlement date", "step 2")
        DeadLetterFile(home.dead_letters, lambda _: None).add(
            [letter(place, "x" * 300, ValueError(LONG.partition(": ")[2]), key="k e y " * 40, source="w", position=7)]
        )

    @pytest.mark.parametrize("columns", [40, 60, 80, 100, 120, 200])
    def test_a_list_fits_and_has_each_error_whole(self, terminal, columns, ids):
        head, *lines = terminal(columns)("list")
        assert head.split()[0] == "id"
        assert max(map(len, lines)) <= columns
        shown = " ".join(" ".join(lines).split())
        for each in ids:
            assert each in shown
        # Whole words of the error, in their order, whatever stands beside them.
        words = iter(shown.split())
        assert all(word in words for word in LONG.split()), lines

    def test_at_80_columns_id_time_step_and_error_come_first(self, terminal, ids):
        head, *lines = terminal(80)("list")
        assert head.split()[:4] == ["id", "time", "step", "error"]
        (row,) = [line for line in lines if line.startswith(ids[1])]
        assert re.match(r"[0-9a-f]{12}  \d{4}-\d\d-\d\d( \d\d:\d\d:\d\d)?  count .* KeyError: 'w'$", row)

    def test_a_wide_screen_has_everything(self, terminal):
        assert terminal(500)("list")[0].split() == ["id", "time", "step", "error", "state", "pipeline", "key", "from"]

    def test_what_is_shown_of_one_fits_too(self, terminal, home):
        last = ids_in(home)[-1]
        lines = terminal(60)("show", last)
        facts = lines[: lines.index("")]
        assert max(map(len, facts)) <= 60
        assert facts[4] == "step       look up the settlement date (step 2)"
        assert facts[5] == "key        'k" + " e y k" * 7 + " e y"
        assert facts[6].startswith(" " * 11 + "k e y")

    def test_what_replay_and_delete_say_fits(self, terminal, home):
        first, *_, last = ids_in(home)
        for command in (("replay", last), ("delete", first, "--yes")):
            assert max(map(len, terminal(60)(*command))) <= 60

    def test_control_characters_in_a_letter_are_escaped(self, terminal, home):
        evil = "\x1b]0;title\x07\x1b[2J"
        DeadLetterFile(home.dead_letters, lambda _: None).add(
            [letter(COUNT, evil.encode(), ValueError(evil), key=evil)]
        )
        for command in (("list",), ("show", ids_in(home)[-1])):
            seen = "\n".join(terminal(120)(*command))
            assert "\\x1b]0;title\\x07\\x1b[2J" in seen
            assert "\x1b" not in seen


@pytest.mark.parametrize("options", [["--json"], ["--last", "5000"]])
def test_a_reader_that_closes_the_pipe_ends_the_list_quietly(home, options):
    DeadLetterFile(home.dead_letters, lambda _: None).add(
        [letter(COUNT, bytes(1000), KeyError(each)) for each in range(5000)]
    )
    command = [*WALLAROO, "dead-letters", "list", "--resilience-dir", str(home.path), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(PATIENCE) == 128 + signal.SIGPIPE


def everything_about(folder):
    """Return all observable properties of a folder and of everything in it."""
    found = {path: path.lstat() for path in (folder, *folder.rglob("*"))}
    return {path: (stat.st_mode, stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns) for path, stat in found.items()}


class TestWhere:
    def test_an_application_in_its_default_directory(self, run, home, ids, monkeypatch):
        asked = []
        monkeypatch.setattr(
            "wallaroo.cli.dead_letter_queries.default_home",
            lambda name, looking: asked.append((name, looking)) or home.path,
        )
        assert [row[0] for row in rows(run("list", where=["--application", "Word Count"]))] == ids
        assert [row[0] for row in rows(run("list", where=["-a", "Word Count", "-n", "second"]))] == ids
        assert asked == [("Word Count", True), ("Word Count second", True)]

    @pytest.mark.parametrize("mode", [0o700, 0o755, 0o1777])
    def test_reading_changes_nothing(self, run, home, ids, tmp_path, mode):
        home.path.chmod(mode)
        before = everything_about(tmp_path)
        is_open = mode == 0o1777
        for command in (["list"], ["list", "--json"], ["show", ids[1]]):
            said = run(*command, refused=is_open)
            assert (f"others can write to {home.path}." in said) is is_open
        run("list", where=["-a", "there is no such application"], refused=True)
        assert everything_about(tmp_path) == before

    def test_letters_in_another_folder_are_shown_and_not_replayed(self, run, home, ids, tmp_path):
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        home.dead_letters.rename(elsewhere / home.dead_letters.name)
        assert [row[0] for row in rows(run("list", where=["-r", str(elsewhere)]))] == ids
        said = run("replay", ids[1], where=["-r", str(elsewhere)], refused=True)
        assert "is not the directory of an application that could process them again" in said
        assert [path.name for path in elsewhere.iterdir()] == [home.dead_letters.name]

    def test_no_application_is_specified(self, run):
        assert "Specify the application: --resilience-dir DIR" in run("list", where=[], refused=True)

    def test_a_directory_that_is_not_there(self, run, tmp_path):
        assert "There is no directory" in run("list", where=["-r", str(tmp_path / "gone")], refused=True)

    @pytest.mark.parametrize("command", [["list"], ["list", "--json"], ["delete", "--all"], ["replay", "--all"]])
    def test_a_folder_that_is_not_an_applications(self, run, tmp_path, command):
        folder = tmp_path / "pictures"
        folder.mkdir()
        said = run(*command, where=["-r", str(folder)], refused=True)
        assert f"{folder} is not the directory of an application, and has no dead-letters.jsonl." in said
        assert list(folder.iterdir()) == []

    def test_a_time_that_is_not_valid(self, run):
        assert "'soon' is not a time. Write 10m, 2h, 1d or 2025-01-31T12:00." in run(
            "list", "--since", "soon", refused=True
        )
