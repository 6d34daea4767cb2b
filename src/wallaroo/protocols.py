"""The interfaces of what users hand over: any object with these methods will do.

They are for annotations. Nothing has to inherit from them, and decorated functions have them by themselves.

>>> import wallaroo
>>> class Reversed:
...     def name(self) -> str:
...         return "reversed"
...     def compute(self, data: str, /) -> str | None:
...         return data[::-1]
>>> step: wallaroo.Computation[str, str] = Reversed()
>>> step.compute("abc")
'cba'
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    # Type checkers bring this module. The default lets users write `Decoder` for a decoder of any messages.
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

Outputs = list[Item] | tuple[Item, ...] | None
"""What a step with any number of outputs returns; None is no output."""


class Decoder(Protocol[Message_co]):
    """Turns the bytes of a source into messages, and says how they are framed."""

    def header_length(self) -> int:
        """Return the number of bytes in front of each payload."""

    def payload_length(self, bs: bytes, /) -> int:
        """Return the number of payload bytes that follow the header `bs`."""

    def decode(self, bs: bytes, /) -> Message_co | None:
        """Return the message in the payload `bs`, or None to drop it."""


class Encoder(Protocol[Data_contra]):
    """Turns an output into what a sink takes."""

    def encode(self, data: Data_contra, /) -> Encoded:
        """Return the bytes to send for `data`, or text, which is sent as UTF-8, or None to send nothing."""


class Computation(Protocol[Data_contra, Output_co]):
    """A step without state that gives one output for a message."""

    def name(self) -> str:
        """Return the name of the step."""

    def compute(self, data: Data_contra, /) -> Output_co | None:
        """Return the output for `data`, or None for no output."""


class ComputationMulti(Protocol[Data_contra, Item]):
    """A step without state that gives any number of outputs for a message."""

    def name(self) -> str:
        """Return the name of the step."""

    def compute_multi(self, data: Data_contra, /) -> Outputs[Item]:
        """Return the list of outputs for `data`, or None for no output."""


class StateComputation(Protocol[Data_contra, State_contra, Output_co]):
    """A step that reads and changes a state, and gives one output for a message."""

    def name(self) -> str:
        """Return the name of the step."""

    def compute(self, data: Data_contra, state: State_contra, /) -> tuple[Output_co | None, bool]:
        """Return the output for `data`, or None, and whether the change of the state is to be saved."""


class StateComputationMulti(Protocol[Data_contra, State_contra, Item]):
    """A step that reads and changes a state, and gives any number of outputs for a message."""

    def name(self) -> str:
        """Return the name of the step."""

    def compute_multi(self, data: Data_contra, state: State_contra, /) -> tuple[Outputs[Item], bool]:
        """Return the list of outputs for `data`, or None, and whether the change of the state is to be saved."""


class OwnStateComputation(Protocol):
    """A step that brings its state: what `@wallaroo.state_computation(name, state)` gives."""

    @property
    def own_state(self) -> Any:
        """Return what makes the state objects."""

    def name(self) -> str:
        """Return the name of the step, and of its state."""


class StateBuilder(Protocol[Made_co]):
    """Makes the objects of a state, where their class alone cannot: it needs arguments, say."""

    def build(self) -> Made_co:
        """Return a fresh state object."""


class Partition(Protocol[Data_contra]):
    """Picks the key of a message, for `to_state_partition`."""

    def partition(self, data: Data_contra, /) -> Hashable:
        """Return the key of `data`."""


class KeyExtractor(Protocol[Data_contra]):
    """Picks the key of a message, for `key_by`."""

    def extract_key(self, data: Data_contra, /) -> Hashable:
        """Return the key of `data`."""


class SourceConfig(Protocol):
    """Where a pipeline's messages come from."""

    @property
    def decoder(self) -> Decoder:
        """Return what decodes the messages."""


class SinkConfig(Protocol):
    """Where a pipeline's outputs go."""

    @property
    def encoder(self) -> Encoder:
        """Return what encodes the outputs."""


ComputationLike = Computation | ComputationMulti | type[Computation | ComputationMulti]
"""What may be given for a step without state: an object, or a class of objects."""

StateComputationLike = (
    StateComputation[Any, S, Any]
    | StateComputationMulti[Any, S, Any]
    | type[StateComputation[Any, S, Any] | StateComputationMulti[Any, S, Any]]
)
"""What may be given for a step on a state of the type `S`."""

StateLike = Callable[[], S] | StateBuilder[S] | type[StateBuilder[S]]
"""What may be given for a state of the type `S`: its class, a function that makes one, or a builder."""

KeyLike = Partition | KeyExtractor | type[Partition | KeyExtractor]
"""What may be given to pick the key of a message."""
