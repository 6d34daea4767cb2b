"""Tables on screens of any width."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wallaroo.cli.table import layout, visible, wrapped

FIRST, OTHERS = ("id", "step", "error"), ("state", "key")
ROW = {"id": "3f9a1c", "step": "count words", "error": "KeyError: 'w'", "state": "waiting", "key": "'w'"}
TEXT = st.text(alphabet="abc日 ", max_size=60)
ROWS = st.lists(st.fixed_dictionaries(dict.fromkeys((*FIRST, *OTHERS), TEXT)), min_size=1, max_size=4)


def test_what_fits_is_on_one_line():
    assert (
        list(layout([ROW], FIRST, OTHERS, None))
        == list(layout([ROW], FIRST, OTHERS, 50))
        == [
            "id      step         error          state    key",
            "3f9a1c  count words  KeyError: 'w'  waiting  'w'",
        ]
    )


def test_further_columns_are_left_out_first():
    assert list(layout([ROW], FIRST, OTHERS, 45)) == [
        "id      step         error          state",
        "3f9a1c  count words  KeyError: 'w'  waiting",
    ]
    assert list(layout([ROW], FIRST, OTHERS, 36)) == [
        "id      step         error",
        "3f9a1c  count words  KeyError: 'w'",
    ]


def test_then_texts_take_several_lines():
    assert list(layout([ROW], FIRST, OTHERS, 28)) == [
        "id      step   error",
        "3f9a1c  count  KeyError: 'w'",
        "        words",
    ]


def test_at_last_the_long_text_is_put_below():
    assert list(layout([ROW], FIRST, OTHERS, 20)) == ["id  step", "3f9a1c  count words", "  KeyError: 'w'"]


@given(ROWS, st.integers(10, 120))
def test_every_word_of_the_first_columns_is_there_and_whole(rows, width):
    lines = list(layout(rows, FIRST, OTHERS, width))
    words = {word for line in lines for word in line.split()}
    for row in rows:
        for name in FIRST:
            assert words.issuperset(row[name].split())


@given(TEXT, st.integers(1, 40))
def test_lines_are_no_longer_than_they_may_be_but_for_long_words(text, width):
    lines = wrapped(text, width)
    assert " ".join(lines).split() == text.split()
    wide = [sum(2 if each == "日" else 1 for each in line) for line in lines]
    assert all(size <= width or " " not in line.strip() for size, line in zip(wide, lines, strict=True))


@pytest.mark.parametrize(
    ("text", "shown"), [("é 日\n\tx", "é 日\n\tx"), ("\x1b[31m\r", "\\x1b[31m\\r"), ("\u202e", "\\u202e")]
)
def test_control_characters_are_made_visible(text, shown):
    assert visible(text) == shown
