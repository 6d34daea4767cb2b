"""The command line of scripts for Kafka, as in the original's examples of extensions."""

from __future__ import annotations

import argparse
from collections.abc import Sequence


def parse_kafka_params(args: Sequence[str]) -> tuple[str, str, str]:
    """Return the broker, the topic and the group that a command line names; other options are left alone.

    Args:
        args: The command line, for example `sys.argv[1:]`.

    Returns:
        The values of `--bootstrap-broker`, `--topic` and `--consumer-group`.

    >>> parse_kafka_params(["--bootstrap-broker", "127.0.0.1:9092", "--topic", "text", "--consumer-group", "words"])
    ('127.0.0.1:9092', 'text', 'words')
    """
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--bootstrap-broker", required=True, metavar="HOST:PORT")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--consumer-group", required=True)
    found = parser.parse_known_args(args)[0]
    return found.bootstrap_broker, found.topic, found.consumer_group
