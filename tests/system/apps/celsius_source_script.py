"""Sends numbers: a source script as of 0.5.3, and with `--feed-event_time` as of 0.6."""

import wallaroo.experimental

connector = wallaroo.experimental.SourceConnector(required_params=["low", "high"], optional_params=["event_time"])
connector.connect()
for number in range(int(connector.params.low), int(connector.params.high)):
    if connector.params.event_time:
        connector.write(number, int(connector.params.event_time))
    else:
        connector.write(number, partition="numbers", sequence=number)
