"""Sources and a sink as connectors, in the forms of both later generations; `--ports` has those of all of them."""

import argparse

import wallaroo
import wallaroo.experimental


@wallaroo.experimental.stream_message_encoder
def encode_feed(celsius):
    return b"%d" % celsius


@wallaroo.experimental.stream_message_decoder
def decode_feed(bs):
    return int(bs)


@wallaroo.computation("to Fahrenheit")
def fahrenheit(celsius):
    return celsius, celsius * 9 / 5 + 32


@wallaroo.experimental.stream_message_encoder
def encode_conversion(pair):
    return "%d => %s" % pair


@wallaroo.experimental.stream_message_decoder
def decode_conversion(bs):
    celsius, degrees = bs.decode().split(" => ")
    return int(celsius), float(degrees)


def application_setup(args):
    parser = argparse.ArgumentParser()
    parser.add_argument("--ports")
    named, latest, results = parser.parse_known_args(args)[0].ports.split(",")
    wallaroo.source_connector("feed", encoder=encode_feed, decoder=decode_feed, port=int(named))
    wallaroo.sink_connector("conversions", encoder=encode_conversion, decoder=decode_conversion, port=int(results))
    files = wallaroo.experimental.SourceConnectorConfig("files", encode_feed, decode_feed, latest, "127.0.0.1")
    ab = wallaroo.ApplicationBuilder("Celsius with Connectors")
    ab.new_pipeline("feed", "feed").to(fahrenheit).to_sink("conversions")
    ab.new_pipeline("files", files).to(fahrenheit).to_sink("conversions")
    return ab.build()
