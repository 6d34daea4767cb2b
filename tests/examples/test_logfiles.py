"""The README of `examples/logfiles`, followed."""

import json
from collections import Counter

from .readme import EXAMPLES


def summary(path):
    """Count the return codes of a day by taking its lines apart at the quotation marks."""
    lines = path.read_text().splitlines()
    [day] = {line.split("[")[1].split(":")[0] for line in lines}
    return {"day": day, "counts": Counter(line.split('" ')[1].split()[0] for line in lines)}


def test_each_day_is_summed_up_when_it_is_over(walkthrough):
    expected = [summary(path) for path in sorted((EXAMPLES / "logfiles").glob("day_*.log"))]
    assert len(expected) == 5
    walk = walkthrough("logfiles")

    receiver = walk.start("wallaroo receive")
    walk.start("machida")
    walk.run("for f in day_*.log; do python sender.py")
    walk.wait_for_lines(receiver, len(expected))
    walk.make_data_again("python make_days.py", "day_*.log")
    walk.finish()

    lines = receiver.stdout.decode().splitlines()
    assert [json.loads(line) for line in lines] == expected
    assert walk.shown == lines
