"""An ingress process with a source for extensions, and what its log has."""

import wallaroo.experimental
from wallaroo.connectors.extension.logged_frames import FrameReader
from wallaroo.ingress.log import LogReader
from wallaroo.ingress.log.cursor import LogCursor


def source(port=0):
    """Return the config of a source whose messages are bytes."""

    # A nested function is sent by value: the child need not be able to import this file.
    @wallaroo.experimental.streaming_message_decoder
    def decode(message):
        return message

    return wallaroo.experimental.SourceExtensionConfig("127.0.0.1", port, decode)


def messages(ingress, name="numbers"):
    """Return all messages in the log."""
    log = LogReader(ingress.log(name))
    first = min((int(path.stem) for path in ingress.log(name).glob("*.blocks")), default=0)
    pieces = FrameReader(LogCursor(ingress.log(name))).read(first, log.end())
    return [message for _, some in pieces for message in some]


def connected(ingress, name="numbers"):
    """Return a script that is connected, and whose messages are bytes."""
    extension = wallaroo.experimental.SourceExtension(bytes)
    extension.connect(*ingress.addresses[name])
    return extension
