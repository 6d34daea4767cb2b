"""When an application stops after errors in user code."""

from itertools import count

import pytest

from wallaroo.engine.delivery.error_policy import MIN_MESSAGES, ErrorPolicy, OnError
from wallaroo.errors import ErrorPolicyError

LETTER = {
    "pipeline": "words",
    "step": "count",
    "message": "'a'",
    "key": "'k'",
    "source": "words",
    "position": 3,
    "error": "E: e",
    "traceback": 'Traceback (most recent call last):\n  File "words.py", line 7, in count\nE: e',
}


blocks = count()


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def policy(text):
    clock = Clock()
    return ErrorPolicy(OnError.parse(text), clock), clock


def test_by_default_the_application_continues_after_any_error():
    policy, _ = ErrorPolicy(OnError()), None
    policy.judge([LETTER] * 100_000, 100_000, next(blocks))


def test_fail_stops_at_the_first_error_and_reports_all_of_it():
    policy_, _ = policy("fail")
    policy_.judge([], 1000, next(blocks))
    with pytest.raises(ErrorPolicyError) as stopped:
        policy_.judge([LETTER, {**LETTER, "message": "'b'"}], 1000, next(blocks))
    lines = str(stopped.value).splitlines()
    assert lines[0] == (
        "Pipeline 'words', step 'count' failed for the message 'a', with the key 'k', from message 3 of 'words'"
    )
    assert lines[1:4] == LETTER["traceback"].splitlines()
    assert lines[4].startswith("The application stops, as --on-error fail says. None of this counts as processed")
    assert stopped.value.exit_code == 7


@pytest.mark.parametrize(("text", "seconds"), [("10/s", 1), ("10/min", 60), ("10/h", 3600)])
def test_a_rate_allows_so_many_in_its_time(text, seconds):
    policy_, clock = policy(text)
    for _ in range(5):
        policy_.judge([LETTER] * 10, 10, next(blocks))
        clock.now += seconds
    policy_.judge([LETTER] * 6, 6, next(blocks))
    clock.now += seconds / 2
    policy_.judge([LETTER] * 4, 4, next(blocks))
    with pytest.raises(ErrorPolicyError, match=rf"11 dead letters in the last \w+, more than --on-error {text} allows"):
        policy_.judge([LETTER], 1, next(blocks))


def test_a_block_that_is_tried_again_counts_once():
    policy_, _ = policy("10/min")
    for _ in range(5):
        policy_.judge([LETTER] * 4, 4, 7)
    policy_.judge([LETTER] * 6, 6, 8)
    with pytest.raises(ErrorPolicyError, match="11 dead letters"):
        policy_.judge([LETTER], 1, 9)


def test_a_share_is_one_of_the_messages_of_the_last_minute():
    policy_, clock = policy("1%")
    policy_.judge([], 900, next(blocks))
    clock.now += 30
    policy_.judge([LETTER] * 10, 100, next(blocks))
    clock.now += 31
    policy_.judge([], 0, next(blocks))
    # The nine hundred are forgotten, so ten of a hundred are too many as soon as there is another one.
    with pytest.raises(ErrorPolicyError, match="11 dead letters for 101 messages in the last minute"):
        policy_.judge([LETTER], 1, next(blocks))


def test_a_share_of_a_few_messages_says_nothing():
    policy_, _ = policy("1%")
    policy_.judge([LETTER], 3, next(blocks))
    policy_.judge([LETTER] * (MIN_MESSAGES - 4), MIN_MESSAGES - 4, next(blocks))
    with pytest.raises(ErrorPolicyError):
        policy_.judge([LETTER], 1, next(blocks))


@pytest.mark.parametrize("text", ["", "never", "100%", "250%", "-1%", "1 %", "%", "10/day", "10", "/s", "1e3/s"])
def test_what_cannot_be_understood_is_refused(text):
    with pytest.raises(ValueError, match=r"dead-letter, fail, .* 1%, .* 100/s, 10/min or 5/h"):
        OnError.parse(text)


@pytest.mark.parametrize("text", ["dead-letter", "fail", "0.5%", "99%", "0/h", "100/s"])
def test_the_policy_is_kept_as_it_was_written(text):
    assert OnError.parse(text).text == text
