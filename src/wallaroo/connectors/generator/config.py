"""The config of sources that generate their own messages."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, overload

from wallaroo.class_changes import loads
from wallaroo.errors import WallarooParameterError
from wallaroo.introspection import label

if TYPE_CHECKING:
    from wallaroo.interfaces import GeneratorLike

_LENGTH = struct.Struct(">I")


class PickleDecoder:
    """Decodes the messages of a generator from the application's own log, which only the application can write to."""

    def header_length(self) -> int:
        """Return the number of bytes before each payload."""
        return _LENGTH.size

    def payload_length(self, bs: bytes) -> int:
        """Return the number of payload bytes that follow the header `bs`."""
        length: int = _LENGTH.unpack(bs)[0]
        return length

    def decode(self, bs: bytes) -> Any:
        """Return the message in the payload `bs`."""
        return loads(bs)


class GenSourceConfig:
    """A source that generates its own messages: the first, and then each one from the previous one.

    It is written `GenSourceConfig(generator)` or `GenSourceConfig(name, generator)`. The arguments are stored as
    given; building the application reports what is wrong with them.

    Args:
        name: The name of the source; it is not used, as the pipeline's name identifies a source.
        gen: An object, or a class of objects, with `initial_value()`, which returns the first message, and `apply(v)`,
            which returns the one after `v`: a `wallaroo.MessageGenerator`. None, from either, ends the messages.

    >>> class Numbers:
    ...     def initial_value(self):
    ...         return 1
    ...     def apply(self, v):
    ...         return v + 1
    >>> config = GenSourceConfig("numbers", Numbers())
    >>> config
    GenSourceConfig(name='numbers', generator=Numbers(...))
    """

    @overload
    def __init__(self, gen: GeneratorLike) -> None: ...
    @overload
    def __init__(self, name: str, gen: GeneratorLike) -> None: ...
    def __init__(self, *arguments: Any, **named: Any) -> None:
        names = ("gen",) if len(arguments) + len(named) == 1 else ("name", "gen")
        given = {**dict(zip(names, arguments, strict=False)), **named}
        if set(given) != set(names) or len(arguments) + len(named) != len(names):
            shown = ", ".join([*map(label, arguments), *(f"{name}={label(value)}" for name, value in named.items())])
            raise WallarooParameterError(
                f"GenSourceConfig takes a generator, or a name and a generator; got ({shown}). A generator has "
                "initial_value(), for the first message, and apply(v), for the one after v."
            )
        self.name: str | None = given.get("name")
        self.generator: GeneratorLike = given["gen"]
        self.decoder = PickleDecoder()

    def __repr__(self) -> str:
        name = "" if self.name is None else f"name={self.name!r}, "
        return f"GenSourceConfig({name}generator={label(self.generator)})"
