"""Wallaroo on Spark: scalable event processing in plain Python.

A program declares an application in a function `application_setup(args)`, which `machida` runs:

>>> import wallaroo
>>> @wallaroo.decoder(header_length=4, length_fmt=">I")
... def decode(bs):
...     return bs.decode("utf-8")
>>> @wallaroo.computation("to upper case")
... def upper(text):
...     return text.upper()
>>> @wallaroo.encoder
... def encode(text):
...     return text.encode("utf-8")
>>> def application_setup(args):
...     in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
...     out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
...     ab = wallaroo.ApplicationBuilder("Upper Case")
...     ab.new_pipeline("lines", wallaroo.TCPSourceConfig(in_host, in_port, decode))
...     ab.to(upper)
...     ab.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, encode))
...     return ab.build()
>>> application_setup(["--in", "127.0.0.1:7010", "--out", "127.0.0.1:7002"])
<Application 'Upper Case': 'lines'>
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from wallaroo._version import __version__
from wallaroo.api.builder import ApplicationBuilder
from wallaroo.api.codecs import decoder, encoder
from wallaroo.api.computations import (
    computation,
    computation_multi,
    state_computation,
    state_computation_multi,
)
from wallaroo.api.connectors import SinkConnectorConfig, SourceConnectorConfig, sink_connector, source_connector
from wallaroo.api.decorated import class_of_decorated
from wallaroo.api.default_serialization import deserialize, serialize
from wallaroo.api.durations import hours, microseconds, milliseconds, minutes, nanoseconds, seconds
from wallaroo.api.kafka_args import (
    CustomKafkaSinkCLIParser,
    CustomKafkaSourceCLIParser,
    DefaultKafkaSinkCLIParser,
    DefaultKafkaSourceCLIParser,
    kafka_parse_sink_options,
    kafka_parse_source_options,
)
from wallaroo.api.partitions import key_extractor, partition
from wallaroo.api.pipelines import Pipeline, build_application, source
from wallaroo.api.tcp_args import tcp_parse_input_addrs, tcp_parse_output_addrs
from wallaroo.api.upcoming import Aggregation, count_windows, range_windows
from wallaroo.class_changes import renamed, state_upgrade
from wallaroo.connectors.generator.kind import GenSourceConfig
from wallaroo.connectors.kafka.config import KafkaSinkConfig, KafkaSourceConfig
from wallaroo.connectors.tcp.kind import TCPSinkConfig, TCPSourceConfig
from wallaroo.errors import WallarooError, WallarooParameterError
from wallaroo.interfaces import (
    Computation,
    ComputationMulti,
    Decoder,
    Encoder,
    HeaderDecoder,
    KafkaDecoder,
    KafkaEncoder,
    KeyExtractor,
    LineDecoder,
    MessageDecoder,
    MessageGenerator,
    Partition,
    SinkConfig,
    SourceConfig,
    StateBuilder,
    StateComputation,
    StateComputationMulti,
    ValueDecoder,
)
from wallaroo.kafka_message import KafkaMessage
from wallaroo.topology.model import Application

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "Aggregation",
    "Application",
    "ApplicationBuilder",
    "Computation",
    "ComputationMulti",
    "CustomKafkaSinkCLIParser",
    "CustomKafkaSourceCLIParser",
    "Decoder",
    "DefaultKafkaSinkCLIParser",
    "DefaultKafkaSourceCLIParser",
    "Encoder",
    "GenSourceConfig",
    "HeaderDecoder",
    "KafkaDecoder",
    "KafkaEncoder",
    "KafkaMessage",
    "KafkaSinkConfig",
    "KafkaSourceConfig",
    "KeyExtractor",
    "LineDecoder",
    "MessageDecoder",
    "MessageGenerator",
    "Partition",
    "Pipeline",
    "SinkConfig",
    "SinkConnectorConfig",
    "SourceConfig",
    "SourceConnectorConfig",
    "StateBuilder",
    "StateComputation",
    "StateComputationMulti",
    "TCPSinkConfig",
    "TCPSourceConfig",
    "ValueDecoder",
    "WallarooError",
    "WallarooParameterError",
    "__version__",
    "build_application",
    "computation",
    "computation_multi",
    "count_windows",
    "decoder",
    "deserialize",
    "encoder",
    "hours",
    "kafka_parse_sink_options",
    "kafka_parse_source_options",
    "key_extractor",
    "microseconds",
    "milliseconds",
    "minutes",
    "nanoseconds",
    "partition",
    "range_windows",
    "renamed",
    "run",
    "seconds",
    "serialize",
    "sink_connector",
    "source",
    "source_connector",
    "state_computation",
    "state_computation_multi",
    "state_upgrade",
    "tcp_parse_input_addrs",
    "tcp_parse_output_addrs",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Return the class of a decorated function, such as `wallaroo.Computation__double`."""
        if (found := class_of_decorated(name)) is not None:
            return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])


def run(application_setup: Callable[[list[str]], Application], args: Sequence[str] | None = None) -> None:
    """Run an application from a script of your own, as `machida` would.

    It returns when the application is stopped. An error is printed, and ends the script with the exit code that
    `machida` has for it.

    Args:
        application_setup: The function that gets the arguments and returns the built application. Every process of the
            run imports it, so it has to be at the top level of a file.
        args: The command line; by default that of the running script.

    Raises:
        SystemExit: The application could not be run, or was asked for `--help` or `--version`.

    >>> def application_setup(args):
    ...     return wallaroo.ApplicationBuilder("Not built for this").build()
    >>> run(application_setup, ["--version"])
    Traceback (most recent call last):
    SystemExit: 0
    """
    # Programs that only declare or test an application do without the launcher and all it brings.
    from wallaroo.cli.machida import run_script  # noqa: PLC0415

    run_script(application_setup, args)
