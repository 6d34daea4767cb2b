"""What a run logs as JSON, and where it keeps its state by default."""

import json
import re

from .harness import READY, send


def test_every_line_is_an_object_and_the_file_has_them_all(machida, receiver, tmp_path):
    sink = receiver()
    command = ["--application-module", "word_count", "--in", "127.0.0.1:0", "--out", sink.address, "--ponynopin"]
    command += ["--log-format", "json", "--log-file", tmp_path / "log"]
    run = machida(*command, XDG_STATE_HOME=str(tmp_path / "states"))
    run.wait_until(lambda: f'"message": "{READY}"' in run.output, "being ready")
    address = re.search(r"listening (\S+):(\d+) for 'Split and Count'", run.output)
    send((address[1], int(address[2])), ["hello", ""])
    run.wait_until(lambda: sink.size >= len("hello => 1\n") and "string index out of range" in run.output, "both")
    run.stop()

    lines = [json.loads(line) for line in run.output.splitlines()]
    assert all(set(line) == {"time", "level", "message"} for line in lines)
    told = {line["message"]: line["level"] for line in lines}
    home = tmp_path / "states" / "wallaroo" / "word-count-application"
    assert told[f"state in {home}"] == told[READY] == "info"
    assert told["accepted --ponynopin: no effect on Spark"] == "info"
    assert told["Stopped: 1 message sent, 1 dead letter in this run."] == "info"
    (failure,) = [text for text in told if "string index out of range" in text]
    assert told[failure] == "warning"
    kept = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    # The two streams are not in order with each other.
    assert sorted(kept, key=str) == sorted(lines, key=str)

    refused = machida(*command, "--resilence-dir", "x")
    assert refused.exit_code() == 2
    (line,) = map(json.loads, refused.output.splitlines())
    assert (line["level"], line["message"].partition(":")[0]) == ("error", "no such option --resilence-dir")
