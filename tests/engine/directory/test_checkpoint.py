"""A checkpoint whose last files are torn or empty: it is gone back to the last batch from which all is whole."""

import json
import shutil
import zipfile

import pytest

from wallaroo.engine.directory.checkpoint import mend_checkpoint
from wallaroo.errors import DirectoryError

LZ4_BLOCK = b"LZ4Block\x15" + (5).to_bytes(4, "little") * 2 + b"\x9a\x20\x46\x02" + b"\x00\x02v2\x00"
LZ4_END = b"LZ4Block\x15" + bytes(12)
PARTITIONS = ("state/0/0", "state/0/1")


class Checkpoint:
    """The files that Spark leaves after some batches, and what became of them."""

    def __init__(self, folder):
        self.path = folder / "checkpoint"
        self.aside = folder / "damaged"
        self.notices = []
        self.forgotten = []
        self.first_message = 0

    def file(self, name):
        return self.path / name

    def write(self, name, content):
        path = self.file(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def plan(self, batch):
        reached = json.dumps({"nudges": 3, "sources": {"words": 10 * batch}})
        self.write(f"offsets/{batch}", f'v1\n{{"batchWatermarkMs":0,"conf":{{}}}}\n{reached}')

    def compute(self, batch):
        for partition in PARTITIONS:
            self.write(f"{partition}/{batch + 1}.changelog", LZ4_BLOCK + LZ4_END)

    def commit(self, batch):
        self.write(f"commits/{batch}", 'v1\n{"nextBatchWatermarkMs":0}')

    def snapshot(self, partition, version):
        """Write a snapshot with a table file, as Spark's maintenance does now and then."""
        table = f"00000{version}-x.sst"
        self.write(f"{partition}/SSTs/{table}", b"table")
        metadata = {"sstFiles": [{"localFileName": "1.sst", "dfsSstFileName": table, "sizeBytes": 5}]}
        with zipfile.ZipFile(self.file(f"{partition}/{version}.zip"), "w") as archive:
            archive.writestr("CURRENT", "MANIFEST-000005\n")
            archive.writestr("metadata", "v1\n" + json.dumps(metadata))

    def damage(self, name, how):
        path = self.file(name)
        content = path.read_bytes()
        path.write_bytes({"empty": b"", "torn": content[:-1], "zeros": bytes(len(content))}[how])

    def files(self):
        return {str(path.relative_to(self.path)) for path in self.path.rglob("*") if path.is_file()}

    def mend(self):
        before = self.files()
        mend_checkpoint(self.path, self.aside, self.forgotten.append, self.log_without, self.notices.append)
        return before - self.files()

    def log_without(self, taken):
        return self.path.parent / "log" if taken.get("words", 0) < self.first_message else None


@pytest.fixture
def checkpoint(tmp_path):
    """Return a checkpoint after the batches 3 to 6, of which the first ones are gone, with snapshots 4 and 6."""
    made = Checkpoint(tmp_path)
    made.write("metadata", '{"id":"41b8e844-5ab4-4d0b-9d09-0801bd086c85"}')
    for batch in range(3, 7):
        made.plan(batch)
        made.compute(batch)
        made.commit(batch)
    for partition in PARTITIONS:
        made.snapshot(partition, 4)
        made.snapshot(partition, 6)
    return made


def left_aside(checkpoint):
    return {str(path.relative_to(checkpoint.aside)) for path in checkpoint.aside.rglob("*") if path.is_file()}


def changes(version):
    return {f"{partition}/{version}.changelog" for partition in PARTITIONS}


def test_what_is_whole_is_left_alone(checkpoint):
    assert checkpoint.mend() == set()
    checkpoint.plan(7)
    assert checkpoint.mend() == set()
    # A crash inside a batch leaves some of its states, perhaps half written: the batch writes them anew.
    checkpoint.write("state/0/0/8.changelog", LZ4_BLOCK)
    assert checkpoint.mend() == set()
    assert (checkpoint.notices, checkpoint.forgotten, checkpoint.aside.exists()) == ([], [], False)


def test_without_a_checkpoint_there_is_nothing_to_do(tmp_path):
    assert Checkpoint(tmp_path).mend() == set()


def test_what_was_being_written_is_removed(checkpoint):
    for name in ("offsets/.7.5b5f4ab2.tmp", "state/0/1/.8.changelog.ba8c2a4c.tmp"):
        checkpoint.write(name, "half")
    assert checkpoint.mend() == {"offsets/.7.5b5f4ab2.tmp", "state/0/1/.8.changelog.ba8c2a4c.tmp"}
    assert checkpoint.notices == []


@pytest.mark.parametrize("how", ["empty", "torn", "zeros"])
def test_a_damaged_end_of_a_batch_has_it_computed_again(checkpoint, how):
    checkpoint.damage("commits/6", how)
    assert checkpoint.mend() == {"commits/6"} | changes(7)
    assert left_aside(checkpoint) == {"commits/6"} | changes(7)
    assert checkpoint.forgotten == []
    (notice,) = checkpoint.notices
    assert str(checkpoint.file("commits/6")) in notice
    assert str(checkpoint.aside) in notice
    assert notice.endswith("What is missing is computed again; nothing is lost.")
    assert checkpoint.mend() == set()


@pytest.mark.parametrize("how", ["empty", "torn"])
@pytest.mark.parametrize("partition", PARTITIONS)
def test_damaged_states_of_the_last_batch_have_it_computed_again(checkpoint, partition, how):
    checkpoint.damage(f"{partition}/7.changelog", how)
    assert checkpoint.mend() == {"commits/6"} | changes(7)
    assert checkpoint.forgotten == []
    assert str(checkpoint.file(f"{partition}/7.changelog")) in checkpoint.notices[0]


@pytest.mark.parametrize("how", ["empty", "torn", "zeros"])
def test_a_damaged_plan_is_made_anew_and_the_ledger_forgets_it(checkpoint, how):
    checkpoint.plan(7)
    checkpoint.damage("offsets/7", how)
    assert checkpoint.mend() == {"offsets/7"}
    assert checkpoint.forgotten == [7]
    assert "from batch 7 on is done again, and may be sent again" in checkpoint.notices[0]


@pytest.mark.parametrize("how", ["empty", "torn", "zeros"])
def test_a_damaged_end_is_put_aside_though_the_next_batch_was_planned(checkpoint, how):
    """Spark does not start with such a file. That the next batch was planned shows that this one was done."""
    checkpoint.plan(7)
    checkpoint.damage("commits/6", how)
    assert checkpoint.mend() == {"commits/6"}
    assert checkpoint.forgotten == []
    assert "offsets/7" in checkpoint.files()
    assert checkpoint.notices[0].endswith("nothing is lost.")
    assert checkpoint.mend() == set()


@pytest.mark.parametrize(("first", "possible"), [(49, True), (50, True), (51, False)])
def test_what_would_be_needed_again_must_still_be_in_the_logs(checkpoint, first, possible):
    """Batch 6, of the messages 50 to 60, has to be computed again."""
    checkpoint.first_message = first
    checkpoint.damage("commits/6", "empty")
    if possible:
        assert checkpoint.mend() == {"commits/6"} | changes(7)
        return
    before = checkpoint.files()
    with pytest.raises(DirectoryError) as caught:
        checkpoint.mend()
    for words in (checkpoint.file("commits/6"), "log no longer has the messages", "--reset"):
        assert str(words) in str(caught.value)
    assert (checkpoint.files(), checkpoint.forgotten, checkpoint.notices) == (before, [], [])
    assert not checkpoint.aside.exists()


def test_whole_checkpoints_do_not_depend_on_what_the_logs_have(checkpoint):
    checkpoint.first_message = 1000
    assert checkpoint.mend() == set()


def test_ends_whose_plans_are_lost_count_for_nothing(checkpoint):
    checkpoint.commit(7)
    checkpoint.compute(7)
    assert checkpoint.mend() == {"commits/7"} | changes(8)
    assert checkpoint.forgotten == [7]


def test_several_batches_that_a_power_failure_took_are_gone_back(checkpoint):
    for batch in (7, 8):
        checkpoint.plan(batch)
        checkpoint.compute(batch)
        checkpoint.commit(batch)
    for name in ("offsets/8", "commits/8", "offsets/7", "commits/7", "state/0/1/8.changelog", "state/0/0/7.changelog"):
        checkpoint.damage(name, "empty")
    gone = {"offsets/8", "offsets/7", "commits/8", "commits/7", "commits/6"} | changes(9) | changes(8) | changes(7)
    assert checkpoint.mend() == gone
    assert checkpoint.forgotten == [7]
    # Batch 6 is run again from version 6.
    assert {"offsets/6", "offsets/5", "state/0/0/6.changelog", "state/0/0/6.zip"} <= checkpoint.files()
    assert checkpoint.mend() == set()


@pytest.mark.parametrize("damaged", ["6.zip", "SSTs/000006-x.sst"])
def test_a_damaged_snapshot_gives_way_to_an_older_one(checkpoint, damaged):
    checkpoint.damage(f"state/0/1/{damaged}", "empty")
    assert checkpoint.mend() == {"state/0/1/6.zip"}
    assert checkpoint.forgotten == []
    assert "6.zip" in checkpoint.notices[0]


def test_a_damaged_snapshot_without_an_older_one_is_too_much(checkpoint):
    for partition in PARTITIONS:
        checkpoint.file(f"{partition}/4.zip").unlink()
    checkpoint.damage("state/0/1/6.zip", "torn")
    before = checkpoint.files()
    with pytest.raises(DirectoryError) as caught:
        checkpoint.mend()
    assert str(checkpoint.file("state/0/1/6.zip")) in str(caught.value)
    assert "--reset" in str(caught.value)
    assert checkpoint.files() == before


def test_the_first_batch_of_all_is_begun_again(tmp_path):
    checkpoint = Checkpoint(tmp_path)
    checkpoint.plan(0)
    checkpoint.damage("offsets/0", "empty")
    assert checkpoint.mend() == {"offsets/0"}
    assert checkpoint.forgotten == [0]


def test_a_name_that_cannot_be_read_is_renewed(checkpoint):
    checkpoint.damage("metadata", "empty")
    checkpoint.mend()
    assert len(json.loads(checkpoint.file("metadata").read_text())["id"]) == 36


def test_files_named_in_another_way_are_sparks_business(checkpoint):
    for partition in PARTITIONS:
        shutil.rmtree(checkpoint.file(partition))
        checkpoint.write(f"{partition}/7_41b8e844.changelog", b"")
    assert checkpoint.mend() == set()
