"""The environment of Spark's JVM."""

import os
from contextlib import closing

import pytest
from pyspark import SparkContext
from tests.processes import run_python

from wallaroo.engine.directory.home import Home
from wallaroo.engine.directory.run_folder import run_folder
from wallaroo.engine.spark.error_messages import SparkStartError
from wallaroo.engine.spark.gateway import Bridge
from wallaroo.engine.spark.session import _session, environment

from .test_gateway import start

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
    answer = run_python("-c", ASK, env={**os.environ, "LC_ALL": locale})
    assert answer.stdout.strip() == str({"LC_ALL": "C.UTF-8"} if changed else {})


def test_a_jvm_that_ended_while_a_session_was_created_is_not_asked_again(tmp_path, monkeypatch):
    home = Home(tmp_path / "home")
    home.spark_output.parent.mkdir(parents=True)
    home.spark_output.touch()
    with run_folder() as folder:
        first = start(folder, {}, monkeypatch)
        first.wait_until_up()
        with closing(Bridge(first)) as bridge:
            # As a SparkContext leaves it that fails while it is created.
            monkeypatch.setattr(SparkContext, "_jvm", bridge.jvm)
            first.kill()
            second = start(folder, {}, monkeypatch)
            second.kill()
            with pytest.raises(SparkStartError, match="Spark could not be started"):
                _session({}, home, second, None, local=True)
    assert SparkContext._jvm is None
