"""Frames of any sizes, cut into pieces of any sizes."""

from hypothesis import given
from hypothesis import strategies as st

from wallaroo.cli.framing import FRAMINGS, FrameSplitter

framings = st.sampled_from(list(FRAMINGS.values()))
messages = st.lists(st.binary(max_size=255))


@given(framings, messages, st.lists(st.integers(0, 600)), st.booleans())
def test_frames_are_found_however_the_stream_is_split(framing, messages, cuts, keep_headers):
    frames = framing.wrap(messages)
    stream = b"".join(frames)
    splitter = FrameSplitter(framing, keep_headers=keep_headers)
    ends = [*sorted(cuts), len(stream)]
    found = []
    for start, end in zip([0, *ends], ends, strict=False):
        found += splitter.feed(memoryview(stream)[start:end])
    assert found == (frames if keep_headers else messages)
    assert splitter.missing() == 0


@given(framings, st.binary(min_size=1, max_size=255), st.data())
def test_an_unfinished_frame_lacks_bytes(framing, message, data):
    [frame] = framing.wrap([message])
    splitter = FrameSplitter(framing)
    length = data.draw(st.integers(1, len(frame) - 1))
    assert splitter.feed(frame[:length]) == []
    header = framing.header.size
    assert splitter.missing() == (header - length if length < header else len(frame) - length)
