"""Numbers as people read them."""

import pytest

from wallaroo.sizes import plural, readable_size


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (0, "message", "0 messages"),
        (1, "dead letter", "1 dead letter"),
        (2, "more time", "2 more times"),
        (12345, "byte", "12,345 bytes"),
    ],
)
def test_a_noun_is_in_the_plural_unless_there_is_one(number, noun, text):
    assert plural(number, noun) == text


def test_a_size_of_one_byte():
    assert readable_size(1) == "1 byte"
    assert readable_size(2) == "2 bytes"
