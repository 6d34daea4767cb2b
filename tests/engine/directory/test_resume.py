"""What a run finds in its directory, before Spark is started."""

import contextlib
import shutil

import pytest

from wallaroo.engine.directory.commit import Commits
from wallaroo.engine.directory.home import COMMIT, Home
from wallaroo.engine.directory.resume import (
    check_sequence,
    check_work_left,
    layout_for,
    resumed_layout,
    skip_damage,
    start_fresh,
    unprocessed,
)
from wallaroo.engine.plan import new_layout
from wallaroo.errors import DirectoryError
from wallaroo.ingress.block_sequence import Range, SequenceWriter, known_names, segment_firsts
from wallaroo.ingress.lanes import Lane, note_committed
from wallaroo.ingress.log.format import LogCorruptError
from wallaroo.ingress.log.writer import LogWriter
from wallaroo.topology.model import Application


@pytest.fixture
def home(tmp_path):
    home = Home(tmp_path / "home")
    home.open()
    yield home
    home.close()


@pytest.fixture
def visiting(make):
    """Return a function that makes pipelines of states: "ab c" are two, and a capital letter is a single object."""

    def pipelines(text):
        return tuple(
            make.pipeline(
                f"p{number}",
                *(make.state_step(keep, state=name.lower(), key=None if name.isupper() else str) for name in names),
            )
            for number, names in enumerate(text.split(" "))
        )

    return pipelines


def keep(data, state):
    return data, True


def accept(home, source, number):
    home.logs.mkdir(exist_ok=True)
    with LogWriter(home.log_of(source)) as log:
        log.append([b"message"] * number)


def commit(home, block, **ends):
    Commits(home.path / COMMIT, home.states).commit(block, {}, {Lane(source): end for source, end in ends.items()})


def sequenced(home, names, *blocks):
    writer = SequenceWriter(home.sequence, names)
    for ranges in blocks:
        writer.append(0, 1, tuple(Range(names.index(name), first, end) for name, first, end in ranges))
    writer.close()


def describe(layout):
    """Return the levels as text, singles as capital letters."""
    return " ".join(
        "".join(name.upper() if name in layout.singles else name for name in level) for level in layout.levels
    )


FITS = [
    # before, now, the levels after it, what is said
    ("a", "a", "a", ""),
    ("ab C", "C ab", "Ca b", ""),
    ("ab", "ba", "b a", ""),
    ("a", "a b", "ab", "new state 'b'"),
    ("a", "ba", "b a", "new state 'b'"),
    ("a", "abcd", "a b c d", "new states 'b', 'c', 'd'"),
    ("a b", "a", "a", "state 'b' no longer used, and kept"),
    ("ab", "ac", "a c", "new state 'c'; state 'b' no longer used, and kept"),
    ("ab", "", "", "states 'a', 'b' no longer used, and kept"),
    ("", "", "", ""),
]


@pytest.mark.parametrize(("before", "now", "after", "change"), FITS)
def test_states_continue_wherever_they_are_now(visiting, before, now, after, change):
    recorded = new_layout(visiting(before), buckets=4)
    fit = resumed_layout(recorded, visiting(now))
    assert (describe(fit.layout), fit.change) == (after, change)
    assert fit.layout.buckets == 4
    assert fit.gone == set(before.replace(" ", "").lower()) - set(now.lower())


def test_a_state_that_comes_back_is_known(visiting):
    first = new_layout(visiting("a B"), buckets=4)
    second = resumed_layout(first, visiting("a c")).layout
    assert second.unused == {"b"}
    # What is not new is not told again.
    assert resumed_layout(second, visiting("a c")).change == ""
    third = resumed_layout(second, visiting("a B"))
    assert third.change == "state 'c' no longer used, and kept; state 'b' used again"


class TestLayout:
    def start(self, home, pipelines, name="app", buckets=8):
        fit = layout_for(home, Application(name, pipelines), buckets)
        home.record_layout(name, fit.layout)
        return fit

    def test_a_new_application_gets_what_it_asks_for(self, home, visiting):
        assert self.start(home, visiting("a")).layout.buckets == 8
        # Nothing has been committed, so nothing has to be kept.
        assert self.start(home, visiting("b"), buckets=4).layout.buckets == 4
        commit(home, 1)
        assert self.start(home, visiting("b"), buckets=2).layout.buckets == 4

    def test_another_application_is_refused(self, home, visiting):
        self.start(home, visiting("a"))
        with pytest.raises(DirectoryError, match="the state of another application, 'app'"):
            self.start(home, visiting("a"), name="other")

    @pytest.mark.parametrize(
        ("before", "now", "told"),
        [("a", "A", "was partitioned and is one object now"), ("A", "a", "was one object and is partitioned now")],
    )
    def test_a_state_of_another_kind_is_refused_even_after_it_was_away(self, home, visiting, before, now, told):
        self.start(home, visiting(before))
        commit(home, 1)
        with pytest.raises(DirectoryError, match=told):
            self.start(home, visiting(now))
        self.start(home, visiting("z"))
        with pytest.raises(DirectoryError, match=told):
            self.start(home, visiting(now))
        assert self.start(home, visiting(before)).change.endswith("state 'a' used again")


class TestPipelinesThatCameOrWent:
    @pytest.fixture
    def check(self, home):
        """Return a function that starts the application with these pipelines, and returns what was said."""

        def look(*names, gone=()):
            said = []
            check_work_left(home, Commits(home.path / COMMIT), names, gone, said.append)
            return said

        sequenced(home, ["words", "orders"], [("words", 0, 4), ("orders", 0, 3)], [("words", 4, 9)])
        return look

    def test_what_waits_for_a_pipeline_that_is_gone_is_reported(self, home, check):
        accept(home, "orders", 3)
        accept(home, "words", 1234 + 9)
        commit(home, 2, words=9, orders=3)
        assert check("words", "orders") == []
        assert check("words", "more") == []
        assert check("orders") == [
            "  waiting     1,234 messages for 'words', a pipeline that is no longer there; nothing is deleted"
        ]

    def test_what_is_in_progress_needs_its_pipelines(self, home, check):
        commit(home, 1, words=4, orders=3)
        finishing = ["  finishing   what the last run had in progress; its receivers must be reachable"]
        assert check("words", "orders") == finishing
        # No block refers to this one.
        assert check("words") == finishing
        with pytest.raises(DirectoryError, match=r"messages of the pipeline 'words', which the application no longer"):
            check("orders")

    def test_what_is_in_progress_needs_its_states(self, home, check):
        commit(home, 1, words=4, orders=3)
        with pytest.raises(
            DirectoryError, match=r"changes the states 'one', 'two', which the application no longer has"
        ):
            check("words", "orders", gone=["two", "one"])
        commit(home, 2, words=9, orders=3)
        assert check("words", "orders", gone=["two", "one"]) == []

    def test_what_was_cut_ahead_and_never_handed_out_is_not_in_progress(self, home, check):
        commit(home, 1, words=4, orders=3)
        SequenceWriter(home.sequence, ["words", "orders"]).close(unseen=1)
        assert check("words", "orders", gone=["one"]) == []
        assert check("orders", gone=["one"]) == []
        # The messages of the pipeline that is gone wait for it, and get another block when it is back.
        killed = SequenceWriter(home.sequence, ["words", "orders"])
        assert (killed.end, killed.ends) == (1, {Lane(0): 4, Lane(1): 3})
        killed.append(0, 1, (Range(0, 4, 9),))
        with pytest.raises(DirectoryError, match="messages of the pipeline 'words'"):
            check("orders")

    def test_a_damaged_sequence_is_reported_with_what_to_do(self, home, check, monkeypatch):
        monkeypatch.setattr("wallaroo.ingress.block_sequence.SEGMENT_BYTES", 100)
        sequenced(home, ["words", "orders"], *[[("words", at, at + 1)] for at in range(9, 30)])
        damaged = sorted(home.sequence.glob("*.sequence"))[1]
        damaged.write_bytes(damaged.read_bytes()[:-3])
        with pytest.raises(LogCorruptError, match="--skip-damaged"):
            check("words", "orders")
        said = []
        skip_damage(home, [], said.append)
        assert len(said) == 1
        assert len(check("words", "orders")) == 1


def test_a_directory_without_a_sequence_has_nothing_in_progress(home):
    check_work_left(home, Commits(home.path / COMMIT), ["words"], ["state"], pytest.fail)


def test_a_lost_commit_is_refused(home, visiting):
    application = Application("app", visiting("ab"))
    home.record_layout("app", new_layout(application.pipelines, 4))
    accept(home, "p0", 10)
    # A run that was killed before its first commit is simply started again.
    assert layout_for(home, application, 4).layout.buckets == 4
    commit(home, 2, p0=4)
    note_committed(home.log_of("p0"), {0: 4})
    layout_for(home, application, 4)
    (home.path / COMMIT).unlink()
    with pytest.raises(DirectoryError, match="is missing, and the state cannot be found without it"):
        layout_for(home, application, 4)


class TestLostBlocks:
    """The last commit is before block 2, and outputs up to block 4 have been sent."""

    @pytest.fixture
    def check(self, home, monkeypatch):
        monkeypatch.setattr("wallaroo.ingress.block_sequence.SEGMENT_BYTES", 100)
        accept(home, "words", 30)
        sequenced(home, ["words"], *[[("words", at, at + 1)] for at in range(20)])
        commit(home, 2, words=2)

        def check(known=5, *, skip=False):
            said = []
            check_sequence(home, 2, known, skip=skip, notice=said.append)
            return said

        return check

    def test_nothing_is_reported_where_the_blocks_are_there(self, check):
        assert check(skip=True) == check() == []

    @pytest.mark.parametrize("what", ["folder", "files", "first files"])
    def test_missing_blocks_are_reported_and_nothing_is_changed(self, home, check, what):
        if what == "folder":
            shutil.rmtree(home.sequence)
        else:
            for path in sorted(home.sequence.glob("*.sequence"))[: 2 if what == "first files" else None]:
                path.unlink()
        before = sorted(home.path.rglob("*"))
        with pytest.raises(DirectoryError) as refused:
            check()
        assert str(refused.value) == (
            f"The blocks from 2 on are missing in {home.sequence}, and outputs of them may have been sent. Restore the "
            "folder from a copy, or continue with --skip-damaged: the messages get new blocks, and outputs may be "
            "repeated."
        )
        assert refused.value.exit_code == 5
        assert sorted(home.path.rglob("*")) == before
        (said,) = check(skip=True)
        assert said.startswith(f"The blocks from 2 on are missing in {home.sequence}: it continues with new blocks")
        with contextlib.closing(SequenceWriter(home.sequence, ["words"], 5)) as sequence:
            # Blocks whose numbers receivers may know have no messages any more; the messages are in the logs.
            assert [(block.number, block.ranges) for block in sequence.read_from(2)] == [(2, ()), (3, ()), (4, ())]
            assert (sequence.end, sequence.ends) == (5, {})
        assert check() == []

    def test_after_a_clean_stop_no_blocks_are_needed(self, home, check):
        shutil.rmtree(home.sequence)
        assert check(known=2) == []


def test_messages_that_wait_are_counted(home):
    accept(home, "words", 10)
    accept(home, "orders", 5)
    accept(home, "nothing left", 3)
    assert sum(unprocessed(home, Commits(home.path / COMMIT)).values()) == 18
    commit(home, 2, words=4, **{"nothing left": 3})
    assert unprocessed(home, Commits(home.path / COMMIT)) == {home.log_of("words"): 6, home.log_of("orders"): 5}


def test_a_fresh_start_says_where_everything_is(home):
    accept(home, "words", 1005)
    commit(home, 1, words=5)
    said = []
    start_fresh(home, said.append)
    [folder] = home.path.glob("before-*")
    assert said == [
        f"  archived    what was there, in {folder}; accepted and not processed in there: 1,000 messages",
        f"              to delete it: rm -r {folder}",
    ]
    assert segment_firsts(home.sequence) == []
    assert known_names(home.sequence, ()) == []
    said.clear()
    start_fresh(home, said.append)
    assert said == []


@pytest.mark.parametrize("name", ["*.blocks", COMMIT])
def test_damaged_files_do_not_hinder_a_fresh_start(home, name):
    accept(home, "words", 10)
    commit(home, 1)
    [file] = home.path.rglob(name)
    file.write_bytes(b"\xff" * file.stat().st_size)
    said = []
    start_fresh(home, said.append)
    assert len(said) == 2
    assert not home.logs.exists()
