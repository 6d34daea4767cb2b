"""Colours for drawings."""

import re

import wallaroo
from wallaroo.cli.screen import coloured
from wallaroo.topology.drawing import draw
from wallaroo.topology.model import Application, Pipeline, State, StateComputation

SOURCE = wallaroo.TCPSourceConfig("127.0.0.1", 7010, wallaroo.decoder(bytes.decode))


def test_names_are_bold_and_lines_are_dim():
    state = State("totals", dict, partitioned=False, keys=None)
    step = StateComputation("count", None, True, state, None)
    plain = draw(Application("Test", (Pipeline("one", SOURCE, (step,), ()), Pipeline("two", SOURCE, (step,), ()))))
    colours = coloured(plain)
    assert re.sub(r"\x1b\[\d*m", "", colours) == plain
    assert re.findall(r"\x1b\[1m(.*?)\x1b\[0m", colours) == ["Test", "  one", "  two"]
    dim = "".join(re.findall(r"\x1b\[2m(.*?)\x1b\[0m", colours))
    assert dim == "".join(re.findall("[─═│╭╮╰╯├╞▶]", plain))
