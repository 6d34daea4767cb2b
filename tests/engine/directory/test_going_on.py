"""What a run finds in its directory, before Spark is started."""

import json
import shlex
import subprocess

import pytest

from wallaroo.engine.directory.going_on import found_in, start_fresh
from wallaroo.engine.directory.home import Home
from wallaroo.engine.directory.layouts import new_layout
from wallaroo.engine.directory.mending import mend
from wallaroo.engine.directory.progress import Progress, log_without, read_progress, unprocessed
from wallaroo.engine.directory.run_folder import run_folder
from wallaroo.engine.main import Run, RunOptions
from wallaroo.errors import DirectoryError
from wallaroo.ingress.log_writer import LogWriter
from wallaroo.topology.model import REPLAYS, Application

from ...programs import program_for  # noqa: TID252 - tests are not installed


@pytest.fixture
def home(tmp_path):
    home = Home(tmp_path / "home")
    home.open()
    yield home
    home.close()


def plan_batch(home, number, *, done, **sources):
    """Write down what a batch takes, as Spark does, and, where it is done, that it is."""
    for kind, text in (("offsets", "v1\n{}\n" + json.dumps({"nudges": 0, "sources": sources})), ("commits", "v1\n{}")):
        (home.checkpoint / kind).mkdir(parents=True, exist_ok=True)
        if kind == "offsets" or done:
            (home.checkpoint / kind / str(number)).write_text(text)


def accept(home, source, number):
    home.log_of(source).parent.mkdir(exist_ok=True)
    with LogWriter(home.log_of(source)) as log:
        log.append([b"message"] * number)


def test_progress_of_a_new_application(home):
    assert read_progress(home.checkpoint) == Progress({}, {}, batch_under_way=False)


def test_progress_is_that_of_the_last_batches(home):
    for number in range(12):
        plan_batch(home, number, done=True, words=10 * number, orders=number)
    assert read_progress(home.checkpoint) == Progress(
        {"words": 110, "orders": 11}, {"words": 110, "orders": 11}, batch_under_way=False
    )
    plan_batch(home, 12, done=False, words=115, orders=11)
    assert read_progress(home.checkpoint) == Progress(
        {"words": 110, "orders": 11}, {"words": 115, "orders": 11}, batch_under_way=True
    )
    # Others write here as well while they are at it.
    (home.checkpoint / "offsets" / ".13.tmp").write_text("")
    (home.checkpoint / "offsets" / "14.compact").write_text("")
    assert read_progress(home.checkpoint).planned == {"words": 115, "orders": 11}


def test_a_damaged_offset_says_nothing(home):
    plan_batch(home, 0, done=False, words=5)
    (home.checkpoint / "offsets" / "0").write_text("")
    assert read_progress(home.checkpoint) == Progress({}, {}, batch_under_way=True)


def test_messages_that_wait_are_counted(home):
    accept(home, "words", 10)
    accept(home, "orders", 5)
    accept(home, "nothing left", 3)
    assert sum(unprocessed(home).values()) == 18
    plan_batch(home, 0, done=True, words=4, **{"nothing left": 3})
    plan_batch(home, 1, done=False, words=10, **{"nothing left": 3})
    assert unprocessed(home) == {home.log_of("words"): 6, home.log_of("orders"): 5}


def test_logs_that_have_let_go_of_messages(home):
    for source in ("words", "orders"):
        home.log_of(source).parent.mkdir(exist_ok=True)
        with LogWriter(home.log_of(source), segment_bytes=1) as log:
            for _ in range(3):
                log.append([b"message"] * 10)
            log.delete_before(20 if source == "words" else 0)
    assert log_without(home, {"words": 20}) is None
    assert log_without(home, {"words": 20, "orders": 0}) is None
    assert log_without(home, {"words": 19}) == home.log_of("words")
    assert log_without(home, {}) == home.log_of("words")
    # What is lost is not there to be processed again, and was not the first time.
    (home.log_of("words") / "lost").write_text("15 20\n")
    assert log_without(home, {"words": 15}) is None
    assert log_without(home, {"words": 14}) == home.log_of("words")


def test_nothing_is_gone_back_over_whose_messages_are_gone(home):
    for number in range(3):
        plan_batch(home, number, done=True, words=10 * number)
    home.log_of("words").parent.mkdir()
    with LogWriter(home.log_of("words"), segment_bytes=1) as log:
        for _ in range(3):
            log.append([b"message"] * 10)
        log.delete_before(20)
    (home.checkpoint / "commits" / "2").write_text("")
    before = {path: path.read_bytes() for path in home.path.rglob("*") if path.is_file()}
    with pytest.raises(DirectoryError, match="no longer has the messages"):
        mend(home, (), pytest.fail)
    assert {path: path.read_bytes() for path in home.path.rglob("*") if path.is_file()} == before


def test_a_log_that_lost_its_end_goes_on_behind_what_was_planned(home, make, tmp_path):
    accept(home, "words", 15)
    accept(home, "orders", 15)
    plan_batch(home, 0, done=True, words=10, orders=12)
    plan_batch(home, 1, done=False, words=20, orders=14)
    application = Application("app", (make.pipeline("words"), make.pipeline("orders")))
    warned = []
    program = program_for(application, tmp_path)
    run = Run(application, program, RunOptions(home=home.path), [].append, warned.append)
    with run_folder() as run._folder, run._cleanup:
        run._start_ingress()
        # Nothing has come from Spark yet, and senders can connect.
        ends = {source: status["end"] for source, status in run._client.status().items()}
        run._client.close()
    assert ends == {"words": 20, "orders": 15, REPLAYS: 0}
    # There may be others, of a machine that allows few open files.
    assert [text.partition(":")[0] for text in warned if "log" in text] == [
        "The log of 'words' ended at message 15, but messages up to 20 were known"
    ]


def test_state_that_an_earlier_version_put_beside_the_directory_is_not_left_behind_silently(tmp_path, make):
    home = Home(tmp_path / "my state, 100%")
    home.open()
    application = Application("app", (make.pipeline("words"),))
    home.record_layout("app", new_layout(application.pipelines, 2, 8))
    beside = tmp_path / "my%20state%2C%20100%25" / "checkpoint"
    assert found_in(home, application, ["words"], pytest.fail) is None
    beside.mkdir(parents=True)
    (beside / "metadata").write_text('{"id": "one"}')
    with pytest.raises(DirectoryError, match="An earlier version") as refused:
        found_in(home, application, ["words"], pytest.fail)
    [advice] = [line.partition(": ")[2] for line in str(refused.value).splitlines() if "mv" in line]
    subprocess.run(shlex.split(advice), check=True)
    assert (home.checkpoint / "metadata").exists()
    assert found_in(home, application, ["words"], pytest.fail) is not None
    # A directory of such a name that is another application's is none of our business.
    home.checkpoint.rename(beside)
    (beside.parent / "layout.json").touch()
    assert found_in(home, application, ["words"], pytest.fail) is None
    home.close()


def keep(data, state):
    return data, True


class TestPipelinesThatCameOrWent:
    @pytest.fixture
    def find(self, home, make):
        """Return a function that starts the application with these pipelines, and returns what was said."""

        def look(*names):
            pipelines = tuple(make.pipeline(name, make.state_step(keep)) for name in names)
            said = []
            found_in(home, Application("app", pipelines), names, said.append)
            return said

        home.record_layout("app", new_layout((make.pipeline("words", make.state_step(keep)),), 2, 4))
        plan_batch(home, 0, done=True, words=4, orders=3)
        return look

    def test_what_waits_for_a_pipeline_that_is_gone_is_told(self, home, find):
        accept(home, "orders", 3)
        accept(home, "words", 1234 + 4)
        assert find("words", "orders") == []
        assert find("words", "more") == []
        assert find("orders") == [
            "  waiting     1,234 messages for 'words', a pipeline that is no longer there; they are kept"
        ]

    def test_a_batch_under_way_needs_its_pipelines(self, home, find):
        plan_batch(home, 1, done=False, words=9, orders=3)
        assert find("words", "orders") == []
        # Of this one there is nothing in the batch.
        assert find("words") == []
        with pytest.raises(DirectoryError, match=r"messages of the pipeline 'words', which the application no longer"):
            find("orders")


def test_a_fresh_start_says_where_everything_is(home):
    accept(home, "words", 1005)
    plan_batch(home, 0, done=True, words=5)
    said = []
    start_fresh(home, said.append)
    [folder] = home.path.glob("before-*")
    assert said == [
        f"  set aside   what was there, in {folder}; 1,000 messages in there were accepted and not processed",
        f"              to delete it: rm -r {folder}",
    ]
    assert unprocessed(home) == {}
    said.clear()
    start_fresh(home, said.append)
    assert said == []


def test_a_damaged_log_does_not_hinder_a_fresh_start(home):
    accept(home, "words", 10)
    [blocks] = home.log_of("words").glob("*.blocks")
    blocks.write_bytes(b"\xff" * blocks.stat().st_size)
    said = []
    start_fresh(home, said.append)
    assert len(said) == 2
    assert not home.logs.exists()
