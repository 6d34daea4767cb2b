"""The dead-letter file, and what is reported about it."""

import ctypes
import errno
import fcntl
import json
import os
import stat
import subprocess
import sys
import threading
import time
from collections import Counter
from types import SimpleNamespace

import pytest
from tests.engine.outbox_chunks import taken

from wallaroo.engine.delivery.dead_letter_file import DeadLetterFile, delete_letters, read_letters
from wallaroo.engine.stages.outbox import Outbox
from wallaroo.engine.stages.steps import source_line
from wallaroo.engine.transport.dead_letter_record import payload_of
from wallaroo.errors import WallarooError


@pytest.fixture
def records(make, dead_letters):
    """Return a function from payloads to the records of a decoder that cannot read them as numbers."""

    def from_payloads(*payloads, decode=int):
        plan = make.plan(make.pipeline("numbers", decode=decode))
        outbox = Outbox(plan)
        source_line(plan, outbox, plan.application.pipelines[0])(payloads)
        return dead_letters(taken(outbox))

    return from_payloads


@pytest.fixture
def path(tmp_path):
    return tmp_path / "dead-letters.jsonl"


@pytest.fixture
def notices():
    return []


@pytest.fixture
def letters(path, notices):
    return DeadLetterFile(path, notices.append)


def without_id(record):
    return {name: value for name, value in record.items() if name != "id"}


def test_records_are_appended_one_a_line(letters, records, path):
    one, two = records(b"x", "é".encode()), records(b"y")
    letters.add(one)
    letters.add(two)
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [without_id(line) for line in lines] == one + two
    assert len({line["id"] for line in lines}) == 3
    assert list(read_letters(path)) == lines
    assert letters.count == 3
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_later_run_appends_to_the_file(letters, records, path, notices):
    letters.add(records(b"x"))
    again = DeadLetterFile(path, notices.append)
    again.add(records(b"y"))
    assert again.count == 1
    assert len(path.read_text().splitlines()) == 2


def test_without_dead_letters_there_is_no_file(letters, path):
    assert not path.exists()


def test_the_first_of_a_kind_is_reported_in_full(letters, records, path, notices):
    letters.add(records(b"x"))
    (notice,) = notices
    assert notice.startswith("Pipeline 'numbers', step 'decoder' failed for the message b'x'\n")
    assert "ValueError: invalid literal for int() with base 10: b'x'" in notice
    assert notice.endswith(f"The message is kept in {path}; the application continues.")


def test_an_error_that_looks_like_python_2_is_reported_with_its_hint_and_once(letters, records, notices):
    # The words differ from message to message, the place does not.
    letters.add(records(b"xrange(5)", b"unicode(5)", b"xrange(6)", decode=lambda bs: eval(bs, {})))
    (notice,) = notices
    assert "\nThis looks like Python 2: `xrange` is written `range` in Python 3.\nThe message is kept in" in notice


def test_the_same_error_with_other_words_is_the_same_kind(letters, records, path, notices):
    letters.add(records(*(b"word %d" % number for number in range(1000))))
    assert len(notices) == 1
    assert letters.count == 1000
    assert len(path.read_text().splitlines()) == 1000


def test_an_error_of_several_lines_is_one_kind(letters, records, notices):
    def decode(bs):
        raise ValueError(f"first line\nabout: {bs}\n")

    letters.add(records(b"a", b"b", b"c", decode=decode))
    assert len(notices) == 1


def test_other_errors_are_reported_as_well(letters, records, notices):
    def decode(bs):
        if bs == b"key":
            raise KeyError(bs)
        if bs == b"value":
            raise ValueError(bs)
        return int(bs)

    letters.add(records(b"key", b"value", b"other", b"key", b"value", b"more", decode=decode))
    assert [notice.splitlines()[0].rpartition(" ")[2] for notice in notices] == [
        "b'key'",
        "b'value'",
        "b'other'",
    ]


def test_repetitions_are_counted_and_reported_after_a_while(letters, records, monkeypatch, notices):
    letters.add(records(b"x", b"y", b"z"))
    monkeypatch.setattr("wallaroo.notices.monotonic", lambda: time.monotonic() + 10.0)
    letters.add(records(b"last"))
    letters.sum_up()
    error = "ValueError: invalid literal for int() with base 10: b'last'"
    assert notices[1:] == [f"Pipeline 'numbers', step 'decoder': {error} — 3 more times."]


def test_text_that_is_not_unicode_is_kept_and_reported(letters, records, path, notices):
    def decode(bs):
        raise ValueError("cannot read " + bs.decode(errors="surrogateescape"))

    found = records(b"caf\xe9", decode=decode)
    letters.add(found)
    assert [without_id(json.loads(line)) for line in path.read_bytes().splitlines()] == found
    assert "cannot read caf" in notices[0]


def test_repetitions_are_reported_at_most_every_few_seconds_and_at_the_end(letters, records, notices):
    for _ in range(5):
        letters.add(records(*(b"word" for _ in range(200))))
        letters.sum_up()
    assert len(notices) == 1
    letters.close()
    assert len(notices) == 2
    assert notices[1].endswith("b'word' — 999 more times.")
    letters.close()
    assert len(notices) == 2


def test_a_line_that_a_crash_has_torn_takes_no_other_with_it(letters, records, path):
    letters.add(records(b"x"))
    with path.open("a") as file:
        file.write('{"id": "torn", "time": 1')
    assert [letter["message"] for letter in read_letters(path)] == ["b'x'"]
    letters.add(records(b"y"))
    assert [letter["message"] for letter in read_letters(path)] == ["b'x'", "b'y'"]


def test_a_torn_line_of_any_length_stays_a_line_of_its_own(letters, records, path):
    letters.add(records(b"x"))
    whole = path.read_bytes()
    for torn in (b"{", b'{"id": "' + bytes(100) * 5000, "{é".encode()[:-1]):
        for before in (b"", whole):
            path.write_bytes(before + torn)
            letters.add(records(b"y"))
            assert path.read_bytes().startswith(before + torn + b"\n{")
            assert [letter["message"] for letter in read_letters(path)] == ["b'x'"] * bool(before) + ["b'y'"]


def test_a_last_line_that_was_edited_by_hand_is_kept(letters, records, path):
    letters.add(records(b"x"))
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    assert [letter["message"] for letter in read_letters(path)] == ["b'x'"]
    letters.add(records(b"y"))
    assert [json.loads(line)["message"] for line in path.read_bytes().split(b"\n")[:-1]] == ["b'x'", "b'y'"]


class Follower:
    """Reads what is new in a file, as `tail -f` does, and takes what ends with a newline for a line."""

    def __init__(self, path):
        self._path = path
        self._position = 0
        self._rest = b""

    def lines(self):
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._position)
            data = file.read()
        self._position += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        return lines


def test_a_reader_that_follows_the_file_gets_whole_letters(letters, records, path):
    payloads = [b"%d " % number + b"x" * 100_000 for number in range(20)]
    blocks = [records(*payloads) for _ in range(10)]
    follower = Follower(path)

    def add_all():
        for block in blocks:
            letters.add(block)

    writer = threading.Thread(target=add_all)
    writer.start()
    found = []
    while len(found) < 200:
        found += [payload_of(json.loads(line)) for line in follower.lines()]
    writer.join()
    assert found == payloads * 10
    # A crash in the middle of a write, and its block once more: nothing is missing but what has been torn.
    torn = path.read_bytes()[:150_000].rpartition(b"\n")[2]
    with path.open("ab") as file:
        file.write(torn)
    assert follower.lines() == []
    letters.add(blocks[0])
    broken, *whole = follower.lines()
    assert broken == torn
    assert [payload_of(json.loads(line)) for line in whole] == payloads


@pytest.mark.parametrize("torn", [b"", b'{"id": "torn'])
def test_the_letters_of_a_block_are_written_at_once(letters, records, path, monkeypatch, torn):
    path.write_bytes(torn)
    write, written = os.write, []

    def observed(file, data):
        written.append(bytes(data))
        return write(file, data)

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", observed)
        letters.add(records(*(b"x" * 10_000 for _ in range(100))))
    assert written == [path.read_bytes().removeprefix(torn)]


def test_on_a_full_disk_a_reader_that_follows_the_file_sees_no_partial_letter(letters, records, path, monkeypatch):
    letters.add(records(b"x"))
    write, written = os.write, []

    def observed(file, data):
        written.append(bytes(data))
        return write(file, data)

    def full_disk(_file, _mode, _start, _size):
        ctypes.set_errno(errno.ENOSPC)
        return -1

    with monkeypatch.context() as patched:
        patched.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace(fallocate64=full_disk))
        patched.setattr(os, "write", observed)
        with pytest.raises(OSError, match="No space left"):
            letters.add(records(b"y", b"z"))
    assert written == []
    assert len(list(read_letters(path))) == letters.count == 1


def test_on_a_full_disk_no_letter_is_written_in_part(letters, records, path, monkeypatch):
    letters.add(records(b"x"))
    whole = path.read_bytes()
    write = os.write

    def write_a_little(file, data):
        if len(data) < 100:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, data[:100])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", write_a_little)
        with pytest.raises(OSError, match="No space left"):
            letters.add(records(b"y", b"z"))
    assert path.read_bytes() == whole
    assert letters.count == 1
    letters.add(records(b"y", b"z"))
    assert [letter["message"] for letter in read_letters(path)] == ["b'x'", "b'y'", "b'z'"]


def ids_in(path):
    return [letter["id"] for letter in read_letters(path)]


def test_letters_are_deleted_and_everything_else_is_unchanged(letters, records, path, tmp_path):
    letters.add(records(b"one", b"two"))
    with path.open("ab") as file:
        file.write(b"{damaged \xff\n[]\n\n")
    letters.add(records(b"three", "é".encode()))
    lines = path.read_bytes().splitlines(keepends=True)
    one, _, three, _ = ids_in(path)
    assert delete_letters(path, {one, three, "never heard of"}) == 2
    assert path.read_bytes() == b"".join(lines[1:5] + lines[6:])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    before = path.stat()
    assert delete_letters(path, {one}) == 0
    assert path.stat().st_ino == before.st_ino  # A reader that follows the file need not open it again.


def test_there_may_be_no_file_to_delete_from(path, tmp_path):
    assert delete_letters(path, {"a"}) == 0
    assert list(tmp_path.iterdir()) == []


def test_letters_without_ids_are_deleted_by_the_names_that_they_are_given(path):
    path.write_text('{"error": "one"}\n{"error": "two"}\n')
    assert delete_letters(path, ids_in(path)[:1]) == 1
    assert path.read_text() == '{"error": "two"}\n'


@pytest.mark.parametrize("end", [b"", b'{"id": "torn'])
def test_an_incomplete_last_line_is_kept_unless_it_is_selected(letters, records, path, end):
    letters.add(records(b"one", b"two"))
    one, two = ids_in(path)
    whole = path.read_bytes()
    path.write_bytes(whole + end if end else whole[:-1])
    assert delete_letters(path, {one}) == 1
    assert path.read_bytes() == whole.splitlines(keepends=True)[1][: None if end else -1] + end
    if not end:
        assert delete_letters(path, {two}) == 1
        assert path.read_bytes() == b""


APPENDS = """
import sys
from pathlib import Path
from wallaroo.engine.delivery.dead_letter_file import DeadLetterFile
letters = DeadLetterFile(Path(sys.argv[1]), lambda text: None)
letter = {"pipeline": "p", "step": "s", "message": "m", "error": "e", "traceback": "e"}
for number in range(1000):
    letters.add([{**letter, "number": number}] * 2)
    print(number, flush=True)
"""


def test_nothing_is_lost_while_an_application_appends_and_two_others_delete(path):
    """Each letter is there at the end, unless it was chosen to be deleted, and then it was deleted once."""
    deleted, chosen = [], set()

    def delete(remainder):
        while process.poll() is None:
            some = {each["id"] for each in read_letters(path) if each["number"] % 5 == remainder}
            chosen.update(some)
            deleted.append(delete_letters(path, some))

    command = [sys.executable, "-c", APPENDS, path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "0\n"
        others = [threading.Thread(target=delete, args=(remainder,)) for remainder in (0, 1)]
        for each in others:
            each.start()
        assert len(process.stdout.read().split()) == 999
        for each in others:
            each.join()
    kept = Counter(letter["number"] for letter in read_letters(path))
    assert all(kept[number] == 2 for number in range(1000) if number % 5 > 1)
    assert sum(deleted) == len(chosen) == 2000 - kept.total()
    assert len(chosen) > 10
    assert not chosen & set(ids_in(path))


def test_an_application_that_waits_for_a_deletion_writes_to_the_new_file(letters, records, path):
    letters.add(records(b"one"))
    writer = threading.Thread(target=lambda: letters.add(records(b"two")))
    with path.open("r+b") as old:
        fcntl.flock(old, fcntl.LOCK_EX)
        writer.start()
        path.with_name("new").write_bytes(b"")
        path.with_name("new").replace(path)
    writer.join()
    assert [letter["message"] for letter in read_letters(path)] == ["b'two'"]


def test_a_disk_that_is_full_leaves_the_file_as_it_was(letters, records, path, tmp_path, monkeypatch):
    letters.add(records(b"one", b"two"))
    before = path.read_bytes()

    def full(_file):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            delete_letters(path, ids_in(path)[:1])
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_without_locks_letters_are_added_and_none_is_deleted(letters, records, path, monkeypatch):
    def without_locks(_file, _how):
        raise OSError(errno.ENOLCK, "No locks available")

    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", without_locks)
        letters.add(records(b"one", b"two"))
        with pytest.raises(WallarooError, match=r"has no locks \(No locks available\).*Stop the application"):
            delete_letters(path, ids_in(path))
    assert len(ids_in(path)) == 2
