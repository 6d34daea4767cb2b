"""A dead letter: a message that user code could not handle, as a record with all known facts.

The record has everything that is needed to replay the message at the step that failed: the step, the message, and its
key.
"""

from __future__ import annotations

import base64
import json
import pickle
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wallaroo.class_changes import loads
from wallaroo.connectors.output_block import Body
from wallaroo.engine.transport.serializer import Serializer
from wallaroo.errors import users_traceback
from wallaroo.topology.model import Pipeline, SinkGroup, Target
from wallaroo.topology.step_identity import CHOOSE, ENCODER, STEP, path_of, spot_of

Letter = dict[str, Any]

DECODED = "decoder"
"""The step and the place of what the decoder fails on."""

BYTES = "bytes"
"""The message is bytes, stored unchanged."""
PICKLE = "pickle"
SERIALIZE = "serialize"
"""The message is serialized by the application's own `serialize`."""
REPR = "repr"
"""The message could not be serialized: only its `repr` is stored."""
PACKED = "packed"
"""Several messages that cannot be unpacked, in their packed form."""

REPLAYABLE = frozenset({BYTES, PICKLE, SERIALIZE})


@dataclass(frozen=True)
class Place:
    """Where in the application something failed."""

    pipeline: str
    step: str
    place: str
    """`decoder`, `step 3`, `choose 1` or `encoder 1`, counted from one, as the names of steps need not be unique."""
    keyed: bool = False
    """Whether messages have a key here, which the next state may need."""

    path: Mapping[str, Any] | None = None
    """What finds the place again in a changed program (`topology.step_identity`); None for the decoder."""

    @classmethod
    def of_decoder(cls, pipeline: Pipeline) -> Place:
        """Return the place of the pipeline's decoder."""
        return cls(pipeline.name, DECODED, DECODED)

    @classmethod
    def of_step(cls, pipeline: Pipeline, index: int) -> Place:
        """Return the place of a step."""
        return cls._of(pipeline, STEP, index, pipeline.steps[index].name, index)

    @classmethod
    def of_chooser(cls, pipeline: Pipeline, group: SinkGroup) -> Place:
        """Return the place of the function that chooses among a group of sinks."""
        return cls._of(pipeline, CHOOSE, pipeline.choosers.index(group), CHOOSE, group)

    @classmethod
    def of_encoder(cls, pipeline: Pipeline, number: int) -> Place:
        """Return the place of the encoder of a sink, counted from zero."""
        return cls._of(pipeline, ENCODER, number, ENCODER, pipeline.group_of(number))

    @classmethod
    def _of(cls, pipeline: Pipeline, kind: str, number: int, step: str, target: Target) -> Place:
        path = path_of(pipeline, spot_of(pipeline, kind, number))
        return cls(pipeline.name, step, f"{kind} {number + 1}", pipeline.is_keyed(target), path)

    @property
    def label(self) -> str:
        """Return a description of the place, in at most a hundred bytes and one line."""
        return f"{self.place} ({self.step!r} of {self.pipeline!r})".encode()[:100].decode(errors="ignore")


def make_letter(  # noqa: PLR0913 - all fields of a record
    place: Place,
    message: Any,
    error: BaseException,
    *,
    key: Any,
    origin: dict[str, Any],
    serializer: Serializer,
    encoding: str | None = None,
) -> Letter:
    """Return the record of a message for which user code failed; `encoding` if `message` is not a single message."""
    payload, found = serializer_bytes(message, serializer)
    return {
        "time": time.time(),
        "pipeline": place.pipeline,
        "step": place.step,
        "place": place.place,
        "path": place.path,
        "key": None if key is None else shorten(safe_repr(key)),
        "key_pickle": None if key is None else _pickled(key),
        **origin,
        "message": shorten(safe_repr(message)),
        "payload": _text_of(payload),
        "encoding": encoding or found,
        **_account(error),
    }


def failed_again(letter: Letter, error: BaseException, origin: dict[str, Any]) -> Letter:
    """Return the record of a letter that could not be replayed at its step."""
    kept = ("pipeline", "step", "place", "path", "key", "key_pickle", "message", "payload", "encoding")
    return {"time": time.time(), **{name: letter.get(name) for name in kept}, **origin, **_account(error)}


def message_in(letter: Letter, serializer: Serializer) -> Any:
    """Return the message of a letter, as it was passed to the step."""
    payload = payload_of(letter)
    match letter["encoding"]:
        case "bytes":
            return payload
        case "pickle":
            return loads(payload)
        case _:
            return serializer.load(payload)


def key_in(letter: Letter) -> Any:
    """Return the key of a letter's message."""
    pickled = letter.get("key_pickle")
    return None if pickled is None else loads(base64.b64decode(pickled))


def payload_of(letter: Letter) -> bytes:
    """Return the bytes of a letter's message."""
    return base64.b64decode(letter["payload"])


def described(letter: Letter) -> str:
    """Return a description of what happened to the message of a letter, with the user's part of the traceback."""
    key = "" if letter.get("key") is None else f", with the key {letter['key']}"
    origin = f", from {where}" if (where := origin_in_words(letter)) else ""
    return (
        f"Pipeline {letter['pipeline']!r}, step {letter['step']!r} failed for the message {letter['message']}"
        f"{key}{origin}\n{letter['traceback']}"
    )


def origin_in_words(letter: Letter) -> str:
    """Return where a letter's message came from, as far as that is known.

    >>> origin_in_words({"source": "words", "position": 3})
    "message 3 of 'words'"
    >>> origin_in_words({"source": "words", "positions": [3, 7]})
    "one of the messages 3 to 7 of 'words'"
    >>> origin_in_words({"source": "words", "partition": 2, "position": 3})
    "message 3 of partition 2 of 'words'"
    >>> origin_in_words({"source": "words", "partitions": [{"partition": 2, "positions": [3, 7]}]})
    "one of the messages 3 to 7 of partition 2 of 'words'"
    """
    if "source" not in letter:
        return ""
    places = letter.get("partitions", [letter])
    return f"{' or '.join(map(_place_in_words, places))} of {letter['source']!r}"


def _place_in_words(letter: Mapping[str, Any]) -> str:
    partition = f" of partition {letter['partition']}" if "partition" in letter else ""
    if "position" in letter:
        return f"message {letter['position']}{partition}"
    if "positions" in letter:
        first, last = letter["positions"]
        return f"one of the messages {first} to {last}{partition}"
    return "a message"


def serializer_bytes(message: Any, serializer: Serializer) -> tuple[bytes, str]:
    """Return a message as bytes, by the best available encoding, and the name of that encoding."""
    if isinstance(message, bytes):
        return message, BYTES
    try:
        return serializer.dump(message), SERIALIZE if serializer.own else PICKLE
    except Exception:  # noqa: BLE001 - user code; the message is then stored as text
        return safe_repr(message).encode("utf-8", "backslashreplace"), REPR


def _account(error: BaseException) -> dict[str, str]:
    return {
        "error": "".join(traceback.format_exception_only(error)).strip(),
        "traceback": users_traceback(error),
    }


def _pickled(key: Any) -> str | None:
    try:
        return _text_of(pickle.dumps(key, pickle.HIGHEST_PROTOCOL))
    except Exception:  # noqa: BLE001 - user code
        return None


def _text_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


def safe_repr(thing: Any) -> str:
    """Return `repr(thing)`, or the default representation if that fails."""
    try:
        return repr(thing)
    except Exception:  # noqa: BLE001 - user code
        return object.__repr__(thing)


def shorten(text: str, most: int = 500) -> str:
    """Return `text`, truncated if it is long.

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
