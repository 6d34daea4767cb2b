"""The README of `examples/reverse`, followed."""

from .readme import EXAMPLES, expect_shown


def test_every_line_comes_out_reversed_and_in_order(walkthrough):
    lines = (EXAMPLES / "reverse" / "lines.txt").read_text().split("\n")[:-1]
    expected = [line[::-1] for line in ["why hello world", *lines, *lines * 500]]
    walk = walkthrough("reverse")

    receiver = walk.start("wallaroo receive")
    walk.start("machida")
    walk.run("echo")
    walk.wait_for_lines(receiver, 1)
    walk.run("wallaroo send")
    walk.wait_for_lines(receiver, 1 + len(lines))
    expect_shown(walk.shown, receiver.stdout.decode().splitlines())
    walk.run("wallaroo send")
    walk.wait_for_lines(receiver, len(expected))
    walk.finish()

    assert receiver.stdout.decode().split("\n") == [*expected, ""]
