"""Blocks for the sink of an extension, the same in every process; as a program, an application that sends them.

`python -m tests.connectors.extension.blocks PORT FIRST END` prints the number of each block that is delivered.
"""

import random
import sys
import threading
from array import array

from wallaroo.connectors.base import SinkContext
from wallaroo.connectors.extension.sink import ExtensionSink
from wallaroo.connectors.output_block import OutputBlock

APPLICATION = "6f1c3f0d8a3b4b0f9d0a6a1f2f3e4d5c"
PATIENCE = 60


def outputs_of(number):
    """Return the outputs of a block; some blocks have none for this sink, some have many."""
    count = random.Random(number).choice([0, 1, 3, 50, 2000])
    return [b"%d:%d" % (number, index) for index in range(count)]


def block_of(number, outputs=None, ended=lambda _: None, note=lambda *_: None):
    """Return a block as the egress hands it over: in bodies, as memoryviews."""
    messages = outputs_of(number) if outputs is None else outputs
    half = len(messages) // 2
    parts = [messages[:half], messages[half:]]
    bodies = [memoryview(b"".join(part)) for part in parts]
    lengths = [array("I", map(len, part)) for part in parts]
    return OutputBlock(number, bodies, note, lengths, ended)


class Sending:
    """A sink, and what it has reported."""

    def __init__(self, address, application=APPLICATION):
        self.notices, self.durable, self.reports, self.notes = [], [], [], []
        self.stopping = threading.Event()
        self.changed = threading.Condition()
        context = SinkContext(self.stopping, self.notices.append, application, self.durable.append)
        self.sink = ExtensionSink(*address, context)

    def deliver(self, number, outputs=None, resumed=None):
        """Hand over a block; `resumed` is what an earlier run has noted of it."""
        block = block_of(number, outputs, lambda error: self._report(number, error), lambda *note: self.note(note))
        if resumed is not None:
            block.resume(*resumed)
        self.sink.deliver(block)

    def note(self, note):
        with self.changed:
            self.notes.append(note)
            self.changed.notify_all()

    def _report(self, number, error):
        with self.changed:
            self.reports.append(number if error is None else error)
            self.changed.notify_all()

    def wait_for(self, count):
        """Return the first reports, when there are so many."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.reports) >= count, PATIENCE), (self.reports, self.notices)
            return self.reports[:count]


def main(port, first, end):
    sending = Sending(("127.0.0.1", int(port)))
    told = 0
    for number in range(int(first), int(end)):
        sending.deliver(number)
        # As the window of the application does: some blocks are in flight.
        while number - int(first) - told > 20:
            told = _tell(sending, told)
    while told < int(end) - int(first):
        told = _tell(sending, told)
    sending.sink.close()


def _tell(sending, told):
    [report] = sending.wait_for(told + 1)[told:]
    sys.stdout.write(f"{report}\n")
    sys.stdout.flush()
    return told + 1


if __name__ == "__main__":
    main(*sys.argv[1:])
