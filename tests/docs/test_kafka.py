"""The program on the page about Kafka is one that can be built, and the options there are those of the program."""

import re
import types
from pathlib import Path

import wallaroo
from wallaroo.setup_arguments import call_setup
from wallaroo.topology.drawing import draw

from ..examples.readme import blocks  # noqa: TID252 - tests are not installed

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "kafka.md").read_text()


def test_the_program_on_the_page():
    [program] = blocks(PAGE, "python")
    module = types.ModuleType("word_count")
    exec(program, vars(module))
    application = call_setup(module.application_setup, [])
    drawing = draw(application, 200)
    assert "Kafka topic text" in drawing
    assert "Kafka topic counts" in drawing
    assert module.encode(("why", 2)) == ("why => 2", "why")


def test_the_options_on_the_page():
    rows = re.findall(r"^\| `(wallaroo\.\w+\(.*?)`(?:, and so on)? \| `?([^`|]*)", PAGE, re.MULTILINE)
    assert len(rows) == 5
    names = {"wallaroo": wallaroo, "decode": wallaroo.decoder(bytes.decode), "encode": wallaroo.encoder(str)}
    options = []
    for call, shown in rows:
        options = shown.split() if shown.startswith("--") else options
        config = call_setup(lambda args, call=call: eval(call, names, {"args": args}), options)
        assert (config.topic, config.brokers) == (options[1], [("127.0.0.1", "9092")])


def test_the_attributes_of_a_message_on_the_page():
    named = re.search(r"It has the attributes (.*?)\. The parameter", PAGE, re.DOTALL)[1]
    assert set(re.findall(r"`(\w+)`", named)) - {"datetime"} == {*wallaroo.KafkaMessage._fields, "time"}
