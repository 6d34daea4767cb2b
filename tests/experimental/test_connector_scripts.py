"""The halves of connectors that are scripts: what they take from the command line and the application."""

import sys

import pytest

from wallaroo.api import connectors
from wallaroo.experimental import SinkConnector, SourceConnector

APPLICATION = """
import wallaroo
from wallaroo.experimental import stream_message_decoder, stream_message_encoder

@stream_message_encoder
def encode(text):
    return text.encode()

@stream_message_decoder
def decode(bs):
    return bs.decode()

{declared}

def application_setup(args):
    host, port = wallaroo.tcp_parse_input_addrs(args)[0]
    {declared_later}
"""


@pytest.fixture
def application(tmp_path, monkeypatch):
    """Write an application, as a module of the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(connectors, "_declared", {"source": {}, "sink": {}})

    def write(declared="", declared_later="pass"):
        (tmp_path / "celsius_app.py").write_text(APPLICATION.format(declared=declared, declared_later=declared_later))
        return "--application-module", "celsius_app"

    yield write
    sys.modules.pop("celsius_app", None)


@pytest.mark.parametrize("where", ["declared", "declared_later"])
def test_a_connector_is_found_wherever_the_application_declares_it(application, where):
    module = application(**{where: 'wallaroo.source_connector("feed", encode, decode, port=7111)'})
    script = SourceConnector([*module, "--connector", "feed", "--feed-topic", "t"], ["topic"], ["broker_list"])
    assert (script.params.topic, script.params.broker_list) == ("t", None)
    assert (script._connector.host, script._connector.port) == ("127.0.0.1", 7111)


def test_parameters_are_written_with_underscores_or_hyphens_and_from_the_running_script(application, monkeypatch):
    module = application('wallaroo.sink_connector("results", encode, decode)')
    parameters = "--results-broker-list", "a,b", "--results-max_size", "5", "--other-max_size", "6", "and more"
    monkeypatch.setattr(sys, "argv", ["script.py", *module, "--connector", "results", *parameters])
    script = SinkConnector(required_params=["broker_list"], optional_params=["max_size", "hash-key"])
    assert vars(script.params).items() >= {"broker_list": "a,b", "max_size": "5", "hash_key": None}.items()


def test_what_is_missing_is_said_in_a_line(application, capsys):
    module = application('wallaroo.source_connector("feed", encode, decode)')
    for arguments, said in (
        ((), "the following arguments are required: --application-module, --connector"),
        ((*module, "--connector", "feed"), "the following arguments are required: --feed-topic"),
    ):
        with pytest.raises(SystemExit) as ended:
            SourceConnector(arguments, ["topic"])
        assert ended.value.code == 2
        assert said in capsys.readouterr().err


def test_the_help_names_the_parameters(application, capsys):
    module = application()
    with pytest.raises(SystemExit) as ended:
        SourceConnector([*module, "--connector", "feed", "--help"], ["topic"], ["group"])
    assert ended.value.code == 0
    assert "--feed-topic VALUE [--feed-group VALUE]" in " ".join(capsys.readouterr().out.split())


def test_what_is_not_there_is_said_in_a_line(application, capsys):
    module = application('wallaroo.source_connector("feed", encode, decode)')
    for kind, arguments, said in (
        (SourceConnector, (*module, "--connector", "food"), "has no source connector called 'food'; it has: feed."),
        (SinkConnector, (*module, "--connector", "feed"), "called 'feed'; it has: none"),
        (SinkConnector, ("--application-module", "nowhere", "--connector", "feed"), "No module named 'nowhere' in the"),
    ):
        with pytest.raises(SystemExit) as ended:
            kind(arguments)
        assert ended.value.code == 2
        assert said in capsys.readouterr().err
