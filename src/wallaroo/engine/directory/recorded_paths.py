"""Paths that Spark has written into a checkpoint: it records in full where the schemas of a state are.

So a directory could not be moved, nor be reached under another path than before. Before Spark reads these records they
are made to name the place where the directory is now.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from wallaroo.files import write_atomically

_PLACE = re.compile(r".*(?=/state/\d+/_stateSchema/)", re.DOTALL)


def renew_recorded_paths(checkpoint: Path, place: Path) -> None:
    """Have the records in the folder `checkpoint` name the path `place`, under which Spark is going to know it."""
    for record in checkpoint.glob("state/*/_metadata/v2/*"):
        if not record.name.isdigit():
            continue
        text = record.read_text(errors="replace")
        version, _, body = text.partition("\n")
        try:
            renewed = f"{version}\n{json.dumps(_renewed(json.loads(body), place), separators=(',', ':'))}"
        except (ValueError, LookupError, TypeError):
            continue  # One that is damaged is for Spark to find.
        if renewed != text:
            record.with_name(f".{record.name}.crc").unlink(missing_ok=True)
            write_atomically(record, renewed)


def _renewed(metadata: dict[str, Any], place: Path) -> dict[str, Any]:
    for store in metadata["stateStoreInfo"]:
        store["stateSchemaFilePaths"] = [
            _PLACE.sub(lambda _: f"file:{place}", path, count=1) for path in store["stateSchemaFilePaths"]
        ]
    return metadata
