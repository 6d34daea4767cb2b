"""Programs of both generations of the API are built, and compute what their authors wrote.

The programs are the published ones, slips in their logic included. Changed is only what Python 3 cannot
read or run (`has_key`, missing colons and the like), and added what the text leaves out, such as the
classes of some states.
"""

# The style is that of the programs' authors.
# ruff: noqa: E722, F811, PLE0704, RET503, RET505

import copy
import json
import re
import string
import struct

import pytest

import wallaroo
from wallaroo.setup_arguments import call_setup

ARGS = [
    "--in",
    "127.0.0.1:7010,127.0.0.1:7011",
    "--out",
    "127.0.0.1:7002",
    "--name",
    "worker",
    "--ponythreads=1",
]


def addresses():
    return wallaroo.tcp_parse_input_addrs(ARGS)[0], wallaroo.tcp_parse_output_addrs(ARGS)[0]


# Word count, made of classes.


class WordCount:
    def __init__(self, word, count):
        self.word = word
        self.count = count


class WordTotals:
    def __init__(self):
        self.word_totals = {}

    def update(self, word):
        if word in self.word_totals:
            self.word_totals[word] = self.word_totals[word] + 1
        else:
            self.word_totals[word] = 1

    def get_count(self, word):
        return WordCount(word, self.word_totals[word])


class WordTotalsBuilder:
    def build(self):
        return WordTotals()


class WordPartitionFunction:
    def partition(self, data):
        if data[0] >= "a" or data[0] <= "z":
            return data[0]
        return "!"


class Decoder:
    def header_length(self):
        return 4

    def payload_length(self, bs):
        return struct.unpack(">I", bs)[0]

    def decode(self, bs):
        return bs.decode("utf-8")


class Split:
    def name(self):
        return "split into words"

    def compute_multi(self, data):
        punctuation = " !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"

        words = []

        for line in data.split("\n"):
            clean_line = line.lower().strip(punctuation)
            for word in clean_line.split(" "):
                clean_word = word.strip(punctuation)
                words.append(clean_word)

        return words


class CountWord:
    def name(self):
        return "Count Word"

    def compute(self, word, word_totals):
        word_totals.update(word)
        return (word_totals.get_count(word), True)


class Encoder:
    def encode(self, data):
        return data.word + " => " + str(data.count) + "\n"


def test_word_count_made_of_classes():
    (in_host, in_port), (out_host, out_port) = addresses()
    word_partitions = list(string.ascii_lowercase)
    word_partitions.append("!")

    ab = wallaroo.ApplicationBuilder("Word Count Application")
    ab.new_pipeline("Split and Count", wallaroo.TCPSourceConfig(in_host, in_port, Decoder()))
    ab.to_parallel(Split)
    ab.to_state_partition(CountWord(), WordTotalsBuilder(), "word totals", WordPartitionFunction(), word_partitions)
    ab.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, Encoder()))
    (pipeline,) = ab.build().pipelines

    split, count = pipeline.steps
    words = split.bind()("why Hello, why!")
    assert words == ["why", "hello", "why"]
    assert (split.name, split.multi, count.name, count.multi) == (
        "split into words",
        True,
        "Count Word",
        False,
    )
    assert [count.bind_partition()(word) for word in [*words, "1st"]] == ["w", "h", "w", "1"]
    assert count.state.keys == set(word_partitions)
    state = count.state.make()()
    outputs = [count.bind()(word, state)[0] for word in words]
    assert [pipeline.sinks[0].encoder.encode(output) for output in outputs] == [
        "why => 1\n",
        "hello => 1\n",
        "why => 2\n",
    ]


# The decorators.


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decoder(bs):
    return struct.unpack(">1sL", bs)


@wallaroo.encoder
def tcp_encoder(data):
    fmt = ">H{}".format("L" * len(data))
    return struct.pack(fmt, len(data), *data)


@wallaroo.encoder
def kafka_encoder(data):
    word = data[:]
    letter_key = data[0]
    return (word, letter_key)


@wallaroo.computation(name="Double or Zero")
def double_or_zero(data):
    if isinstance(data, int):
        return data * 2
    else:
        return 0


@wallaroo.computation_multi(name="Identity and Double")
def identity_and_double(data):
    if isinstance(data, int):
        return [data, data * 2]
    else:
        return None


class Maximum:
    def __init__(self):
        self.largest = 0

    def get_max(self):
        return self.largest

    def update(self, data):
        self.largest = max(self.largest, data)


@wallaroo.state_computation(name="Compute Max")
def compute_max(data, state):
    before = state.get_max()
    state.update(data)
    out = state.get_max()
    return (out, out > before)


class Longest:
    def __init__(self):
        self.sentence = ""

    def longest(self):
        return max(len(sentence.split(" ")) for sentence in self.sentence.split(".")) if self.sentence else 0

    def update(self, data):
        self.sentence = data.strip()


@wallaroo.state_computation_multi(name="Longest Sentence and Split Words")
def longest_sentence_and_split_words(data, state):
    before = state.longest()
    longest = 0
    outputs = []
    for sentence in data.strip().split("."):
        words = sentence.split(" ")
        longest = max(longest, len(words))
        outputs.extend(words)
    if longest > before:
        state.update(data)
    return (outputs, longest > before)


@wallaroo.partition
def partition(data):
    try:
        return data[0].lower() if data[0].isalpha() else ""
    except:
        return ""


class AlphabetCounts:
    def __init__(self, initial_counts):
        self.data = dict(initial_counts)

    def update(self, c, value):
        self.data[c] += value
        return self.data[c]

    def get_counts(self):
        return copy.deepcopy(self.data)

    def get_count(self, c):
        return self.data[c]


class AlphabetCountsBuilder:
    def build(self):
        return AlphabetCounts(dict.fromkeys(string.ascii_lowercase, 0))


@wallaroo.state_computation(name="Add Votes")
def add_votes(data, state):
    return state.update(*data), True


def decorated_pipeline(*, name="pipeline 1"):
    (in_host, in_port), _ = addresses()
    ab = wallaroo.ApplicationBuilder("My Application")
    return ab.new_pipeline(name, wallaroo.TCPSourceConfig(in_host, in_port, decoder))


def decorated_sink():
    _, (out_host, out_port) = addresses()
    return wallaroo.TCPSinkConfig(out_host, out_port, tcp_encoder)


def test_a_simple_application_of_decorated_functions():
    application = decorated_pipeline().to(double_or_zero).to_sink(decorated_sink()).build()
    (pipeline,) = application.pipelines
    assert pipeline.source.decoder.decode(b"a\x00\x00\x00\x05") == (b"a", 5)
    assert [pipeline.steps[0].bind()(data) for data in (21, "x")] == [42, 0]
    assert pipeline.sinks[0].encoder.encode([1, 2]) == b"\x00\x02\x00\x00\x00\x01\x00\x00\x00\x02"


def test_every_kind_of_decorated_step():
    ab = decorated_pipeline()
    ab.to_parallel(identity_and_double)
    ab.to_stateful(compute_max, Maximum, "maximum")
    ab.to_state_partition(
        computation=longest_sentence_and_split_words,
        state=Longest,
        state_partition_name="longest sentence",
        partition_function=partition,
        partition_keys=[*string.ascii_lowercase, ""],
    )
    ab.to_state_partition_u64(compute_max, Maximum, "numbers", partition, [0, 1, 2])
    ab.to_sinks([decorated_sink(), decorated_sink()])
    ab.done()
    ab.new_pipeline("pipeline 2", wallaroo.TCPSourceConfig(*wallaroo.tcp_parse_input_addrs(ARGS)[1], decoder))
    ab.to_stateful(compute_max, Maximum, "maximum")
    ab.to_stateful(add_votes, AlphabetCountsBuilder(), "alphabet")
    first, second = ab.build().pipelines
    multi, largest, longest, numbers = first.steps
    assert [step.multi for step in first.steps] == [True, False, True, False]
    assert (multi.bind()(3), multi.bind()("x")) == ([3, 6], None)
    assert largest.bind()(3, largest.state.make()()) == (3, True)
    assert longest.bind()("a b.c", longest.state.make()()) == (["a", "b", "c"], True)
    assert [longest.bind_partition()(data) for data in ("Word", "1", "")] == ["w", "", ""]
    assert numbers.state.keys == {0, 1, 2}
    assert second.steps[0].state is largest.state
    assert second.steps[1].bind()(("a", 2), second.steps[1].state.make()()) == (2, True)


# Celsius to Fahrenheit over Kafka, in the three ways in which programs took the options.

KAFKA_OPTIONS = [
    *("--kafka_source_topic", "celsius", "--kafka_source_brokers", "127.0.0.1:9092"),
    *("--kafka_sink_topic", "fahrenheit", "--kafka_sink_brokers", "127.0.0.1:9092,kafka2"),
    *("--kafka_sink_max_message_size", "5000"),
]


@wallaroo.decoder(header_length=4, length_fmt=">I")
def kafka_celsius(bs):
    return float(bs.decode("utf-8"))


@wallaroo.computation(name="multiply by 1.8, add 32")
def fahrenheit(data):
    return data * 1.8 + 32


@wallaroo.encoder
def kafka_fahrenheit(data):
    return f"{data:.6f}", None, None


def configs_of_the_first(args):
    source = wallaroo.KafkaSourceConfig(*(wallaroo.kafka_parse_source_options(args) + (kafka_celsius,)))  # noqa: RUF005
    sink_options = wallaroo.kafka_parse_sink_options(args)
    topic, brokers, log_level, max_produce_buffer_ms, max_message_size = sink_options
    return source, wallaroo.KafkaSinkConfig(
        topic, brokers, log_level, max_produce_buffer_ms, max_message_size, kafka_fahrenheit
    )


def configs_by_custom_parsers(args):
    return (
        wallaroo.CustomKafkaSourceCLIParser(args, kafka_celsius),
        wallaroo.CustomKafkaSinkCLIParser(args, kafka_fahrenheit),
    )


def configs_by_default_parsers(_args):
    return wallaroo.DefaultKafkaSourceCLIParser(kafka_celsius), wallaroo.DefaultKafkaSinkCLIParser(kafka_fahrenheit)


@pytest.mark.parametrize("configs", [configs_of_the_first, configs_by_custom_parsers, configs_by_default_parsers])
@pytest.mark.parametrize("options", [KAFKA_OPTIONS, [*KAFKA_OPTIONS, "--kafka_source_log_level", "Info"]])
def test_celsius_over_kafka(configs, options):
    def application_setup(args):
        source, sink = configs(args)
        ab = wallaroo.ApplicationBuilder("Celsius to Fahrenheit with Kafka")
        ab.new_pipeline("convert", source)
        ab.to(fahrenheit)
        ab.to_sink(sink)
        return ab.build()

    (pipeline,) = call_setup(application_setup, options).pipelines
    source, (sink,) = pipeline.source, pipeline.sinks
    assert (source.topic, source.brokers, source.log_level) == (
        *("celsius", [("127.0.0.1", "9092")], "Info" if "Info" in options else "Warn"),
    )
    assert (sink.topic, sink.brokers, sink.log_level) == (
        *("fahrenheit", [("127.0.0.1", "9092"), ("kafka2", "9092")], "Warn"),
    )
    assert (sink.max_produce_buffer_ms, sink.max_message_size) == (0, 5000)
    assert pipeline.steps[0].bind()(source.decoder.decode(b"100")) == 212
    assert sink.encoder.encode(212) == ("212.000000", None, None)


def test_an_encoder_written_for_kafka_is_an_encoder():
    _, address = addresses()
    (pipeline,) = decorated_pipeline().to_sink(wallaroo.TCPSinkConfig(*address, kafka_encoder)).build().pipelines
    assert pipeline.sinks[0].encoder.encode("word") == ("word", "w")


def test_a_state_that_needs_arguments_needs_a_builder():
    ab = decorated_pipeline().to_stateful(add_votes, AlphabetCounts, "alphabet")
    with pytest.raises(wallaroo.WallarooParameterError, match=r"AlphabetCounts\(initial_counts\).*build\(\) method"):
        ab.build()


# Status codes of log files, counted day by day.


class LogLine:
    def __init__(self, text):
        self.text = text


class BoundaryMessage:
    pass


class LogDecoder:
    def header_length(self):
        return 4

    def payload_length(self, bs):
        return struct.unpack(">I", bs)[0]

    def decode(self, bs):
        # Bytes and strings were one in Python 2.
        if bs == b"END_OF_DAY":
            return BoundaryMessage()
        return LogLine(bs.decode())


class Counter:
    def __init__(self):
        self.reset()

    def reset(self):
        self.current_batch = {}
        self.current_day = None

    def update(self, day, return_code):
        if self.current_day is None:
            self.current_day = day
        if self.current_day != day:
            raise
        self.current_batch[return_code] = self.current_batch.get(return_code, 0) + 1

    def get_counts(self):
        return self.current_batch


class CounterBuilder:
    def build(self):
        return Counter()


class Count:
    def __init__(self):
        self.day_re = re.compile(r"\[(.*)\]")
        self.code_re = re.compile(r'"GET [^\s]* HTTP/[12].[01]" ([0-9]+)')

    def name(self):
        return "count status"

    def determine_return_code(self, line):
        m = self.code_re.search(line)
        if m is not None:
            return m.group(1)

    def determine_day(self, line):
        m = self.day_re.search(line)
        if m is not None:
            return m.group(1).split(":")[0]

    def compute(self, data, state):
        if isinstance(data, BoundaryMessage):
            return self.process_batch(state)
        elif isinstance(data, LogLine):
            return_code = self.determine_return_code(data.text)
            day = self.determine_day(data.text)
            state.update(day, return_code)
            return (None, True)
        else:
            raise

    def name(self):
        return "Count return codes"

    def process_batch(self, state):
        r = state.get_counts()
        state.reset()
        return (r, True)


class JSONEncoder:
    def encode(self, data):
        s = json.dumps(data).encode("UTF-8")
        return struct.pack(f">I{len(s)}s", len(s), s)


def log_files(*to_stateful):
    (in_host, in_port), (out_host, out_port) = addresses()
    ab = wallaroo.ApplicationBuilder("Apache Log file analysis")
    ab.new_pipeline("convert", wallaroo.TCPSourceConfig(in_host, in_port, LogDecoder()))
    ab.to_stateful(*to_stateful)
    ab.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, JSONEncoder()))
    return ab.build()


@pytest.mark.parametrize("computation", [Count(), Count])
@pytest.mark.parametrize("state", [CounterBuilder(), CounterBuilder, Counter])
def test_log_files(computation, state):
    (pipeline,) = log_files(computation, state, "status counter").pipelines
    (step,) = pipeline.steps
    compute, counter = step.bind(), step.state.make()()
    line = b'64.242.88.10 - - [07/Mar/2004:16:24:16 -0800] "GET /twiki HTTP/1.1" 200 4924'
    results = [compute(pipeline.source.decoder.decode(bs), counter) for bs in (line, line, b"END_OF_DAY")]
    assert results == [(None, True), (None, True), ({"200": 2}, True)]
    assert pipeline.sinks[0].encoder.encode({"200": 2}) == b'\x00\x00\x00\x0a{"200": 2}'


def test_the_slip_in_the_log_file_program_is_explained():
    with pytest.raises(wallaroo.WallarooParameterError) as refused:
        log_files(Count)
    assert str(refused.value) == (
        "The application 'Apache Log file analysis' has a mistake:\n"
        "  - pipeline 'convert', step 1 (to_stateful Count): state_class and state_name are missing: write "
        'to_stateful(Count, StateClass, "state name").'
    )
