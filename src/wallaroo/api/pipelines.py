"""Pipelines that are chained, step by step, and merged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wallaroo.introspection import MISSING, a_kind_of
from wallaroo.topology.assemble import assemble_lines
from wallaroo.topology.branches import Declaration, Line

if TYPE_CHECKING:
    from wallaroo.topology.model import Application


@dataclass(frozen=True, eq=False, repr=False)
class Pipeline:
    """Messages on their way from a source, or from several, through steps to sinks.

    It never changes: each method returns a new pipeline, so that several can go on from the same beginning. The methods
    only write down what they are given: `wallaroo.build_application` checks it all and reports every mistake at once.

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

    _lines: tuple[Line, ...]
    _slips: tuple[str, ...] = ()

    def to(self, computation: Any = MISSING) -> Pipeline:
        """Add a computation, without state or with a state that it brings.

        Args:
            computation: Made with `@wallaroo.computation(name)` or `@wallaroo.state_computation(name, state)`, or the
                `_multi` of one of them; or an object or a class with `name()` and `compute(data)` or
                `compute_multi(data)`.

        Returns:
            A new pipeline that goes on with it.
        """
        return self._then("to", computation)

    def key_by(self, key_extractor: Any = MISSING) -> Pipeline:
        """Give each message a key: the state computations after it have a state for each key.

        Args:
            key_extractor: Picks the key of a message: made with `@wallaroo.key_extractor` or `@wallaroo.partition`, or
                an object or a class with `partition(data)`.

        Returns:
            A new pipeline whose messages have keys.
        """
        return self._then("key_by", key_extractor)

    def collect(self) -> Pipeline:
        """Give all messages the same key: the state computations after it have one state.

        Returns:
            A new pipeline whose messages have one key.
        """
        return self._then("collect")

    def merge(self, pipeline: Any = MISSING) -> Pipeline:
        """Bring another pipeline in: what follows is for the messages of both, in the order in which they come.

        Pipelines that have their sinks are merged to make one application of them.

        Args:
            pipeline: The other pipeline.

        Returns:
            A new pipeline that begins with both.
        """
        if isinstance(pipeline, Pipeline):
            slips = dict.fromkeys([*self._slips, *pipeline._slips])  # noqa: SLF001 - another one of this class
            return Pipeline((*self._lines, *pipeline._lines), tuple(slips))  # noqa: SLF001
        if pipeline is MISSING:
            mistake = "the other pipeline is missing: write merge(pipeline)"
        else:
            mistake = f"the other pipeline must be one, made with wallaroo.source(name, config); got {_got(pipeline)}"
        return Pipeline(self._lines, (*self._slips, f"pipeline {self._name}, merge: {mistake}"))

    def to_sink(self, sink_config: Any = MISSING) -> Pipeline:
        """End the pipeline with a sink.

        Args:
            sink_config: Where the outputs go, such as a `wallaroo.TCPSinkConfig`.

        Returns:
            A new pipeline that ends there.
        """
        return self._then("to_sink", sink_config)

    def to_sinks(self, sink_configs: Any = MISSING) -> Pipeline:
        """End the pipeline with several sinks, each of which gets all outputs.

        Args:
            sink_configs: A list of sinks, each as for `to_sink`.

        Returns:
            A new pipeline that ends there.
        """
        # The list is the caller's, who may go on to change it.
        return self._then("to_sinks", list(sink_configs) if isinstance(sink_configs, list) else sink_configs)

    def clone(self) -> Pipeline:
        """Return a pipeline like this one.

        Returns:
            A pipeline of the same source, with the same steps.
        """
        return Pipeline(self._lines, self._slips)

    def _then(self, method: str, *arguments: Any) -> Pipeline:
        """Return a pipeline with one more declaration, the same one at the end of each line."""
        declaration = Declaration(method, arguments)
        return Pipeline(tuple(line.then(declaration) for line in self._lines), self._slips)

    @property
    def _name(self) -> str:
        return " and ".join(dict.fromkeys(line.name for line in self._lines))

    def __repr__(self) -> str:
        return f"<Pipeline {self._name}>"


def source(name: Any = MISSING, source_config: Any = MISSING) -> Pipeline:
    """Begin a pipeline with a source.

    Args:
        name: Its name, which is that of the pipeline too; no other source of the application may have it.
        source_config: Where the messages come from, such as a `wallaroo.TCPSourceConfig`.

    Returns:
        The pipeline, to be gone on with.

    >>> import wallaroo
    >>> @wallaroo.decoder
    ... def decode(bs):
    ...     return bs.decode()
    >>> source("words", wallaroo.TCPSourceConfig("127.0.0.1", "7010", decode)).collect()
    <Pipeline 'words'>
    """
    return Pipeline((Line(Declaration("source", (name, source_config))),))


def build_application(app_name: Any = MISSING, pipeline: Any = MISSING) -> Application:
    """Check everything that was declared, and return the application.

    Args:
        app_name: The name of the application.
        pipeline: The pipeline; several are merged into one before.

    Returns:
        The application, for `application_setup` to return.

    Raises:
        WallarooParameterError: There are mistakes; the text lists every one of them.

    >>> import wallaroo
    >>> build_application("Empty", source("in").key_by(len))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    wallaroo.errors.WallarooParameterError: The application 'Empty' has 2 mistakes:
      - pipeline 'in': source_config is missing: write source('in', wallaroo.TCPSourceConfig(host, port, decoder)).
      - pipeline 'in', step 1 (key_by len): the key extractor len is a plain function: write ...
    """
    name = None if app_name is MISSING else app_name
    if isinstance(pipeline, Pipeline):
        return assemble_lines(name, pipeline._lines, pipeline._slips)  # noqa: SLF001 - of this module
    if isinstance(name, Pipeline) or pipeline is MISSING:
        mistake = 'write build_application("application name", pipeline), in this order'
    else:
        mistake = f"build_application needs a pipeline, made with wallaroo.source(name, config); got {_got(pipeline)}"
    return assemble_lines(name, (), [mistake])


def _got(thing: Any) -> str:
    if isinstance(thing, list | tuple) and any(isinstance(each, Pipeline) for each in thing):
        return f"a {type(thing).__name__} of pipelines: merge them, as in one.merge(another)"
    if callable(getattr(thing, "new_pipeline", None)):
        return f"{a_kind_of(thing)}: a builder builds its application itself, with build()"
    return a_kind_of(thing)
