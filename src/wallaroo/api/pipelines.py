"""Pipelines that are chained, step by step, and merged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wallaroo.api.connectors import sinks_with_names, with_names
from wallaroo.introspection import MISSING, a_kind_of, a_type_of, fills_missing
from wallaroo.topology.assemble import assemble_ends
from wallaroo.topology.branches import Declaration, Ends, merged, sources_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wallaroo.interfaces import Choose, ComputationLike, KeyLike, OwnStateComputation, SinkConfig, SourceConfig
    from wallaroo.topology.model import Application


@dataclass(frozen=True, eq=False, repr=False)
class Pipeline:
    """A path for messages from one or more sources through steps to sinks.

    It is immutable: each method returns a new pipeline, so several can continue from a common beginning. What they
    share is computed once for each message, which then follows every branch, in the order in which the branches are
    given to `wallaroo.build_application` or `merge`. The methods only record their arguments:
    `wallaroo.build_application` checks everything and reports all mistakes at once.

    >>> import wallaroo
    >>> @wallaroo.decoder
    ... def decode(bs):
    ...     return bs.decode()
    >>> @wallaroo.key_extractor
    ... def first_letter(word):
    ...     return word[0]
    >>> @wallaroo.state_computation("count", state=dict)
    ... def count(word, totals):
    ...     totals[word] = totals.get(word, 0) + 1
    ...     return word, totals[word]
    >>> @wallaroo.encoder
    ... def encode(counted):
    ...     return "%s => %d" % counted
    >>> words = wallaroo.source("words", wallaroo.TCPSourceConfig("127.0.0.1", "7010", decode))
    >>> counted = words.key_by(first_letter).to(count)
    >>> pipeline = counted.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", "7002", encode))
    >>> application = wallaroo.build_application("Count", pipeline)
    >>> from wallaroo import testing
    >>> testing.run(application, ["why", "hello", "why"])
    [('why', 1), ('hello', 1), ('why', 2)]
    """

    _ends: Ends
    _slips: tuple[str, ...] = ()

    @fills_missing
    def to(self, computation: ComputationLike | OwnStateComputation) -> Pipeline:
        """Add a computation, without state or with a state that it brings.

        Args:
            computation: Made with `@wallaroo.computation(name)` or `@wallaroo.state_computation(name, state)`, or the
                `_multi` of one of them; or an object or a class with `name()` and `compute(data)` or
                `compute_multi(data)`.

        Returns:
            The pipeline with this step at its end.

        >>> import wallaroo
        >>> from wallaroo import testing
        >>> config = wallaroo.TCPSourceConfig("127.0.0.1", 7010, wallaroo.decoder(bytes.decode))
        >>> lines = wallaroo.source("lines", config)
        >>> sink = wallaroo.TCPSinkConfig("127.0.0.1", 7002, wallaroo.encoder(str))
        >>> @wallaroo.computation_multi("split")
        ... def split(line):
        ...     return line.split()
        >>> testing.run(wallaroo.build_application("Split", lines.to(split).to_sink(sink)), ["why hello"])
        ['why', 'hello']
        """
        return self._then("to", computation)

    @fills_missing
    def key_by(self, key_extractor: KeyLike) -> Pipeline:
        """Give each message a key: the following state computations have a state for each key.

        Args:
            key_extractor: Picks the key of a message: made with `@wallaroo.key_extractor` or `@wallaroo.partition`, or
                an object or a class with `extract_key(data)` or `partition(data)`.

        Returns:
            The pipeline with this step at its end.

        >>> import wallaroo
        >>> from wallaroo import testing
        >>> config = wallaroo.TCPSourceConfig("127.0.0.1", 7010, wallaroo.decoder(bytes.decode))
        >>> lines = wallaroo.source("lines", config)
        >>> sink = wallaroo.TCPSinkConfig("127.0.0.1", 7002, wallaroo.encoder(str))
        >>> @wallaroo.state_computation("count", list)
        ... def count(word, words):
        ...     words.append(word)
        ...     return word, len(words)
        >>> @wallaroo.key_extractor
        ... def first_letter(word):
        ...     return word[0]
        >>> application = wallaroo.build_application("Count", lines.key_by(first_letter).to(count).to_sink(sink))
        >>> testing.run(application, ["why", "hello", "who"])
        [('why', 1), ('hello', 1), ('who', 2)]
        """
        return self._then("key_by", key_extractor)

    def collect(self) -> Pipeline:
        """Give all messages the same key: the following state computations have one state.

        Returns:
            The pipeline with this step at its end.

        >>> import wallaroo
        >>> from wallaroo import testing
        >>> config = wallaroo.TCPSourceConfig("127.0.0.1", 7010, wallaroo.decoder(bytes.decode))
        >>> lines = wallaroo.source("lines", config)
        >>> sink = wallaroo.TCPSinkConfig("127.0.0.1", 7002, wallaroo.encoder(str))
        >>> @wallaroo.state_computation("count", list)
        ... def count(word, words):
        ...     words.append(word)
        ...     return word, len(words)
        >>> application = wallaroo.build_application("Count", lines.collect().to(count).to_sink(sink))
        >>> testing.run(application, ["why", "hello"])
        [('why', 1), ('hello', 2)]
        """
        return self._then("collect")

    @fills_missing
    def merge(self, pipeline: Pipeline) -> Pipeline:
        """Merge another pipeline into this one: later steps get the messages of both, in order of arrival.

        Pipelines that have their sinks are merged to form one application. If both continue from the same pipeline,
        each message of that one follows the first and then the second.

        Args:
            pipeline: The other pipeline.

        Returns:
            The merged pipeline.

        >>> import wallaroo
        >>> decode = wallaroo.decoder(bytes.decode)
        >>> one, other = (wallaroo.TCPSourceConfig("127.0.0.1", port, decode) for port in (7010, 7011))
        >>> wallaroo.source("orders", one).merge(wallaroo.source("prices", other))
        <Pipeline 'orders' and 'prices'>
        """
        if isinstance(pipeline, Pipeline):
            slips = dict.fromkeys([*self._slips, *pipeline._slips])
            return Pipeline(merged(self._ends, pipeline._ends), tuple(slips))
        if pipeline is MISSING:
            mistake = "the other pipeline is missing: write merge(pipeline)"
        else:
            mistake = f"the other pipeline must be one, made with wallaroo.source(name, config); got {_got(pipeline)}"
        return Pipeline(self._ends, (*self._slips, f"pipeline {self._name}, merge: {mistake}"))

    @fills_missing
    def to_sink(self, sink_config: SinkConfig | str) -> Pipeline:
        """End the pipeline with a sink.

        Args:
            sink_config: Where the outputs go, such as a `wallaroo.TCPSinkConfig`, or the name of a connector.

        Returns:
            The pipeline with this end.

        >>> import wallaroo
        >>> from wallaroo import testing
        >>> config = wallaroo.TCPSourceConfig("127.0.0.1", 7010, wallaroo.decoder(bytes.decode))
        >>> lines = wallaroo.source("lines", config)
        >>> sink = wallaroo.TCPSinkConfig("127.0.0.1", 7002, wallaroo.encoder(str))
        >>> testing.run(wallaroo.build_application("Copy", lines.to_sink(sink)), [b"why"])
        ['why']
        """
        return self._then("to_sink", with_names(sink_config, "sink"))

    @fills_missing
    def to_sinks(self, sink_configs: Sequence[SinkConfig | str], *, choose: Choose | None = None) -> Pipeline:
        """End the pipeline with several sinks, each of which gets all outputs, or those that `choose` sends to it.

        Args:
            sink_configs: A list of sinks, each as for `to_sink`; with `choose`, each has a `name`.
            choose: A function that is given an output, before it is encoded, and returns where it goes: the name of a
                sink, or a list, tuple or set of names. None, or an empty collection, sends it to no sink. Another
                name is an error, and the output becomes a dead letter.

        Returns:
            The pipeline with this end.

        >>> import wallaroo
        >>> from wallaroo import testing
        >>> config = wallaroo.TCPSourceConfig("127.0.0.1", 7010, wallaroo.decoder(bytes.decode))
        >>> lines = wallaroo.source("lines", config)
        >>> short, long = (
        ...     wallaroo.TCPSinkConfig("127.0.0.1", port, wallaroo.encoder(str), name=name)
        ...     for port, name in ((7002, "short"), (7003, "long"))
        ... )
        >>> chosen = lines.to_sinks([short, long], choose=lambda line: "short" if len(line) < 5 else "long")
        >>> testing.run_all(wallaroo.build_application("Lengths", chosen), ["why", "hello"])
        {'lines[short]': ['why'], 'lines[long]': ['hello']}
        """
        return self._then("to_sinks", sinks_with_names(sink_configs), *([] if choose is None else [choose]))

    def clone(self) -> Pipeline:
        """Return a copy of this pipeline.

        Returns:
            The copy; it has the same source.

        >>> import wallaroo
        >>> config = wallaroo.TCPSourceConfig("127.0.0.1", 7010, wallaroo.decoder(bytes.decode))
        >>> wallaroo.source("lines", config).clone()
        <Pipeline 'lines'>
        """
        return Pipeline(self._ends, self._slips)

    def _then(self, method: str, *arguments: Any) -> Pipeline:
        """Return a pipeline with one more declaration, which follows all ends of this one."""
        return Pipeline((Declaration(method, arguments, self._ends),), self._slips)

    @property
    def _name(self) -> str:
        return " and ".join(dict.fromkeys(each.name for each in sources_of(self._ends)))

    def __repr__(self) -> str:
        return f"<Pipeline {self._name}>"


@fills_missing
def source(name: str, source_config: SourceConfig | str) -> Pipeline:
    """Start a pipeline with a source.

    Args:
        name: Its name, which is also that of the pipeline; no other source of the application may have it.
        source_config: Where the messages come from, such as a `wallaroo.TCPSourceConfig`, or the name of a connector.

    Returns:
        The pipeline, without steps so far.

    >>> import wallaroo
    >>> decode = wallaroo.decoder(bytes.decode)
    >>> source("words", wallaroo.TCPSourceConfig("127.0.0.1", "7010", decode))
    <Pipeline 'words'>
    """
    return Pipeline((Declaration("source", (name, with_names(source_config, "source"))),))


@fills_missing
def build_application(app_name: str, pipeline: Pipeline, *more: Pipeline) -> Application:
    """Check all declarations, and build the application.

    Args:
        app_name: The name of the application.
        pipeline: The pipeline.
        more: Further pipelines, of other sources or branches of the same ones.

    Returns:
        The application, for `application_setup` to return.

    Raises:
        WallarooParameterError: There are mistakes; the text lists all of them.

    Pipelines that continue from a common beginning share it: it is computed once for each message.

    >>> import wallaroo
    >>> from wallaroo import testing
    >>> @wallaroo.computation("strip")
    ... def strip(text):
    ...     print(f"strip {text!r}")
    ...     return text.strip()
    >>> @wallaroo.computation("upper")
    ... def upper(text):
    ...     return text.upper()
    >>> decode, encode = wallaroo.decoder(bytes.decode), wallaroo.encoder(str)
    >>> base = source("texts", wallaroo.TCPSourceConfig("127.0.0.1", 7010, decode)).to(strip)
    >>> plain = base.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", 7002, encode, name="plain"))
    >>> loud = base.to(upper).to_sink(wallaroo.TCPSinkConfig("127.0.0.1", 7003, encode, name="loud"))
    >>> testing.run_all(build_application("Texts", plain, loud), [b"why "])
    strip 'why '
    {'texts[plain]': ['why'], 'texts[loud]': ['WHY']}

    Every mistake is listed:

    >>> build_application("Empty", source("in").key_by(len))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    wallaroo.errors.WallarooParameterError: The application 'Empty' has 2 mistakes:
      - pipeline 'in': source_config is missing: write source('in', wallaroo.TCPSourceConfig(host, port, decoder)).
      - pipeline 'in', step 1 (key_by len): the key extractor len is a plain function: write ...
    """
    given: Any = app_name
    name = None if given is MISSING else given
    first: Any = pipeline
    if isinstance(name, Pipeline) or first is MISSING:
        return assemble_ends(name, (), ['write build_application("application name", pipeline), in this order'])
    pipelines = [each for each in (pipeline, *more) if isinstance(each, Pipeline)]
    slips = [slip for each in pipelines for slip in each._slips]  # noqa: SLF001 - of this module
    slips += [
        f"build_application needs a pipeline, made with wallaroo.source(name, config); got {_got(each)}"
        for each in (pipeline, *more)
        if not isinstance(each, Pipeline)
    ]
    ends = merged(*(each._ends for each in pipelines))  # noqa: SLF001
    return assemble_ends(name, ends, dict.fromkeys(slips))


def _got(thing: Any) -> str:
    if isinstance(thing, list | tuple) and any(isinstance(each, Pipeline) for each in thing):
        return f"{a_type_of(thing)} of pipelines: write them one after the other, without brackets"
    if callable(getattr(thing, "new_pipeline", None)):
        return f"{a_kind_of(thing)}: a builder builds its application itself, with build()"
    return a_kind_of(thing)
