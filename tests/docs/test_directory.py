"""The reference of an application's directory has every name that is there."""

import re
from pathlib import Path

from wallaroo.engine.directory.archive import LOCK, OWN, is_archive
from wallaroo.engine.directory.trust import MARKER
from wallaroo.ingress.block_sequence import SequenceWriter
from wallaroo.ingress.log.format import LOST_FILE, segment_paths
from wallaroo.ingress.log.writer import LogWriter

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "directory.md").read_text()


def section(heading):
    return PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def names_in(text):
    """Return the names in the first cells of the tables."""
    cells = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    return {name.rstrip("/") for cell in cells for name in re.findall("`(.+?)`", cell)}


def test_every_name_in_the_directory_is_on_the_page_and_no_other():
    text = section("What is in it")
    older = text.partition("Older versions have left")[2].partition(".\n")[0]
    of_earlier_versions = set(re.findall(r"`([\w.]+)`", older))
    here = {name for name in names_in(text) if not is_archive(name)}
    assert here | of_earlier_versions == {MARKER, LOCK, *OWN}
    assert not here & of_earlier_versions


def test_every_name_in_a_log_is_on_the_page(tmp_path):
    log = LogWriter(tmp_path)
    log.append([b"one", b"two"])
    log.advance_to(5)
    log.delete_before(1)
    log.close()
    there = {path.name for path in tmp_path.iterdir()}
    assert LOST_FILE in there
    numbers = {path.name for path in segment_paths(tmp_path, 0)}
    assert numbers <= there
    named = {f"NUMBER{Path(name).suffix}" if name[0].isdigit() else name for name in there}
    assert named <= names_in(section("The log of a source"))


def test_every_name_in_a_sequence_is_on_the_page(tmp_path):
    sequence = SequenceWriter(tmp_path, ["words"])
    sequence.append(1, 0)
    sequence.close(unseen=0)
    there = {re.sub(r"^\d+", "NUMBER", path.name) for path in tmp_path.iterdir()}
    assert there == names_in(section("The sequence")) - {"damaged"}
