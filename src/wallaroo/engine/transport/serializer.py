"""Serializes messages and states, to be sent between workers and stored in files."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from itertools import chain
from typing import Any

from wallaroo.class_changes import loads
from wallaroo.connectors.output_block import Body
from wallaroo.engine.transport.packing import Stream, pack, pack_plain, unpack, unpack_stream


class Serializer:
    """Serializes messages and states, to be sent between workers and stored in state files.

    Uses pickle, or the application's own `serialize` and `deserialize` for each message and state.

    >>> Serializer().load_messages(Serializer().dump_messages({"a": [1, 2]}))
    {'a': [1, 2]}
    >>> text = Serializer(lambda o: repr(o).encode(), lambda b: int(b))
    >>> text.load_messages(text.dump_messages({"a": [1, 2]}))
    {'a': [1, 2]}
    """

    def __init__(
        self,
        serialize: Callable[[Any], bytes] | None = None,
        deserialize: Callable[[bytes], Any] | None = None,
    ) -> None:
        self._serialize = serialize
        self._deserialize = deserialize

    @property
    def own(self) -> bool:
        """Return whether the application has its own `serialize`."""
        return self._serialize is not None

    def dump(self, obj: Any) -> bytes:
        """Return one message or state as bytes."""
        if self._serialize is not None:
            return self._serialize(obj)
        return pickle.dumps(obj, pickle.HIGHEST_PROTOCOL)

    def load(self, data: bytes) -> Any:
        """Return the message or state in `data`."""
        return loads(data) if self._deserialize is None else self._deserialize(data)

    def dump_messages(self, messages: dict[Any, list[Any]]) -> bytes:
        """Return the messages of many keys as bytes."""
        flat = list(chain.from_iterable(messages.values()))
        if self._serialize is not None:
            flat = list(map(self._serialize, flat))
        return pack(list(messages), list(map(len, messages.values())), flat)

    def dump_plain_messages(self, messages: dict[Any, list[Any]]) -> bytes | None:
        """Return the same if all messages and keys are plain, so that loading cannot fail; otherwise None."""
        if self._serialize is not None:
            return None
        flat = list(chain.from_iterable(messages.values()))
        return pack_plain(list(messages), list(map(len, messages.values())), flat)

    def load_messages(self, data: Body) -> dict[Any, list[Any]]:
        """Return what `dump_messages` packed."""
        keys, counts, messages = self.load_stream(data)
        return {key: messages.next(count) for key, count in zip(keys, counts, strict=True)}

    def load_stream(self, data: Body) -> tuple[list[Any], list[int], Stream]:
        """Return what `dump_messages` packed: the keys, how many messages each has, and all messages as a stream."""
        (keys, counts), messages = unpack_stream(data)
        if self._deserialize is not None:
            messages = Stream(list(map(self._deserialize, messages.next(sum(counts)))))
        return keys, counts, messages

    def dump_states(self, states: dict[Any, Any]) -> bytes:
        """Return the states of many keys as bytes."""
        objects = list(states.values())
        if self._serialize is not None:
            objects = list(map(self._serialize, objects))
        return pack(list(states), objects)

    def load_states(self, data: bytes) -> dict[Any, Any]:
        """Return what `dump_states` packed."""
        keys, objects = unpack(data)
        if self._deserialize is not None:
            objects = list(map(self._deserialize, objects))
        return dict(zip(keys, objects, strict=True))
