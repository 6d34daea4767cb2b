"""`machida --on-error`: read before anything is started."""

import click
import pytest

from wallaroo.cli.machida import main
from wallaroo.engine.delivery.error_policy import OnError


@pytest.mark.parametrize("text", ["dead-letter", "fail", "1%", "10/min"])
def test_what_is_given_reaches_the_run(text):
    with main.make_context("machida", ["--on-error", text]) as context:
        assert context.params["on_error"] == OnError.parse(text)


def test_by_default_the_application_continues():
    with main.make_context("machida", []) as context:
        assert context.params["on_error"] == OnError()


def test_invalid_policies_are_refused_with_examples():
    with pytest.raises(click.BadParameter, match=r"'often' is none of these: dead-letter, fail, .* 10/min") as refused:
        main.make_context("machida", ["--on-error", "often"])
    assert refused.value.exit_code == 2
