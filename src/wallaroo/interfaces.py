"""The interfaces of the objects that users pass in: any object with these methods is accepted.

They are for annotations. Nothing has to inherit from them, and decorated functions implement them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from typing import TYPE_CHECKING, Any, Protocol

from wallaroo.introspection import accepts
from wallaroo.kafka_message import KafkaMessage

if TYPE_CHECKING:
    # Installed with type checkers. The default lets users write `Decoder` for a decoder of any messages.
    from typing_extensions import TypeVar

    Message_co = TypeVar("Message_co", covariant=True, default=Any)
    Data_contra = TypeVar("Data_contra", contravariant=True, default=Any)
    Output_co = TypeVar("Output_co", covariant=True, default=Any)
    Item = TypeVar("Item", default=Any)
    State_contra = TypeVar("State_contra", contravariant=True, default=Any)
    Made_co = TypeVar("Made_co", covariant=True, default=Any)
    S = TypeVar("S", default=Any)
else:
    from typing import TypeVar

    Message_co = TypeVar("Message_co", covariant=True)
    Data_contra = TypeVar("Data_contra", contravariant=True)
    Output_co = TypeVar("Output_co", covariant=True)
    Item = TypeVar("Item")
    State_contra = TypeVar("State_contra", contravariant=True)
    Made_co = TypeVar("Made_co", covariant=True)
    S = TypeVar("S")

Encoded = bytes | bytearray | memoryview | str | None
"""What an encoder returns: the bytes to send, text, which is sent as UTF-8, or None to send nothing."""

KafkaEncoded = (
    Encoded | tuple[bytes | str | None, bytes | str | None] | tuple[bytes | str | None, bytes | str | None, int | None]
)
"""What an encoder for a Kafka sink returns: as any other, or a tuple of value and key, and the partition or not."""

Outputs = list[Item] | tuple[Item, ...] | None
"""The result of a step with any number of outputs; None means no output."""

LINES = "lines"
"""The `framing` of a decoder whose messages each end with a newline."""


class HeaderDecoder(Protocol[Message_co]):
    r"""Turns the bytes of a source into messages, each preceded by a header with its length.

    >>> class Lines:
    ...     def header_length(self) -> int:
    ...         return 2
    ...     def payload_length(self, bs: bytes) -> int:
    ...         return int.from_bytes(bs)
    ...     def decode(self, bs: bytes) -> str | None:
    ...         return bs.decode() or None
    >>> decoder: HeaderDecoder[str] = Lines()
    >>> decoder.payload_length(b"\x00\x05"), decoder.decode(b"hello")
    (5, 'hello')
    """

    def header_length(self) -> int:
        """Return the length of the headers.

        Returns:
            The number of bytes before each payload.
        """

    def payload_length(self, bs: bytes, /) -> int:
        """Read the length of a payload.

        Args:
            bs: The header before the payload.

        Returns:
            The number of bytes of the payload.
        """

    def decode(self, bs: bytes, /) -> Message_co | None:
        """Decode a message.

        Args:
            bs: The payload.

        Returns:
            The message, or None to drop it.
        """


class LineDecoder(Protocol[Message_co]):
    """Turns the bytes of a source into messages that each end with a newline.

    >>> class Lines:
    ...     framing = "lines"
    ...     def decode(self, bs: bytes) -> str:
    ...         return bs.decode()
    >>> decoder: LineDecoder[str] = Lines()
    >>> decoder.framing, decoder.decode(b"hello")
    ('lines', 'hello')
    """

    @property
    def framing(self) -> str | Callable[[], str]:
        """The text "lines"; it may also be a method that returns it."""

    def decode(self, bs: bytes, /) -> Message_co | None:
        """Decode a message.

        Args:
            bs: The line, without its newline.

        Returns:
            The message, or None to drop it.
        """


Decoder = HeaderDecoder[Message_co] | LineDecoder[Message_co]
"""Turns the bytes of a source into messages, and defines how they are framed."""


class ValueDecoder(Protocol[Message_co]):
    """Turns the value of a message from Kafka into a message; every other decoder does that, too.

    >>> class Text:
    ...     def decode(self, bs: bytes) -> str:
    ...         return bs.decode()
    >>> decoder: ValueDecoder[str] = Text()
    >>> decoder.decode(b"hello")
    'hello'
    """

    def decode(self, bs: bytes, /) -> Message_co | None:
        """Decode a message.

        Args:
            bs: The value of the message.

        Returns:
            The message, or None to drop it.
        """


class MessageDecoder(Protocol[Message_co]):
    """Turns the value of a message from Kafka, and what Kafka knows about it, into a message.

    >>> class Keyed:
    ...     def decode(self, bs: bytes, message: KafkaMessage) -> tuple[bytes | None, str]:
    ...         return message.key, bs.decode()
    >>> decoder: MessageDecoder[tuple[bytes | None, str]] = Keyed()
    >>> decoder.decode(b"hello", KafkaMessage(key=b"k"))
    (b'k', 'hello')
    """

    def decode(self, bs: bytes, message: KafkaMessage, /) -> Message_co | None:
        """Decode a message.

        Args:
            bs: The value of the message.
            message: What Kafka knows about it, such as its key.

        Returns:
            The message, or None to drop it.
        """


KafkaDecoder = ValueDecoder[Message_co] | MessageDecoder[Message_co]
"""Turns messages from Kafka into messages: by their values alone, or also by their keys, timestamps and so on."""


def takes_message(decoder: Any) -> bool:
    """Return whether a decoder has to be given a `KafkaMessage` besides the value.

    A second parameter with a default does not count: functions such as `bytes.decode` have one for something else.

    >>> class Keyed:
    ...     def decode(self, bs, message):
    ...         return message.key, bs
    >>> class Text:
    ...     def decode(self, bs, encoding="utf-8"):
    ...         return bs.decode(encoding)
    >>> takes_message(Keyed()), takes_message(Text())
    (True, False)
    """
    decode = getattr(decoder, "decode", None)
    return callable(decode) and accepts(decode, 2) and not accepts(decode, 1)


def has_line_framing(decoder: Any) -> bool:
    """Return whether the messages of a decoder are lines.

    >>> class Lines:
    ...     framing = "lines"
    >>> has_line_framing(Lines()), has_line_framing(object())
    (True, False)
    """
    framing = getattr(decoder, "framing", None)
    return bool((framing() if callable(framing) else framing) == LINES)


class Encoder(Protocol[Data_contra]):
    """Turns an output into what a sink takes.

    >>> class Lines:
    ...     def encode(self, data: str) -> bytes:
    ...         return f"{data};".encode()
    >>> encoder: Encoder[str] = Lines()
    >>> encoder.encode("hello")
    b'hello;'
    """

    def encode(self, data: Data_contra, /) -> Encoded:
        """Encode an output.

        Args:
            data: The output of the last step.

        Returns:
            The bytes to send, or text, which is sent as UTF-8, or None to send nothing.
        """


class KafkaEncoder(Protocol[Data_contra]):
    """Turns an output into what a Kafka sink takes; every other encoder does that, too.

    >>> class Keyed:
    ...     def encode(self, data: tuple[str, int]) -> tuple[str, str]:
    ...         word, count = data
    ...         return str(count), word
    >>> encoder: KafkaEncoder[tuple[str, int]] = Keyed()
    >>> encoder.encode(("hello", 2))
    ('2', 'hello')
    """

    def encode(self, data: Data_contra, /) -> KafkaEncoded:
        """Encode an output.

        Args:
            data: The output of the last step.

        Returns:
            The value, or a tuple of value and key, optionally followed by the partition, or None to send nothing.
        """


class Computation(Protocol[Data_contra, Output_co]):
    """A step without state that returns one output for a message.

    >>> class Reverse:
    ...     def name(self) -> str:
    ...         return "reverse"
    ...     def compute(self, data: str) -> str | None:
    ...         return data[::-1]
    >>> computation: Computation[str, str] = Reverse()
    >>> computation.compute("abc")
    'cba'
    """

    def name(self) -> str:
        """Return the name of the step, for messages and metrics.

        Returns:
            The name; no other step of the pipeline may have it.
        """

    def compute(self, data: Data_contra, /) -> Output_co | None:
        """Process a message.

        Args:
            data: The message.

        Returns:
            The output for the next step, or None for no output.
        """


class ComputationMulti(Protocol[Data_contra, Item]):
    """A step without state that returns any number of outputs for a message.

    >>> class Split:
    ...     def name(self) -> str:
    ...         return "split"
    ...     def compute_multi(self, data: str) -> list[str]:
    ...         return data.split()
    >>> computation: ComputationMulti[str, str] = Split()
    >>> computation.compute_multi("why hello")
    ['why', 'hello']
    """

    def name(self) -> str:
        """Return the name of the step, for messages and metrics.

        Returns:
            The name; no other step of the pipeline may have it.
        """

    def compute_multi(self, data: Data_contra, /) -> Outputs[Item]:
        """Process a message.

        Args:
            data: The message.

        Returns:
            The list of outputs, or None for no output.
        """


class StateComputation(Protocol[Data_contra, State_contra, Output_co]):
    """A step that reads and changes a state, and returns one output for a message.

    >>> class Count:
    ...     def name(self) -> str:
    ...         return "count"
    ...     def compute(self, data: str, state: list[str]) -> tuple[int, bool]:
    ...         state.append(data)
    ...         return len(state), True
    >>> computation: StateComputation[str, list[str], int] = Count()
    >>> computation.compute("why", ["hello"])
    (2, True)
    """

    def name(self) -> str:
        """Return the name of the step, for messages and metrics.

        Returns:
            The name; no other step of the pipeline may have it.
        """

    def compute(self, data: Data_contra, state: State_contra, /) -> tuple[Output_co | None, bool]:
        """Process a message, with the state that it belongs to.

        Args:
            data: The message.
            state: The state, which may be changed.

        Returns:
            The output, or None for no output, and whether the change of the state is to be saved.
        """


class StateComputationMulti(Protocol[Data_contra, State_contra, Item]):
    """A step that reads and changes a state, and returns any number of outputs for a message.

    >>> class Repeat:
    ...     def name(self) -> str:
    ...         return "repeat"
    ...     def compute_multi(self, data: str, state: list[str]) -> tuple[list[str], bool]:
    ...         state.append(data)
    ...         return list(state), True
    >>> computation: StateComputationMulti[str, list[str], str] = Repeat()
    >>> computation.compute_multi("why", ["hello"])
    (['hello', 'why'], True)
    """

    def name(self) -> str:
        """Return the name of the step, for messages and metrics.

        Returns:
            The name; no other step of the pipeline may have it.
        """

    def compute_multi(self, data: Data_contra, state: State_contra, /) -> tuple[Outputs[Item], bool]:
        """Process a message, with the state that it belongs to.

        Args:
            data: The message.
            state: The state, which may be changed.

        Returns:
            The list of outputs, or None for no output, and whether the change of the state is to be saved.
        """


class OwnStateComputation(Protocol):
    """A step that brings its own state: the result of `@wallaroo.state_computation(name, state)`."""

    @property
    def own_state(self) -> Any:
        """Return what creates the state objects."""

    def name(self) -> str:
        """Return the name of the step, and of its state."""


class StateBuilder(Protocol[Made_co]):
    """Creates the objects of a state if their class alone cannot, for example because it needs arguments.

    >>> class Zeros:
    ...     def build(self) -> list[int]:
    ...         return [0, 0]
    >>> builder: StateBuilder[list[int]] = Zeros()
    >>> builder.build()
    [0, 0]
    """

    def build(self) -> Made_co:
        """Create a state object.

        Returns:
            A new object, in its initial state.
        """


class MessageGenerator(Protocol[Item]):
    """Makes the messages of a source, for `wallaroo.GenSourceConfig`.

    >>> class Squares:
    ...     def initial_value(self) -> int | None:
    ...         return 2
    ...     def apply(self, v: int) -> int | None:
    ...         return v * v if v < 1000 else None
    >>> generator: MessageGenerator[int] = Squares()
    >>> generator.apply(4)
    16
    """

    def initial_value(self) -> Item | None:
        """Create the first message.

        Returns:
            The message, or None if there is none.
        """

    def apply(self, v: Item, /) -> Item | None:
        """Create the next message.

        Args:
            v: The message before it.

        Returns:
            The message, or None if `v` is the last one.
        """


class Partition(Protocol[Data_contra]):
    """Picks the key of a message, for `to_state_partition`.

    >>> class FirstLetter:
    ...     def partition(self, data: str) -> str:
    ...         return data[0]
    >>> partition: Partition[str] = FirstLetter()
    >>> partition.partition("hello")
    'h'
    """

    def partition(self, data: Data_contra, /) -> Hashable:
        """Pick the key of a message.

        Args:
            data: The message.

        Returns:
            The key: any object that can be hashed and compared.
        """


class KeyExtractor(Protocol[Data_contra]):
    """Picks the key of a message, for `key_by`.

    >>> class FirstLetter:
    ...     def extract_key(self, data: str) -> str:
    ...         return data[0]
    >>> extractor: KeyExtractor[str] = FirstLetter()
    >>> extractor.extract_key("hello")
    'h'
    """

    def extract_key(self, data: Data_contra, /) -> Hashable:
        """Pick the key of a message.

        Args:
            data: The message.

        Returns:
            The key: any object that can be hashed and compared.
        """


class SourceConfig(Protocol):
    """Where a pipeline's messages come from.

    >>> import wallaroo
    >>> config: SourceConfig = wallaroo.TCPSourceConfig("127.0.0.1", "7010", wallaroo.decoder(bytes.decode))
    >>> config.decoder.decode(b"hello")
    'hello'
    """

    @property
    def decoder(self) -> Decoder | KafkaDecoder:
        """The decoder of the messages."""


class SinkConfig(Protocol):
    """Where a pipeline's outputs go.

    >>> import wallaroo
    >>> config: SinkConfig = wallaroo.TCPSinkConfig("127.0.0.1", "7002", wallaroo.encoder(str.encode))
    >>> config.encoder.encode("hello")
    b'hello'
    """

    @property
    def encoder(self) -> Encoder | KafkaEncoder:
        """The encoder of the outputs."""


ComputationLike = Computation | ComputationMulti | type[Computation | ComputationMulti]
"""What is accepted as a step without state: an object, or a class of objects."""

StateComputationLike = (
    StateComputation[Any, S, Any]
    | StateComputationMulti[Any, S, Any]
    | type[StateComputation[Any, S, Any] | StateComputationMulti[Any, S, Any]]
)
"""What is accepted as a step on a state of the type `S`."""

StateLike = Callable[[], S] | StateBuilder[S] | type[StateBuilder[S]]
"""What is accepted as a state of the type `S`: its class, a function that creates one, or a builder."""

GeneratorLike = MessageGenerator | type[MessageGenerator]
"""What is accepted as the generator of a source."""

KeyLike = Partition | KeyExtractor | type[Partition | KeyExtractor]
"""What is accepted to pick the key of a message."""

Choose = Callable[[Any], str | Collection[str] | None]
"""Returns the names of the sinks for an output: see `to_sinks`."""
