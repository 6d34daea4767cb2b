"""Turns degrees Celsius into Fahrenheit from topic to topic, with the options of the original's Kafka programs."""

import struct

import wallaroo


def application_setup(args):
    source = wallaroo.kafka_parse_source_options(args)
    sink = wallaroo.kafka_parse_sink_options(args)
    ab = wallaroo.ApplicationBuilder("Celsius to Fahrenheit with Kafka")
    ab.new_pipeline("convert", wallaroo.KafkaSourceConfig(*source, decoder))
    ab.to(multiply)
    ab.to(add)
    ab.to_sink(wallaroo.KafkaSinkConfig(*sink, encoder))
    return ab.build()


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decoder(bs):
    return struct.unpack(">f", bs)[0]


@wallaroo.computation(name="multiply by 1.8")
def multiply(data):
    return data * 1.8


@wallaroo.computation(name="add 32")
def add(data):
    return data + 32


@wallaroo.encoder
def encoder(data):
    return struct.pack(">d", data), None
