"""The README of `examples/alphabet`, followed."""

import struct
from collections import defaultdict
from itertools import accumulate

from .readme import expect_shown


def by_letter(pairs):
    found = defaultdict(list)
    for letter, number in pairs:
        found[letter].append(number)
    return dict(found)


def test_every_vote_is_added_to_its_letter_in_order(walkthrough):
    walk = walkthrough("alphabet")
    received = walk.folder / "totals.bin"

    walk.start("wallaroo receive")
    walk.start("machida")
    walk.run("python make_votes.py")
    sent = list(struct.iter_unpack(">4xsI", (walk.folder / "votes.bin").read_bytes()))
    expected = {letter: list(accumulate(votes)) for letter, votes in by_letter(sent).items()}
    assert len(sent) == 10_000
    assert len(expected) == 26
    assert max(totals[-1] for totals in expected.values()) > 2**32

    walk.run("wallaroo send")
    walk.wait_until(lambda: received.stat().st_size >= 13 * len(sent), "all totals")
    shown = walk.run("python show.py").splitlines()
    assert shown == [f"{letter.decode()} {totals[-1]}" for letter, totals in sorted(expected.items())]
    expect_shown(walk.shown, shown)
    walk.finish()

    frames = list(struct.iter_unpack(">IsQ", received.read_bytes()))
    assert {length for length, _, _ in frames} == {9}
    assert by_letter((letter, total) for _, letter, total in frames) == expected
