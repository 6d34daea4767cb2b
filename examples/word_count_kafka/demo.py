"""Runs the word count from a topic of Kafka to another, and checks every count (`make demo KAFKA=1`).

    wallaroo send --> topic "text" --> machida (word_count.py) --> topic "counts" --> wallaroo receive

The broker is a real one: a process of its own that listens only on this machine, with its data in a folder that is
deleted at the end. The first time its jars are downloaded, 45 MB, and kept in the cache folder.
"""

import re
import sys
import time
from contextlib import ExitStack
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "examples" / "word_count"), str(HERE.parents[1])]

from demo import (  # noqa: E402 - that of the other word count, found by the path above
    READY,
    START_SECONDS,
    Failure,
    Received,
    compare,
    count_words,
    lines_of,
    main,
    starter,
    watch,
)

PARTITIONS = 4


def start_broker(folder, display):
    """Start a broker, with the jars that it is made of."""
    from tools.kafka_broker import Broker
    from tools.ivy import OfflineError
    from tools.kafka_jars import jars

    display.step("looking for the broker's jars (the first time, 45 MB are downloaded)")
    try:
        jars()
    except OfflineError:
        raise Failure("the jars of a Kafka broker are not here, and cannot be downloaded without a network.") from None
    display.step("starting the broker")
    return Broker(folder / "broker").start()


def run(program, text, folder, display):
    """Run everything and return the expected counts, the number of messages and the seconds it took."""
    lines = lines_of(text)
    expected = count_words(lines)
    received = Received(folder / "counts.txt")

    with ExitStack() as children:
        start = starter(children, folder)
        broker = start_broker(folder, display)
        children.callback(broker.clean_up)
        source, sink = (broker.create_topic(name, PARTITIONS) for name in ("text", "counts"))

        display.step("starting the receiver")
        receiver = start(
            "wallaroo receive",
            *("receive", f"kafka://{broker.address}/{sink}", "--from-beginning", "--output", str(received.path)),
        )
        receiver.wait_for("^reading ", START_SECONDS)

        display.step("starting the application")
        (folder / "resilience").mkdir()
        machida = start(
            "machida",
            *("--application-module", "word_count"),
            *("--kafka_source_topic", source, "--kafka_source_brokers", broker.address),
            *("--kafka_sink_topic", sink, "--kafka_sink_brokers", broker.address),
            *("--resilience-dir", str(folder / "resilience")),
            cwd=program,
        )
        machida.wait_for(f"^{re.escape(READY)}$", START_SECONDS)

        display.step(f"sending {len(lines):,} lines to the topic {source!r}")
        started = time.monotonic()
        sender = start("wallaroo send", "send", f"kafka://{broker.address}/{source}", "--file", str(text))
        watch(sender, [receiver, machida], received, expected.total(), display)
        seconds = time.monotonic() - started

        display.step("stopping")
        machida.stop()
        receiver.stop()

    display.step("comparing")
    compare(received.path, expected)
    return expected, len(lines), seconds


if __name__ == "__main__":
    sys.exit(main(run, HERE))
