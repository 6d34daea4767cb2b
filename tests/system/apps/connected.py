"""Counts what scripts send, message by message, for each of them; and sends lines to scripts."""

import wallaroo
import wallaroo.experimental


@wallaroo.experimental.streaming_message_decoder
def decode(message):
    return message.decode()


@wallaroo.decoder
def decode_line(bs):
    return bs.decode()


@wallaroo.experimental.streaming_message_encoder
def encode_for_script(line):
    return line


@wallaroo.encoder
def encode(counted):
    return "%s => %d\n" % counted


@wallaroo.key_extractor
def itself(message):
    return message


@wallaroo.state_computation("count", state=dict)
def count(message, seen):
    seen["times"] = seen.get("times", 0) + 1
    return message, seen["times"]


def application_setup(args):
    """`--from a,b` names the pipelines of scripts, `--to host:port,...` the sinks for lines."""
    options = dict(zip(args[::2], args[1::2], strict=False))
    counts = wallaroo.TCPSinkConfig(*wallaroo.tcp_parse_output_addrs(args)[0], encode)
    pipelines = [
        wallaroo.source(name, wallaroo.experimental.SourceExtensionConfig("127.0.0.1", 0, decode))
        .key_by(itself)
        .to(count)
        .to_sink(counts)
        for name in options["--from"].split(",")
    ]
    sinks = [
        wallaroo.experimental.SinkExtensionConfig(*address.split(":"), encode_for_script)
        for address in options["--to"].split(",")
    ]
    lines = wallaroo.source("lines", wallaroo.TCPSourceConfig("127.0.0.1", 0, decode_line)).to_sinks(sinks)
    return wallaroo.build_application("Connected", *pipelines, lines)
