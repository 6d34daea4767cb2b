"""Connectors of the original's later generations: their scripts, as they were, beside an application."""

import sys
from collections import Counter

from tools.free_port import free_port

from .harness import APPS, Process, environment, frame


def test_scripts_of_every_generation_beside_one_application(machida, tmp_path):
    ports = [str(free_port()) for _ in range(3)]
    application = "--application-module", "celsius_connectors", "--ports", ",".join(ports)
    output = tmp_path / "output"
    scripts = []

    def start(name, *arguments):
        scripts.append(Process([sys.executable, f"{name}.py", *arguments], environment(), cwd=APPS))
        return scripts[-1]

    def run(name, *arguments):
        script = start(name, *arguments)
        assert script.exit_code() == 0, script.output
        return script.output.split("\n")[:-1]

    def found():
        lines = output.read_text().splitlines(keepends=True) if output.exists() else []
        return Counter(line[:-1] for line in lines if line.endswith("\n"))

    def expected(*numbers):
        return Counter(f"{number} {number * 9 / 5 + 32}" for number in numbers)

    def feed(low, high, *more):
        run("celsius_source_script", *application, "--connector", "feed", "--feed-low", low, "--feed-high", high, *more)

    try:
        sink = start(
            "celsius_sink_script", *application, "--connector", "conversions", "--conversions-file", str(output)
        )
        app = machida(*application, "--resilience-dir", str(tmp_path / "state")).wait_until_ready()
        feed("0", "100")
        # Partition and sequence count, which 0.5.3 did not look at: what comes again is dropped.
        feed("50", "150")
        numbers = list(range(150))
        app.wait_until(lambda: found() == expected(*numbers), "the numbers of 0.5.3")
        # With the time of an event instead, each counts.
        for _ in range(2):
            feed("0", "10", "--feed-event_time", "1234567890123")
        numbers += [*range(10)] * 2
        app.wait_until(lambda: found() == expected(*numbers), "the numbers of 0.6")

        names = ["one", "two"]
        files = {name: tmp_path / name for name in names}
        files["one"].write_bytes(b"".join(frame(str(number)) for number in range(1000, 1100)))
        files["two"].write_bytes(b"".join(frame(str(number)) for number in range(2000, 2010)))
        said = run("celsius_files_script", ports[1], *map(str, files.values()))
        sizes = {name: path.stat().st_size for name, path in files.items()}
        for name, path in files.items():
            of_file = [line for line in said if f" {path} " in line]
            assert of_file[0] == f"opened {path} 0"
            assert of_file[-2:] == [f"acked {path} {sizes[name]}", f"closed {path} {sizes[name]}"]
        numbers += [*range(1000, 1100), *range(2000, 2010)]
        app.wait_until(lambda: found() == expected(*numbers), "the numbers of the files")
        # A script that starts again continues where the application is.
        with files["two"].open("ab") as file:
            file.write(b"".join(frame(str(number)) for number in range(2010, 2020)))
        said = run("celsius_files_script", ports[1], *map(str, files.values()))
        assert said[:2] == [f"opened {files[name]} {sizes[name]}" for name in names]
        numbers += [*range(2010, 2020)]
        app.wait_until(lambda: found() == expected(*numbers), "the rest")
        app.stop()
        assert found() == expected(*numbers)
        assert sink.is_running
    finally:
        for script in scripts:
            script.clean_up()
