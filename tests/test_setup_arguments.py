"""Configs find the arguments of the `application_setup` that makes them."""

import sys

import pytest

from wallaroo.setup_arguments import MissingOptionError, call_setup, call_with_addresses, current_arguments, is_in_setup


def needs(option):
    def setup(args):
        if option not in args:
            raise MissingOptionError(option, "sample")
        return current_arguments()

    return setup


def test_the_innermost_setup_counts():
    def outer(args):
        return current_arguments(), call_setup(lambda inner: current_arguments(), ["--in", "1"]), current_arguments()

    assert call_setup(outer, ["--out", "2"]) == (["--out", "2"], ["--in", "1"], ["--out", "2"])


def test_an_error_in_setup_leaves_nothing_behind():
    with pytest.raises(MissingOptionError, match=r"--feed_topic is missing: .* for example --feed_topic sample\."):
        call_setup(needs("--feed_topic"), [])
    assert not is_in_setup()


def test_outside_of_any_setup_they_are_those_of_the_script(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["script.py", "--feed_topic", "words"])
    assert current_arguments() == ["--feed_topic", "words"]


def test_options_that_are_asked_for_are_made_up():
    made_up = []
    given = call_with_addresses(needs("--feed_topic"), ["--in", "127.0.0.1:1", "-o127.0.0.1:2"], made_up.append)
    assert given == ["--in", "127.0.0.1:1", "-o127.0.0.1:2", "--feed_topic", "sample"]
    assert made_up == ["--feed_topic"]


def test_an_option_that_is_there_and_yet_missing_is_an_error():
    def insists(args):
        raise MissingOptionError("--topic", "words")

    with pytest.raises(MissingOptionError):
        call_with_addresses(insists, [])
