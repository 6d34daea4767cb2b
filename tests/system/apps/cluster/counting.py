"""Counts words, with modules beside it that every machine of the cluster needs."""

import letters
import wallaroo


def application_setup(args):
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    ab = wallaroo.ApplicationBuilder("Counting")
    ab.new_pipeline("Words", wallaroo.TCPSourceConfig(in_host, in_port, decoder))
    ab.to(say_where)
    ab.to_parallel(split)
    ab.to_state_partition(count, dict, "totals", first_letter)
    ab.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, encoder))
    return ab.build()


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decoder(bs):
    return bs.decode("utf-8")


@wallaroo.computation(name="say where")
def say_where(text):
    if text == "where":
        import late

        print("late comes from", late.__file__)
        print("letters comes from", letters.__file__)
        return None
    return text


@wallaroo.computation_multi(name="split")
def split(text):
    return text.split(" ")


@wallaroo.partition
def first_letter(word):
    return letters.first(word)


@wallaroo.state_computation(name="count")
def count(word, totals):
    totals[word] = totals.get(word, 0) + 1
    return ((word, totals[word]), True)


@wallaroo.encoder
def encoder(data):
    return f"{data[0]} => {data[1]}\n"
