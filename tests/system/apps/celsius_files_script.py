"""Sends the messages in files, and prints what happens to their streams: a script of the last generation."""

import sys

from wallaroo.experimental.connectors import FramedFileReader, MultiSourceConnector


class Script(MultiSourceConnector):
    def stream_opened(self, stream):
        print("opened", stream.name, stream.point_of_ref)

    def stream_acked(self, stream):
        print("acked", stream.name, stream.point_of_ref)

    def stream_closed(self, stream):
        print("closed", stream.name, stream.point_of_ref)


port, *files = sys.argv[1:]
script = Script("0.0.1", "cookie", "files", "first", "127.0.0.1", int(port))
script.connect()
for file in files:
    script.add_source(FramedFileReader(file))
script.join()
script.close()
