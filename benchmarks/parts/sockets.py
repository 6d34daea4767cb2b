"""Throughput from socket to socket, and of the ingress alone, against that out of a filled log."""

from __future__ import annotations

from bench.contract import PURE
from bench.figures import Figures
from bench.inputs import input_of
from bench.ours import out_of_the_log, socket_to_socket
from bench.outputs import Expected
from bench.places import scratch
from bench.setting import Setting
from bench.workloads import workload

_UNIT = "events/s"
_LOG = "word count, 27 keys: out of the log"
_SOCKETS = "word count, 27 keys: socket to socket"
_INGRESS = "word count, 27 keys: accepted by the ingress alone"


def run(setting: Setting) -> Figures:
    """Measure the word count over 27 keys."""
    figures = Figures("Throughput from socket to socket")
    words = workload("words-27")
    given = input_of(words, setting.number_of_events(1_000_000, 10_000_000))
    with scratch() as folder:
        _, outputs = PURE.run(words.name, given, folder / "pure")
        expected = Expected(outputs, has_keys=words.has_keys)
    for number in range(setting.rounds):
        title = f"Word count, 27 keys, round {number + 1} of {setting.rounds}"
        with setting.doing(f"{title}: out of the log ..."), scratch() as folder:
            caught = out_of_the_log(words, given, folder, expected.size)
            expected.check("Wallaroo", [caught.output], in_order=True)
        figures.add(_LOG, given.main_events / caught.seconds, _UNIT)
        figures.add(_INGRESS, given.main_events / caught.accepting_seconds, _UNIT)
        with setting.doing(f"{title}: socket to socket ..."), scratch() as folder:
            seconds, output = socket_to_socket(words, given, folder, expected.size)
            expected.check("Wallaroo", [output], in_order=True)
        figures.add(_SOCKETS, given.main_events / seconds, _UNIT)
        for name in (_LOG, _INGRESS, _SOCKETS):
            setting.say(f"{title}: {name.partition(': ')[2]} {figures.by_name[name].values[-1]:,.0f} {_UNIT}")
    figures.add_ratios("socket to socket / out of the log", _SOCKETS, _LOG)
    figures.add_ratios("ingress alone / out of the log", _INGRESS, _LOG)
    return figures
