"""Inputs on the disk: the same messages as lines for programs that read text, and as frames for our sockets."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from bench.places import INPUTS
from bench.workloads import Sections, Workload

_PARTS = 2  # for programs whose unit of parallelism is a file
_SLICES = 6


@dataclass(frozen=True)
class Frames:
    """The messages of one pipeline as a sender sends them, and at which offsets its sections lie."""

    path: Path
    warm_up: list[tuple[int, int]]
    """In several slices, so that the engine has several blocks to warm up with."""
    main: tuple[int, int]


@dataclass(frozen=True)
class Input:
    """The input of a workload.

    `folder` has a file `<pipeline>.txt` with a message on each line, and `parts/<pipeline>-<number>.txt` with the same.
    """

    folder: Path
    main_events: int
    all_events: int
    frames: dict[str, Frames]


def input_of(workload: Workload, events: int) -> Input:
    """Return the input with so many events in its main section, made if it is not there yet."""
    folder = INPUTS / f"{workload.name}-{events}"
    index = folder / "index.json"
    if not index.exists():
        shutil.rmtree(folder, ignore_errors=True)
        _write(folder, workload, events)
    found = json.loads(index.read_text())
    frames = {}
    for name, ends in found["frames"].items():
        *warm_up, main = pairwise([0, *ends])
        frames[name] = Frames(folder / f"{name}.frames", warm_up, main)
    return Input(folder, found["main_events"], found["all_events"], frames)


def _write(folder: Path, workload: Workload, events: int) -> None:
    (folder / "parts").mkdir(parents=True)
    offsets = {}
    main = total = 0
    for pipeline, sections in workload.make(events).items():
        offsets[pipeline] = _write_frames(folder / f"{pipeline}.frames", sections)
        lines = [message for section in sections for message in section]
        _write_lines(folder / f"{pipeline}.txt", lines)
        for number, part in enumerate(_cut(lines, _PARTS)):
            _write_lines(folder / "parts" / f"{pipeline}-{number}.txt", part)
        main += len(sections.main) * workload.events_in_a_message
        total += len(lines) * workload.events_in_a_message
    index = {"main_events": main, "all_events": total, "frames": offsets}
    # Written last: an input that has no index is not finished.
    (folder / "index.json").write_text(json.dumps(index))


def _write_frames(path: Path, sections: Sections) -> list[int]:
    ends = []
    slices = list(_cut(sections.warm_up, _SLICES))
    with path.open("wb") as file:
        for section in (*slices, sections.main):
            file.write(framed(section))
            ends.append(file.tell())
    return ends


def _cut(messages: list[bytes], number: int) -> Iterator[list[bytes]]:
    """Cut messages into parts of the same length."""
    for begin, end in pairwise(len(messages) * part // number for part in range(number + 1)):
        yield messages[begin:end]


def _write_lines(path: Path, lines: list[bytes]) -> None:
    path.write_bytes(b"".join(line + b"\n" for line in lines))


def framed(messages: list[bytes]) -> bytes:
    """Return messages, each with its length in front."""
    pack = struct.Struct(">I").pack
    return b"".join([pack(len(message)) + message for message in messages])
