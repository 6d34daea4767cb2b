"""Takes temperatures, such as `oslo 4.5`, and answers each with the mean of that city so far."""

import wallaroo


class Mean:
    def __init__(self):
        self.count, self.total = 0, 0.0


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(bs):
    city, degrees = bs.decode().split()
    return city, float(degrees)


@wallaroo.partition
def city_of(reading):
    return reading[0]


@wallaroo.state_computation("mean so far")
def update(reading, mean):
    mean.count += 1
    mean.total += reading[1]
    return (reading[0], mean.total / mean.count), True


@wallaroo.encoder
def encode(output):
    return b"%s %.1f\n" % (output[0].encode(), output[1])


def application_setup(args):
    ab = wallaroo.ApplicationBuilder("Mean Temperatures")
    ab.new_pipeline("readings", wallaroo.TCPSourceConfig(*wallaroo.tcp_parse_input_addrs(args)[0], decode))
    ab.to_state_partition(update, Mean, "means", city_of)
    ab.to_sink(wallaroo.TCPSinkConfig(*wallaroo.tcp_parse_output_addrs(args)[0], encode))
    return ab.build()
