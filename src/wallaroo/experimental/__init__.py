"""Sources and sinks as scripts of your own: the extension API.

An application names an address in a config, and a script beside it sends or receives the messages:

>>> import wallaroo.experimental
>>> @wallaroo.experimental.streaming_message_encoder
... def text_encoder(message):
...     return message.encode("utf-8")
>>> @wallaroo.experimental.streaming_message_decoder
... def text_decoder(message):
...     return message.decode("utf-8")
>>> class TextStream:
...     def __init__(self, host, port):
...         self.host = host
...         self.port = int(port)
...     def source(self):
...         return wallaroo.experimental.SourceExtensionConfig(host=self.host, port=self.port, decoder=text_decoder)
...     def extension(self):
...         extension = wallaroo.experimental.SourceExtension(text_encoder)
...         extension.connect(self.host, self.port)
...         return extension
>>> TextStream("127.0.0.1", "7100").source().address
('127.0.0.1', 7100)
"""

from wallaroo.api.connectors import SinkConnectorConfig, SourceConnectorConfig
from wallaroo.connectors.extension.config import SinkExtensionConfig, SourceExtensionConfig
from wallaroo.experimental.codecs import StreamDecoderError, streaming_message_decoder, streaming_message_encoder
from wallaroo.experimental.connector_scripts import SinkConnector, SourceConnector
from wallaroo.experimental.connectors import AtLeastOnceSourceConnector, MultiSourceConnector
from wallaroo.experimental.sink_extension import SinkExtension
from wallaroo.experimental.source_extension import SourceExtension

stream_message_decoder = streaming_message_decoder
"""The later name of `streaming_message_decoder`."""
stream_message_encoder = streaming_message_encoder
"""The later name of `streaming_message_encoder`."""

__all__ = [
    "AtLeastOnceSourceConnector",
    "MultiSourceConnector",
    "SinkConnector",
    "SinkConnectorConfig",
    "SinkExtension",
    "SinkExtensionConfig",
    "SourceConnector",
    "SourceConnectorConfig",
    "SourceExtension",
    "SourceExtensionConfig",
    "StreamDecoderError",
    "stream_message_decoder",
    "stream_message_encoder",
    "streaming_message_decoder",
    "streaming_message_encoder",
]
