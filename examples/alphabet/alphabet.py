"""Counts votes for the letters of the alphabet. After each vote its letter goes out with all its votes so far."""

import string
import struct

import wallaroo


def application_setup(args):
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]

    letters = list(string.ascii_lowercase)

    ab = wallaroo.ApplicationBuilder("Alphabet")
    ab.new_pipeline("votes", wallaroo.TCPSourceConfig(in_host, in_port, Decoder()))
    ab.to_state_partition(AddVotes(), TotalVotesBuilder(), "total votes", LetterPartitionFunction(), letters)
    ab.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, Encoder()))
    return ab.build()


class Decoder:
    """A message is its length (four bytes), a letter (one byte) and a number of votes for it (four bytes)."""

    def header_length(self):
        return 4

    def payload_length(self, bs):
        return struct.unpack(">I", bs)[0]

    def decode(self, bs):
        letter, votes = struct.unpack(">sI", bs)
        return Votes(letter.decode("ascii"), votes)


class Votes:
    def __init__(self, letter, votes):
        self.letter = letter
        self.votes = votes


class LetterPartitionFunction:
    def partition(self, data):
        return data.letter


class TotalVotesBuilder:
    def build(self):
        return TotalVotes()


class TotalVotes:
    """The state of one letter."""

    def __init__(self):
        self.votes = 0


class AddVotes:
    def name(self):
        return "add votes"

    def compute(self, data, total):
        total.votes += data.votes
        return (Votes(data.letter, total.votes), True)


class Encoder:
    """The total goes out in the same way as the votes came in, but with eight bytes: totals become large."""

    def encode(self, data):
        return struct.pack(">IsQ", 9, data.letter.encode("ascii"), data.votes)
