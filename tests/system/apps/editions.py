"""An application in two editions, which have one of their states in common."""

import os
import time

import wallaroo


def application_setup(args):
    first_edition = args[args.index("--edition") + 1] == "1"
    ins = wallaroo.tcp_parse_input_addrs(args)
    [out] = wallaroo.tcp_parse_output_addrs(args)
    ab = wallaroo.ApplicationBuilder("Editions")
    ab.new_pipeline("words", wallaroo.TCPSourceConfig(*ins[0], decoder))
    ab.to(hold)
    ab.to_state_partition(count, Number, "counts", by_word)
    if first_edition:
        ab.to_state_partition(add_length, Number, "letters seen", by_counted_word)
    else:
        ab.to_state_partition(add_count, Number, "sums", by_counted_word)
    ab.to_sink(wallaroo.TCPSinkConfig(*out, encoder))

    if first_edition:
        ab.new_pipeline("lengths", wallaroo.TCPSourceConfig(*ins[1], decoder))
        ab.to_state_partition(count_length, Number, "lengths", by_length)
    else:
        ab.new_pipeline("everything", wallaroo.TCPSourceConfig(*ins[1], decoder))
        ab.to_stateful(count_all, Number, "total")
    ab.to_sink(wallaroo.TCPSinkConfig(*out, encoder))
    return ab.build()


@wallaroo.decoder
def decoder(bs):
    return bs.decode("utf-8")


@wallaroo.computation(name="hold")
def hold(word):
    if word.startswith("/"):
        # Holds the whole block until somebody makes the file.
        open(word + ".waiting", "w").close()
        while not os.path.exists(word):
            time.sleep(0.01)
        return None
    return word


class Number:
    def __init__(self):
        self.value = 0

    def add(self, number):
        self.value += number
        return self.value


@wallaroo.partition
def by_word(word):
    return word


@wallaroo.state_computation(name="count")
def count(word, number):
    return (word, number.add(1)), True


@wallaroo.partition
def by_counted_word(counted):
    return counted[0]


@wallaroo.state_computation(name="add length")
def add_length(counted, number):
    return (*counted, number.add(len(counted[0]))), True


@wallaroo.state_computation(name="add count")
def add_count(counted, number):
    return (*counted, number.add(counted[1])), True


@wallaroo.partition
def by_length(word):
    return len(word)


@wallaroo.state_computation(name="count length")
def count_length(word, number):
    return ("length {}".format(len(word)), number.add(1)), True


@wallaroo.state_computation(name="count all")
def count_all(word, number):
    return ("all", number.add(1)), True


@wallaroo.encoder
def encoder(data):
    return data[0] + " => " + " ".join(map(str, data[1:])) + "\n"
