"""The builder of applications."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from wallaroo.api.connectors import sink_connector, sinks_with_names, source_connector, with_names
from wallaroo.introspection import MISSING, fills_missing, label
from wallaroo.topology.assemble import assemble

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence
    from typing import Self

    from wallaroo.interfaces import (
        Choose,
        ComputationLike,
        KeyLike,
        OwnStateComputation,
        SinkConfig,
        SourceConfig,
        StateComputationLike,
        StateLike,
    )
    from wallaroo.topology.model import Application

S = TypeVar("S")


class ApplicationBuilder:
    """Builds an application, pipeline by pipeline and step by step.

    A pipeline starts with `new_pipeline`, continues with its steps and ends with its sinks. All methods except
    `build` return the builder, so that calls can be chained. They only record their arguments: `build` checks
    everything and reports all mistakes at once.

    A computation is a decorated function, an object with `name()` and `compute` or `compute_multi`, or a class of
    such objects. A class is instantiated by `build`, to get its name, and again where it runs.

    Args:
        name: The name of the application.

    >>> import wallaroo
    >>> @wallaroo.decoder
    ... def decode(bs):
    ...     return bs.decode()
    >>> @wallaroo.computation("reverse")
    ... def reverse(text):
    ...     return text[::-1]
    >>> @wallaroo.encoder
    ... def encode(text):
    ...     return text.encode()
    >>> builder = ApplicationBuilder("Reverse")
    >>> builder = builder.new_pipeline("lines", wallaroo.TCPSourceConfig("127.0.0.1", "7010", decode))
    >>> builder = builder.to(reverse).to_sink(wallaroo.TCPSinkConfig("127.0.0.1", "7002", encode))
    >>> builder.build()
    <Application 'Reverse': 'lines'>
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._declarations: list[tuple[Any, ...]] = []
        self._slips: list[str] = []

    @fills_missing
    def new_pipeline(self, name: str, source_config: SourceConfig | str) -> Self:
        """Start a pipeline.

        Args:
            name: Its name; no other pipeline of the application may have it.
            source_config: Where its messages come from, such as a `wallaroo.TCPSourceConfig`, or the name of a
                connector.

        Returns:
            The builder.

        >>> import wallaroo
        >>> decode = wallaroo.decoder(bytes.decode)
        >>> one, other = (wallaroo.TCPSourceConfig("127.0.0.1", port, decode) for port in (7010, 7011))
        >>> ApplicationBuilder("Shop").new_pipeline("orders", one).new_pipeline("prices", other).build()
        <Application 'Shop': 'orders', 'prices'>
        """
        return self._declare("new_pipeline", name, with_names(source_config, "source"))

    def done(self) -> Self:
        """Close the current pipeline. A new pipeline closes the one before it, too.

        Returns:
            The builder.

        >>> import wallaroo
        >>> source = wallaroo.TCPSourceConfig("127.0.0.1", 7010, wallaroo.decoder(bytes.decode))
        >>> ApplicationBuilder("Shop").new_pipeline("orders", source).done().build()
        <Application 'Shop': 'orders'>
        """
        return self._declare("done")

    @fills_missing
    def to(self, computation: ComputationLike | OwnStateComputation) -> Self:
        """Add a computation without state, or one that brings its state.

        Args:
            computation: Made with `@wallaroo.computation` or `@wallaroo.computation_multi`, or an object or a
                class with the same methods; or made with `@wallaroo.state_computation(name, state)`.

        Returns:
            The builder.

        >>> import wallaroo
        >>> from wallaroo import testing
        >>> source = wallaroo.TCPSourceConfig("127.0.0.1", 7010, wallaroo.decoder(bytes.decode))
        >>> sink = wallaroo.TCPSinkConfig("127.0.0.1", 7002, wallaroo.encoder(str))
        >>> @wallaroo.computation_multi("split")
        ... def split(line):
        ...     return line.split()
        >>> builder = ApplicationBuilder("Split").new_pipeline("lines", source).to(split).to_sink(sink)
        >>> testing.run(builder.build(), ["why hello"])
        ['why', 'hello']
        """
        return self._declare("to", computation)

    @fills_missing
    def to_parallel(self, computation: ComputationLike) -> Self:
        """Add a computation without state that may run on all workers at once.

        Args:
            computation: Made with `@wallaroo.computation` or `@wallaroo.computation_multi`, or an object or a
                class with the same methods.

        Returns:
            The builder.

        >>> import wallaroo
        >>> from wallaroo import testing
        >>> source = wallaroo.TCPSourceConfig("127.0.0.1", 7010, wallaroo.decoder(bytes.decode))
        >>> sink = wallaroo.TCPSinkConfig("127.0.0.1", 7002, wallaroo.encoder(str))
        >>> @wallaroo.computation("length")
        ... def length(line):
        ...     return len(line)
        >>> builder = ApplicationBuilder("Lengths").new_pipeline("lines", source).to_parallel(length).to_sink(sink)
        >>> testing.run(builder.build(), ["why", "hello"])
        [3, 5]
        """
        return self._declare("to_parallel", computation)

    @overload
    def to_stateful(
        self,
        computation: StateComputationLike[S],
        state_class: StateLike[S],
        state_name: str,
    ) -> Self: ...
    @overload
    def to_stateful(
        self,
        computation: StateComputationLike[S],
        *,
        state_builder: StateLike[S],
        state_name: str,
    ) -> Self: ...
    def to_stateful(
        self,
        computation: Any = MISSING,
        state_class: Any = MISSING,
        state_name: Any = MISSING,
        *,
        state_builder: Any = MISSING,
    ) -> Self:
        """Add a state computation on a state that is one object.

        Args:
            computation: Made with `@wallaroo.state_computation` or `@wallaroo.state_computation_multi`, or an
                object or a class with the same methods.
            state_class: The class of the state, or an object whose `build()` returns a state.
            state_name: The name of the state. Steps of several pipelines that give the same name share it.
            state_builder: Another name for `state_class`.

        Returns:
            The builder.

        >>> import wallaroo
        >>> from wallaroo import testing
        >>> @wallaroo.state_computation("number")
        ... def number(line, seen):
        ...     seen.append(line)
        ...     return f"{len(seen)} {line}", True
        >>> source = wallaroo.TCPSourceConfig("127.0.0.1", "7010", wallaroo.decoder(bytes.decode))
        >>> sink = wallaroo.TCPSinkConfig("127.0.0.1", "7002", wallaroo.encoder(str.encode))
        >>> builder = ApplicationBuilder("Numbered lines").new_pipeline("lines", source)
        >>> application = builder.to_stateful(number, list, "lines so far").to_sink(sink).build()
        >>> testing.run(application, ["why", "hello"])
        ['1 why', '2 hello']
        """
        state = self._one_of(computation, state_class=state_class, state_builder=state_builder)
        return self._declare("to_stateful", computation, state, state_name)

    @overload
    def to_state_partition(
        self,
        computation: StateComputationLike[S],
        state: StateLike[S],
        state_partition_name: str,
        partition_function: KeyLike,
        partition_keys: Iterable[Hashable] | None = None,
    ) -> Self: ...
    @overload
    def to_state_partition(
        self,
        computation: StateComputationLike[S],
        *,
        state_builder: StateLike[S],
        state_name: str,
        partition_function: KeyLike,
        partition_keys: Iterable[Hashable] | None = None,
    ) -> Self: ...
    def to_state_partition(  # noqa: PLR0913 - the arguments that Wallaroo programs give
        self,
        computation: Any = MISSING,
        state: Any = MISSING,
        state_partition_name: Any = MISSING,
        partition_function: Any = MISSING,
        partition_keys: Iterable[Hashable] | None = None,
        *,
        state_builder: Any = MISSING,
        state_name: Any = MISSING,
    ) -> Self:
        """Add a state computation on a state that has one object for each key.

        Args:
            computation: As for `to_stateful`.
            state: The class of the state, or an object whose `build()` returns a state.
            state_partition_name: The name of the state. Steps of several pipelines that give the same name
                share it.
            partition_function: Picks the key of a message: made with `@wallaroo.partition`, or an object or a
                class with `partition(data)`.
            partition_keys: All keys, as a list or another iterable. Omitted, None or empty: any key is valid.
            state_builder: Another name for `state`.
            state_name: Another name for `state_partition_name`.

        Returns:
            The builder.

        >>> import wallaroo
        >>> from wallaroo import testing
        >>> @wallaroo.state_computation("count")
        ... def count(word, words):
        ...     words.append(word)
        ...     return (word, len(words)), True
        >>> @wallaroo.partition
        ... def itself(word):
        ...     return word
        >>> source = wallaroo.TCPSourceConfig("127.0.0.1", "7010", wallaroo.decoder(bytes.decode))
        >>> sink = wallaroo.TCPSinkConfig("127.0.0.1", "7002", wallaroo.encoder(str))
        >>> builder = ApplicationBuilder("Counts").new_pipeline("words", source)
        >>> application = builder.to_state_partition(count, list, "words", itself).to_sink(sink).build()
        >>> testing.run(application, ["why", "hello", "why"])
        [('why', 1), ('hello', 1), ('why', 2)]
        """
        method = "to_state_partition"
        made_by = self._one_of(computation, state=state, state_builder=state_builder)
        name = self._one_of(computation, state_partition_name=state_partition_name, state_name=state_name)
        return self._declare(method, computation, made_by, name, partition_function, _listed(partition_keys))

    @overload
    def to_state_partition_u64(
        self,
        computation: StateComputationLike[S],
        state_builder: StateLike[S],
        state_partition_name: str,
        partition_function: KeyLike,
        partition_keys: Iterable[int] | None = None,
    ) -> Self: ...
    @overload
    def to_state_partition_u64(
        self,
        computation: StateComputationLike[S],
        *,
        state: StateLike[S],
        state_name: str,
        partition_function: KeyLike,
        partition_keys: Iterable[int] | None = None,
    ) -> Self: ...
    def to_state_partition_u64(  # noqa: PLR0913 - the arguments that Wallaroo programs give
        self,
        computation: Any = MISSING,
        state_builder: Any = MISSING,
        state_partition_name: Any = MISSING,
        partition_function: Any = MISSING,
        partition_keys: Iterable[int] | None = None,
        *,
        state: Any = MISSING,
        state_name: Any = MISSING,
    ) -> Self:
        """Add a state computation on a state that has one object for each key, where keys are whole numbers.

        Args:
            computation: As for `to_stateful`.
            state_builder: The class of the state, or an object whose `build()` returns a state.
            state_partition_name: As for `to_state_partition`.
            partition_function: As for `to_state_partition`.
            partition_keys: All keys, whole numbers from 0 to 2**64 - 1; otherwise as for `to_state_partition`.
            state: Another name for `state_builder`.
            state_name: Another name for `state_partition_name`.

        Returns:
            The builder.

        >>> import wallaroo
        >>> from wallaroo import testing
        >>> source = wallaroo.TCPSourceConfig("127.0.0.1", 7010, wallaroo.decoder(bytes.decode))
        >>> sink = wallaroo.TCPSinkConfig("127.0.0.1", 7002, wallaroo.encoder(str))
        >>> @wallaroo.partition
        ... def length(word):
        ...     return len(word)
        >>> @wallaroo.state_computation("count")
        ... def count(word, words):
        ...     words.append(word)
        ...     return (len(word), len(words)), True
        >>> builder = ApplicationBuilder("By length").new_pipeline("words", source)
        >>> builder = builder.to_state_partition_u64(count, list, "words", length, range(100)).to_sink(sink)
        >>> testing.run(builder.build(), ["why", "hello", "who"])
        [(3, 1), (5, 1), (3, 2)]
        """
        method = "to_state_partition_u64"
        made_by = self._one_of(computation, state_builder=state_builder, state=state)
        name = self._one_of(computation, state_partition_name=state_partition_name, state_name=state_name)
        return self._declare(method, computation, made_by, name, partition_function, _listed(partition_keys))

    @fills_missing
    def to_sink(self, sink_config: SinkConfig | str) -> Self:
        """End the pipeline with a sink.

        Args:
            sink_config: Where the outputs go, such as a `wallaroo.TCPSinkConfig`.

        Returns:
            The builder.

        >>> import wallaroo
        >>> from wallaroo import testing
        >>> source = wallaroo.TCPSourceConfig("127.0.0.1", 7010, wallaroo.decoder(bytes.decode))
        >>> sink = wallaroo.TCPSinkConfig("127.0.0.1", 7002, wallaroo.encoder(str))
        >>> testing.run(ApplicationBuilder("Copy").new_pipeline("lines", source).to_sink(sink).build(), [b"why"])
        ['why']
        """
        return self._declare("to_sink", with_names(sink_config, "sink"))

    @fills_missing
    def to_sinks(self, sink_configs: Sequence[SinkConfig | str], *, choose: Choose | None = None) -> Self:
        """End the pipeline with several sinks, each of which gets all outputs, or those that `choose` sends to it.

        Args:
            sink_configs: A list of sinks, each as for `to_sink`; with `choose`, each has a `name`.
            choose: A function that is given an output, before it is encoded, and returns where it goes: the name of a
                sink, or a list, tuple or set of names. None, or an empty collection, sends it to no sink. Another
                name is an error, and the output becomes a dead letter.

        Returns:
            The builder.

        >>> import wallaroo
        >>> from wallaroo import testing
        >>> decode, encode = wallaroo.decoder(int), wallaroo.encoder(str)
        >>> def size(number):
        ...     return None if number == 0 else "small" if number < 100 else ("large", "all large")
        >>> sinks = [wallaroo.TCPSinkConfig("127.0.0.1", 7002, encode, name=name) for name in ("small", "large")]
        >>> sinks += [wallaroo.TCPSinkConfig("127.0.0.1", 7003, encode, name="all large")]
        >>> ab = ApplicationBuilder("Sizes").new_pipeline("n", wallaroo.TCPSourceConfig("127.0.0.1", 7010, decode))
        >>> testing.run_all(ab.to_sinks(sinks, choose=size).build(), [b"5", b"0", b"500"])
        {'n[small]': [5], 'n[large]': [500], 'n[all large]': [500]}
        """
        return self._declare("to_sinks", sinks_with_names(sink_configs), *([] if choose is None else [choose]))

    def source_connector(self, name: str, encoder: Any, decoder: Any, port: str | int | None = None) -> Self:
        """Declare a source connector, as `wallaroo.source_connector` does.

        Args:
            name: The name, which `new_pipeline` takes instead of a config.
            encoder: Turns a message into bytes, in the script.
            decoder: Turns the bytes into a message, in the application.
            port: The port to listen on.

        Returns:
            The builder.

        >>> builder = ApplicationBuilder("Texts").source_connector("texts of a builder", str.encode, bytes.decode, 7112)
        >>> builder.new_pipeline("texts", "texts of a builder")._slips
        []
        """
        source_connector(name, encoder, decoder, port)
        return self

    def sink_connector(self, name: str, encoder: Any, decoder: Any, port: str | int | None = None) -> Self:
        """Declare a sink connector, as `wallaroo.sink_connector` does.

        Args:
            name: The name, which `to_sink` and `to_sinks` take instead of a config.
            encoder: Turns an output into bytes, in the application.
            decoder: Turns the bytes into a message, in the script.
            port: The port that the script listens on.

        Returns:
            The builder.

        >>> builder = ApplicationBuilder("Texts").sink_connector("results of a builder", str.encode, bytes.decode, 7212)
        >>> builder.to_sink("results of a builder")._slips
        []
        """
        sink_connector(name, encoder, decoder, port)
        return self

    def build(self) -> Application:
        """Check all declarations, and build the application.

        Returns:
            The application, for `application_setup` to return.

        Raises:
            WallarooParameterError: There are mistakes; the text lists all of them.

        >>> import wallaroo
        >>> ApplicationBuilder("Empty").build()
        Traceback (most recent call last):
        wallaroo.errors.WallarooParameterError: The application 'Empty' has a mistake:
          - there is no pipeline: write new_pipeline(name, source_config), then its steps and its sink.
        """
        return assemble(self._name, self._declarations, self._slips)

    def _declare(self, method: str, *arguments: Any) -> Self:
        self._declarations.append((method, *arguments))
        return self

    def _one_of(self, computation: Any, **names: Any) -> Any:
        """Return the argument that was given under one of its names."""
        given = [value for value in names.values() if value is not MISSING]
        if len(given) > 1:
            self._slips.append(
                f"the step {label(computation)}: {' and '.join(names)} mean the same: give only one of them"
            )
        return given[0] if given else MISSING


def _listed(keys: Iterable[Any] | None) -> Any:
    """Return the keys as a list, as a generator yields them only once; invalid ones unchanged, for `build` to check."""
    return list(keys) if isinstance(keys, Iterable) and not isinstance(keys, str | bytes) else keys
