"""Files that are replaced, and room on the disk."""

import os
import resource

import pytest
from tests.processes import run_python

from wallaroo.files import free_space, is_full, reserve, write_atomically


@pytest.mark.parametrize("content", ["text \u00e9", b"bytes \xff"])
def test_a_file_is_replaced_and_what_a_link_leads_to_is_not(tmp_path, content):
    precious, path = tmp_path / "precious", tmp_path / "file"
    precious.write_text("mine")
    path.symlink_to(precious)
    write_atomically(path, content, mode=0o700)
    assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert not path.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o700
    assert precious.read_text() == "mine"


def test_space_is_reserved_without_changing_the_file(tmp_path):
    with (tmp_path / "file").open("wb", buffering=0) as file:
        file.write(b"line\n")
        before = os.fstat(file.fileno())
        reserve(file.fileno(), 1 << 20)
        after = os.fstat(file.fileno())
        assert after.st_size == before.st_size
        assert after.st_blocks >= (1 << 20) // 512
    assert (tmp_path / "file").read_bytes() == b"line\n"


def test_a_lack_of_space_is_reported(tmp_path):
    with (tmp_path / "file").open("wb") as file, pytest.raises(OSError, match="File too large"):
        reserve(file.fileno(), 1 << 62)


def test_a_folder_that_is_not_there_is_not_full(tmp_path):
    assert free_space(tmp_path / "nowhere") > 1 << 60


def test_whether_anything_can_be_written(tmp_path):
    assert not is_full(tmp_path)
    assert not is_full(tmp_path / "nowhere")  # Something else is wrong there.
    assert list(tmp_path.iterdir()) == []
    ask = "import sys, pathlib, wallaroo.files as files; sys.exit(files.is_full(pathlib.Path(sys.argv[1])))"
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    run_python(
        *("-c", ask, tmp_path),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard)),
        code=1,
    )
