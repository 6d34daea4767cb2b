"""Classifies the condition of a pump from its sensor readings, with a model of scikit-learn."""

import csv
from pathlib import Path

from sklearn.naive_bayes import GaussianNB

import wallaroo


def application_setup(args):
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]

    ab = wallaroo.ApplicationBuilder("Pump Classifier")
    ab.new_pipeline("classify", wallaroo.TCPSourceConfig(in_host, in_port, decoder))
    ab.to_parallel(Classify)
    ab.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, encoder))
    return ab.build()


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decoder(bs):
    pump, *readings = bs.decode("utf-8").split(",")
    return pump, [float(reading) for reading in readings]


class Classify:
    """Each worker makes one of these, and trains the model for itself; it takes a few milliseconds."""

    def __init__(self):
        with Path(__file__).with_name("training.csv").open() as f:
            header, *rows = csv.reader(f)
        readings = [[float(reading) for reading in row[:-1]] for row in rows]
        conditions = [row[-1] for row in rows]
        self.model = GaussianNB().fit(readings, conditions)

    def name(self):
        return "classify"

    def compute(self, data):
        pump, readings = data
        probabilities = self.model.predict_proba([readings])[0]
        best = probabilities.argmax()
        return pump, self.model.classes_[best], probabilities[best]


@wallaroo.encoder
def encoder(result):
    pump, condition, probability = result
    return f"{pump}: {condition} ({probability:.0%})\n".encode("utf-8")
