r"""Runs an application in memory, in this process: for unit tests that take milliseconds.

The topology, the steps, the keys and the states are those of a real run, and so is the code that runs them;
there is no Spark, no socket and no file. Every message is processed to the end before the next one, so a run is
deterministic.

>>> import wallaroo
>>> from wallaroo import testing
>>> @wallaroo.decoder
... def decode(bs):
...     return bs.decode()
>>> @wallaroo.state_computation("count")
... def count(word, totals):
...     totals[word] = totals.get(word, 0) + 1
...     return (word, totals[word]), True
>>> @wallaroo.partition
... def first_letter(word):
...     return word[0]
>>> @wallaroo.encoder
... def encode(counted):
...     return "%s => %d\n" % counted
>>> def application_setup(args):
...     in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
...     out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
...     ab = wallaroo.ApplicationBuilder("Count")
...     ab.new_pipeline("words", wallaroo.TCPSourceConfig(in_host, in_port, decode))
...     ab.to_state_partition(count, dict, "totals", first_letter)
...     ab.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, encode))
...     return ab.build()
>>> testing.run(application_setup, [b"why", b"hello", b"why"])
[('why', 1), ('hello', 1), ('why', 2)]
>>> testing.run(application_setup, ["why"], encoded=True)
[b'why => 1\n']
"""

from wallaroo.testing.doubles import StepError
from wallaroo.testing.runner import InMemory, run, run_all

__all__ = ["InMemory", "StepError", "run", "run_all"]
