"""Messages a second from a script through a state to another script, against plain TCP."""

from __future__ import annotations

import random
import struct
from itertools import pairwise
from pathlib import Path

from bench.extension_wires import SinkScript, SourceScript
from bench.figures import Figures
from bench.inputs import Frames
from bench.machida import Machida
from bench.outputs import Expected, size_of
from bench.places import scratch
from bench.setting import Setting
from bench.wires import Receiver, Sender

_UNIT = "messages/s"
_TCP = "extensions, a state for each of 1,000 keys: plain TCP"
_SCRIPTS = "extensions, a state for each of 1,000 keys: between scripts"
_SEQUENCES = "extensions, a state for each of 1,000 keys: between scripts, with sequences"
_KEYS = 1_000
_SLICES = 4
_WARM_UP = 200_000
_PATIENCE = 900.0
_LENGTH = struct.Struct(">I")


def run(setting: Setting) -> Figures:
    """Measure all three, in turn."""
    figures = Figures("Extensions")
    number = setting.number_of_events(1_000_000, 4_000_000)
    with scratch() as folder:
        given = _Input(folder, min(_WARM_UP, number), number)
        for each in range(setting.rounds):
            title = f"Extensions, round {each + 1} of {setting.rounds}"
            for name in (_TCP, _SCRIPTS, _SEQUENCES):
                with setting.doing(f"{title}: {name.partition(': ')[2]} ..."), scratch() as place:
                    seconds = _over_tcp(given, place) if name == _TCP else _over_scripts(given, place, name)
                figures.add(name, number / seconds, _UNIT)
                setting.say(f"{title}: {name.partition(': ')[2]} {number / seconds:,.0f} {_UNIT}")
    figures.add_ratios("between scripts / plain TCP", _SCRIPTS, _TCP)
    figures.add_ratios("between scripts, with sequences / plain TCP", _SEQUENCES, _TCP)
    return figures


class _Input:
    """The same messages as lines, as frames, and as the outputs that they have to become."""

    def __init__(self, folder: Path, warm_up: int, number: int) -> None:
        random.seed(23)
        keys = random.choices([f"key-{key}" for key in range(_KEYS)], k=warm_up + number)
        messages = [f"{key} and some text beside it".encode() for key in keys]
        self.warm_up, self.end = warm_up, warm_up + number
        self.lines, frames = folder / "messages.txt", folder / "messages.frames"
        self.lines.write_bytes(b"".join(each + b"\n" for each in messages))
        ends = [0]
        with frames.open("wb") as file:
            for each in messages:
                file.write(_LENGTH.pack(len(each)) + each)
                ends.append(ends[-1] + _LENGTH.size + len(each))
        borders = [warm_up * part // _SLICES for part in range(_SLICES + 1)]
        slices = [(ends[low], ends[high]) for low, high in pairwise(borders)]
        self.frames = Frames(frames, slices, (ends[warm_up], ends[-1]))
        self.borders = borders
        self.expected = Expected([_outputs(keys, folder / "expected")], has_keys=True)


def _outputs(keys: list[str], path: Path) -> Path:
    totals: dict[str, int] = {}
    with path.open("w") as file:
        for key in keys:
            totals[key] = totals.get(key, 0) + 1
            file.write(f"{key} => {totals[key]}\n")
    return path


def _over_tcp(given: _Input, folder: Path) -> float:
    """Return the seconds from the first byte that is sent to the last one that is received."""
    output = folder / "output"
    with (
        Receiver(output) as receiver,
        Sender() as sender,
        Machida("extension_counts", folder / "home", receiver.address) as application,
    ):
        address = application.address("messages")
        for part in given.frames.warm_up:
            before = receiver.total
            sender.send(address, given.frames, part)
            receiver.wait_until_quiet(before, 0.3, _PATIENCE)
        sender.start_sending(address, given.frames, given.frames.main)
        last = receiver.wait_for(given.expected.size, _PATIENCE)
        started, _ = sender.finish()
    given.expected.check("Wallaroo over TCP", [output], in_order=True)
    return (last - started) / 1e9


def _over_scripts(given: _Input, folder: Path, name: str) -> float:
    """Return the seconds from the first message that is written to the last one that is read."""
    output = folder / "output"
    with_sequences = name == _SEQUENCES
    with SinkScript(output) as sink, SourceScript(given.lines) as source:
        streams = ("--text-stream", "127.0.0.1:0", "--count-stream", sink.address)
        with Machida("extension_counts", folder / "home", None, streams) as application:
            source.connect(application.address("messages"))
            for low, high in pairwise(given.borders):
                sink.start_reading(high - low)
                source.start_writing(low, high, with_sequences=with_sequences)
                source.finish(_PATIENCE)
                sink.finish(_PATIENCE)
            sink.start_reading(given.end - given.warm_up)
            source.start_writing(given.warm_up, given.end, with_sequences=with_sequences)
            started = source.finish(_PATIENCE)
            last = sink.finish(_PATIENCE)
    assert size_of([output]) == given.expected.size
    given.expected.check("Wallaroo between scripts", [output], in_order=True)
    return (last - started) / 1e9
