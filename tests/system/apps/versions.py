"""An application whose class of states changes from version to version; it takes lines."""

import wallaroo

VERSION = 1


def application_setup(args):
    [source] = wallaroo.tcp_parse_input_addrs(args)
    [sink] = wallaroo.tcp_parse_output_addrs(args)
    ab = wallaroo.ApplicationBuilder("Versions")
    ab.new_pipeline("words", wallaroo.TCPSourceConfig(*source, decoder))
    ab.to_state_partition(count, Totals if VERSION == 1 else WordTotals, "totals", by_word, ["a", "b"])
    ab.to_sink(wallaroo.TCPSinkConfig(*sink, encoder))
    return ab.build()


@wallaroo.decoder(framing="lines")
def decoder(bs):
    return bs.decode("utf-8")


@wallaroo.partition
def by_word(word):
    return word


if VERSION == 1:

    class Totals:
        def __init__(self):
            self.number = 0

else:

    class WordTotals:
        def __init__(self):
            self.number = 0
            if VERSION > 3:
                self.last = 0


if VERSION > 2:
    wallaroo.renamed("versions.Totals", WordTotals)

if VERSION > 4:

    @wallaroo.state_upgrade(WordTotals)
    def add_last(totals):
        if not hasattr(totals, "last"):
            totals.last = totals.number


@wallaroo.state_computation(name="count")
def count(word, totals):
    totals.number += 1
    if VERSION > 3:
        totals.last += 1
        return (word, totals.last), True
    return (word, totals.number), True


@wallaroo.encoder
def encoder(counted):
    return "{} => {}\n".format(*counted)
