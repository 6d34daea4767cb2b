"""The builder of applications."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wallaroo.introspection import MISSING, label
from wallaroo.topology.assemble import assemble

if TYPE_CHECKING:
    from wallaroo.topology.model import Application


class ApplicationBuilder:
    """Puts an application together, pipeline by pipeline and step by step.

    A pipeline starts with `new_pipeline`, goes on with its steps and ends with its sinks. All methods
    but `build` return the builder, so that calls can be chained. They only write down what they are given:
    `build` checks it all and reports every mistake at once.

    A computation is a decorated function, an object with `name()` and `compute` or `compute_multi`, or a
    class of such objects. A class is made into an object by `build`, to learn its name, and where it runs.

    Args:
        name: The name of the application; its state is kept under it.

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

    def new_pipeline(self, name: Any = MISSING, source_config: Any = MISSING) -> ApplicationBuilder:
        """Start a pipeline.

        Args:
            name: Its name; no other pipeline of the application may have it.
            source_config: Where its messages come from, such as a `wallaroo.TCPSourceConfig`.

        Returns:
            This builder, for the next call.
        """
        return self._declare("new_pipeline", name, source_config)

    def done(self) -> ApplicationBuilder:
        """Close the current pipeline. A new pipeline closes the one before it, too.

        Returns:
            This builder, for the next call.
        """
        return self._declare("done")

    def to(self, computation: Any = MISSING) -> ApplicationBuilder:
        """Add a computation without state.

        Args:
            computation: Made with `@wallaroo.computation` or `@wallaroo.computation_multi`, or an object or a
                class with the same methods.

        Returns:
            This builder, for the next call.
        """
        return self._declare("to", computation)

    def to_parallel(self, computation: Any = MISSING) -> ApplicationBuilder:
        """Add a computation without state that may run on all workers at once.

        Args:
            computation: As for `to`.

        Returns:
            This builder, for the next call.
        """
        return self._declare("to_parallel", computation)

    def to_stateful(
        self,
        computation: Any = MISSING,
        state_class: Any = MISSING,
        state_name: Any = MISSING,
        *,
        state_builder: Any = MISSING,
    ) -> ApplicationBuilder:
        """Add a state computation on a state that is one object.

        Args:
            computation: Made with `@wallaroo.state_computation` or `@wallaroo.state_computation_multi`, or an
                object or a class with the same methods.
            state_class: The class of the state, or an object whose `build()` returns a state.
            state_name: The name of the state. Steps of several pipelines that give the same name share it.
            state_builder: Another name for `state_class`.

        Returns:
            This builder, for the next call.
        """
        state = self._one_of(computation, state_class=state_class, state_builder=state_builder)
        return self._declare("to_stateful", computation, state, state_name)

    def to_state_partition(  # noqa: PLR0913 - the arguments that Wallaroo programs give
        self,
        computation: Any = MISSING,
        state: Any = MISSING,
        state_partition_name: Any = MISSING,
        partition_function: Any = MISSING,
        partition_keys: Any = None,
        *,
        state_builder: Any = MISSING,
        state_name: Any = MISSING,
    ) -> ApplicationBuilder:
        """Add a state computation on a state that has one object for each key.

        Args:
            computation: As for `to_stateful`.
            state: The class of the state, or an object whose `build()` returns a state.
            state_partition_name: The name of the state. Steps of several pipelines that give the same name
                share it.
            partition_function: Picks the key of a message: made with `@wallaroo.partition`, or an object or a
                class with `partition(data)`.
            partition_keys: The list of all keys. Left out, None or an empty list: any key may come.
            state_builder: Another name for `state`.
            state_name: Another name for `state_partition_name`.

        Returns:
            This builder, for the next call.
        """
        method = "to_state_partition"
        made_by = self._one_of(computation, state=state, state_builder=state_builder)
        name = self._one_of(computation, state_partition_name=state_partition_name, state_name=state_name)
        return self._declare(method, computation, made_by, name, partition_function, partition_keys)

    def to_state_partition_u64(  # noqa: PLR0913 - the arguments that Wallaroo programs give
        self,
        computation: Any = MISSING,
        state_builder: Any = MISSING,
        state_partition_name: Any = MISSING,
        partition_function: Any = MISSING,
        partition_keys: Any = None,
        *,
        state: Any = MISSING,
        state_name: Any = MISSING,
    ) -> ApplicationBuilder:
        """Add a state computation on a state that has one object for each key, where keys are whole numbers.

        Args:
            computation: As for `to_stateful`.
            state_builder: The class of the state, or an object whose `build()` returns a state.
            state_partition_name: As for `to_state_partition`.
            partition_function: As for `to_state_partition`.
            partition_keys: The list of all keys, whole numbers from 0 to 2**64 - 1; otherwise as for
                `to_state_partition`.
            state: Another name for `state_builder`.
            state_name: Another name for `state_partition_name`.

        Returns:
            This builder, for the next call.
        """
        method = "to_state_partition_u64"
        made_by = self._one_of(computation, state_builder=state_builder, state=state)
        name = self._one_of(computation, state_partition_name=state_partition_name, state_name=state_name)
        return self._declare(method, computation, made_by, name, partition_function, partition_keys)

    def to_sink(self, sink_config: Any = MISSING) -> ApplicationBuilder:
        """End the pipeline with a sink.

        Args:
            sink_config: Where the outputs go, such as a `wallaroo.TCPSinkConfig`.

        Returns:
            This builder, for the next call.
        """
        return self._declare("to_sink", sink_config)

    def to_sinks(self, sink_configs: Any = MISSING) -> ApplicationBuilder:
        """End the pipeline with several sinks, each of which gets all outputs.

        Args:
            sink_configs: A list of sinks, each as for `to_sink`.

        Returns:
            This builder, for the next call.
        """
        return self._declare("to_sinks", sink_configs)

    def build(self) -> Application:
        """Check everything that was declared, and return the application.

        Returns:
            The application, for `application_setup` to return.

        Raises:
            WallarooParameterError: There are mistakes; the text lists every one of them.

        >>> import wallaroo
        >>> ApplicationBuilder("Empty").build()
        Traceback (most recent call last):
        wallaroo.errors.WallarooParameterError: The application 'Empty' has a mistake:
          - there is no pipeline: write new_pipeline(name, source_config), then its steps and its sink.
        """
        return assemble(self._name, self._declarations, self._slips)

    def _declare(self, method: str, *arguments: Any) -> ApplicationBuilder:
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
