"""A dead letter: a message that user code could not handle, as a record with all there is to know about it.

The record holds what is needed to put the message back at the very step that failed: the place of the step, the message
and the key it had.
"""

from __future__ import annotations

import base64
import json
import pickle
import time
import traceback
from dataclasses import dataclass
from typing import Any

from wallaroo.connectors.output_block import Body
from wallaroo.engine.transport.serializer import Serializer
from wallaroo.errors import users_traceback
from wallaroo.topology.model import Pipeline, SinkGroup

Letter = dict[str, Any]

BYTES = "bytes"
"""The message is bytes, kept as they are."""
PICKLE = "pickle"
SERIALIZE = "serialize"
"""The application's own `serialize` has packed the message."""
REPR = "repr"
"""Nothing could pack the message: only its text is kept."""
PACKED = "packed"
"""Several messages that cannot be unpacked, in the bytes in which they travelled."""

REPLAYABLE = frozenset({BYTES, PICKLE, SERIALIZE})


@dataclass(frozen=True)
class Place:
    """Where in the application something failed."""

    pipeline: str
    step: str
    place: str
    """`decoder`, `step 3`, `choose 1` or `encoder 1`, counted from one: names of steps need not be unique."""
    keyed: bool = False
    """Whether messages that come here have a key, which the next state may need."""

    @classmethod
    def of_decoder(cls, pipeline: Pipeline) -> Place:
        """Return the place of the pipeline's decoder."""
        return cls(pipeline.name, "decoder", "decoder")

    @classmethod
    def of_step(cls, pipeline: Pipeline, index: int) -> Place:
        """Return the place of a step."""
        return cls(pipeline.name, pipeline.steps[index].name, f"step {index + 1}", pipeline.is_keyed(index))

    @classmethod
    def of_chooser(cls, pipeline: Pipeline, group: SinkGroup) -> Place:
        """Return the place of the function that chooses among a group of sinks."""
        number = pipeline.choosers.index(group)
        return cls(pipeline.name, "choose", f"choose {number + 1}", pipeline.is_keyed(group))

    @classmethod
    def of_encoder(cls, pipeline: Pipeline, number: int) -> Place:
        """Return the place of the encoder of a sink, counted from zero."""
        keyed = pipeline.is_keyed(pipeline.group_of(number))
        return cls(pipeline.name, "encoder", f"encoder {number + 1}", keyed)

    @property
    def label(self) -> str:
        """Return the place in words for a person, in no more than a hundred bytes and one line."""
        return f"{self.place} ({self.step!r} of {self.pipeline!r})".encode()[:100].decode(errors="ignore")


def make_letter(  # noqa: PLR0913 - all there is to know
    place: Place,
    message: Any,
    error: BaseException,
    *,
    key: Any,
    origin: dict[str, Any],
    serializer: Serializer,
    encoding: str | None = None,
) -> Letter:
    """Return the record of a message for which user code failed; `encoding` where `message` is not just a message."""
    payload, found = serializer_bytes(message, serializer)
    return {
        "time": time.time(),
        "pipeline": place.pipeline,
        "step": place.step,
        "place": place.place,
        "key": None if key is None else shorten(safe_repr(key)),
        "key_pickle": None if key is None else _pickled(key),
        **origin,
        "message": shorten(safe_repr(message)),
        "payload": _text_of(payload),
        "encoding": encoding or found,
        **_account(error),
    }


def failed_again(letter: Letter, error: BaseException, origin: dict[str, Any]) -> Letter:
    """Return the record of a letter that could not even be put back at its step."""
    kept = ("pipeline", "step", "place", "key", "key_pickle", "message", "payload", "encoding")
    return {"time": time.time(), **{name: letter.get(name) for name in kept}, **origin, **_account(error)}


def message_in(letter: Letter, serializer: Serializer) -> Any:
    """Return the message of a letter, as the step was given it."""
    payload = payload_of(letter)
    match letter["encoding"]:
        case "bytes":
            return payload
        case "pickle":
            return pickle.loads(payload)
        case _:
            return serializer.load(payload)


def key_in(letter: Letter) -> Any:
    """Return the key that a letter's message had."""
    pickled = letter.get("key_pickle")
    return None if pickled is None else pickle.loads(base64.b64decode(pickled))


def payload_of(letter: Letter) -> bytes:
    """Return the bytes of a letter's message."""
    return base64.b64decode(letter["payload"])


def described(letter: Letter) -> str:
    """Return what happened to the message of a letter, in words and with the lines of the user's code."""
    key = "" if letter.get("key") is None else f", with the key {letter['key']}"
    origin = f", from {where}" if (where := origin_in_words(letter)) else ""
    return (
        f"Pipeline {letter['pipeline']!r}, step {letter['step']!r} failed for the message {letter['message']}"
        f"{key}{origin}\n{letter['traceback']}"
    )


def origin_in_words(letter: Letter) -> str:
    """Return where a letter's message came from, as far as it is known.

    >>> origin_in_words({"source": "words", "position": 3})
    "message 3 of 'words'"
    >>> origin_in_words({"source": "words", "positions": [3, 7]})
    "one of the messages 3 to 7 of 'words'"
    """
    if "position" in letter:
        return f"message {letter['position']} of {letter['source']!r}"
    if "positions" in letter:
        first, last = letter["positions"]
        return f"one of the messages {first} to {last} of {letter['source']!r}"
    return f"a message of {letter['source']!r}" if "source" in letter else ""


def serializer_bytes(message: Any, serializer: Serializer) -> tuple[bytes, str]:
    """Return a message as bytes, by whatever way there is, and the name of that way."""
    if isinstance(message, bytes):
        return message, BYTES
    try:
        return serializer.dump(message), SERIALIZE if serializer.own else PICKLE
    except Exception:  # noqa: BLE001 - user code; the message is then kept in words
        return safe_repr(message).encode("utf-8", "backslashreplace"), REPR


def _account(error: BaseException) -> dict[str, str]:
    return {
        "error": "".join(traceback.format_exception_only(error)).strip(),
        "traceback": users_traceback(error),
    }


def _pickled(key: Any) -> str | None:
    try:
        return _text_of(pickle.dumps(key, pickle.HIGHEST_PROTOCOL))
    except Exception:  # noqa: BLE001 - a key of the user's
        return None


def _text_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


def safe_repr(thing: Any) -> str:
    """Return `repr(thing)`, or something like it where that fails."""
    try:
        return repr(thing)
    except Exception:  # noqa: BLE001 - user code
        return object.__repr__(thing)


def shorten(text: str, most: int = 500) -> str:
    """Return `text`, cut where it is long.

    >>> shorten("abcdef", 3)
    'abc…'
    """
    return text if len(text) <= most else text[:most] + "…"


def dump_records(records: list[Letter]) -> bytes:
    """Return dead-letter records as the body of a chunk."""
    return json.dumps(records).encode()


def load_records(body: Body) -> list[Letter]:
    """Return the dead-letter records in the body of a chunk."""
    records: list[Letter] = json.loads(bytes(body))
    return records
