"""Appends what comes to a file: a sink script as of 0.5.3."""

import wallaroo.experimental

connector = wallaroo.experimental.SinkConnector(required_params=["file"])
connector.listen()
with open(connector.params.file, "a") as file:
    while True:
        celsius, fahrenheit = connector.read()
        file.write("%d %s\n" % (celsius, fahrenheit))
        file.flush()
