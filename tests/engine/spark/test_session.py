"""The environment of Spark's JVM."""

import os
import subprocess
import sys

import pytest

from wallaroo.engine.spark.session import environment

ASK = "from wallaroo.engine.spark.session import utf8_locale; print(utf8_locale())"


def test_variables_are_set_for_the_time_of_a_block(monkeypatch):
    monkeypatch.setenv("WALLAROO_ONE", "before")
    monkeypatch.delenv("WALLAROO_TWO", raising=False)
    with environment(WALLAROO_ONE="1", WALLAROO_TWO="2"):
        assert (os.environ["WALLAROO_ONE"], os.environ["WALLAROO_TWO"]) == ("1", "2")
    assert os.environ["WALLAROO_ONE"] == "before"
    assert "WALLAROO_TWO" not in os.environ


@pytest.mark.parametrize(("locale", "changed"), [("C", True), ("POSIX", True), ("C.UTF-8", False)])
def test_the_jvm_uses_unicode_where_the_system_knows_only_ascii(locale, changed):
    answer = subprocess.run(
        [sys.executable, "-c", ASK], env={**os.environ, "LC_ALL": locale}, capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == str({"LC_ALL": "C.UTF-8"} if changed else {})
