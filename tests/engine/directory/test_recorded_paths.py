"""What Spark has recorded of paths names the place where the directory is now."""

import json
from pathlib import Path

import pytest

from wallaroo.engine.directory.recorded_paths import renew_recorded_paths


def record(checkpoint, level, batch, *paths):
    """Write a record as Spark does, and return its path."""
    path = checkpoint / "state" / str(level) / "_metadata" / "v2" / str(batch)
    path.parent.mkdir(parents=True, exist_ok=True)
    stores = [{"storeName": "default", "numPartitions": 2, "stateSchemaFilePaths": list(paths)}]
    path.write_text("v2\n" + json.dumps({"operatorInfo": {"operatorId": level}, "stateStoreInfo": stores}))
    return path


def recorded(path):
    version, body = path.read_text().split("\n")
    assert version == "v2"
    return json.loads(body)["stateStoreInfo"][0]["stateSchemaFilePaths"]


@pytest.mark.parametrize(
    "before", ["/old", "/my state/ü", "/x/state/0/_stateSchema/default/checkpoint", "/line\nbreak"]
)
@pytest.mark.parametrize("now", ["/new", "/tmp/wallaroo-0/.run/abc/home", r"/back\1slash"])
def test_records_follow_the_directory(tmp_path, before, now):
    ends = ["state/{}/_stateSchema/default/0_e75e", "state/{}/_stateSchema/default/3_aa20"]
    records = [
        record(tmp_path, level, batch, *(f"file:{before}/{end.format(level)}" for end in ends))
        for level in (0, 1)
        for batch in (0, 12)
    ]
    renew_recorded_paths(tmp_path, Path(now))
    for path in records:
        level = path.parts[-4]
        assert recorded(path) == [f"file:{now}/{end.format(level)}" for end in ends]
        assert json.loads(path.read_text().partition("\n")[2])["operatorInfo"] == {"operatorId": int(level)}


def test_records_that_are_right_are_not_touched_and_checksums_of_others_go(tmp_path):
    path = record(tmp_path, 0, 0, "file:/old/state/0/_stateSchema/default/0_e75e")
    checksum = path.with_name(".0.crc")
    checksum.write_bytes(b"crc")
    renew_recorded_paths(tmp_path, Path("/new"))
    assert not checksum.exists()
    before = path.stat()
    checksum.write_bytes(b"crc")
    renew_recorded_paths(tmp_path, Path("/new"))
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert checksum.exists()


@pytest.mark.parametrize("text", ["", "v2", "v2\n", "v2\n{", "v2\n[]", 'v2\n{"stateStoreInfo": [{}]}', "v1\n{}"])
def test_what_is_damaged_is_left_to_spark(tmp_path, text):
    path = record(tmp_path, 0, 0)
    path.write_text(text)
    renew_recorded_paths(tmp_path, Path("/new"))
    assert path.read_text() == text


def test_a_new_application_has_no_records(tmp_path):
    renew_recorded_paths(tmp_path / "none", Path("/new"))
    assert not any(tmp_path.iterdir())
