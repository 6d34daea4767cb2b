"""The word count: its text, both programs, the demo's own checks, and the demo as a whole."""

import importlib.util
import os
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest
from tests.processes import run_python

EXAMPLES = Path(__file__).parents[2] / "examples"
CLASSES = EXAMPLES / "word_count"
DECORATORS = EXAMPLES / "word_count_decorators"
ARGUMENTS = ["--in", "127.0.0.1:7010", "--out", "127.0.0.1:7002"]


def load(path):
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


demo = load(CLASSES / "demo.py")


def outputs_of(program, messages):
    """Run a program's pipeline in a plain loop and return what it would send."""
    application = load(program / "word_count.py").application_setup(ARGUMENTS)
    [pipeline] = application.pipelines
    split, count = pipeline.steps
    compute_multi, compute, key_of = split.bind(), count.bind(), count.bind_partition()
    make, states, sent = count.state.make(), {}, []
    for message in messages:
        for word in compute_multi(pipeline.source.decoder.decode(message)):
            key = key_of(word)
            assert key in count.state.keys
            output, save = compute(word, states.setdefault(key, make()))
            assert save is True
            sent.append(pipeline.sinks[0].encoder.encode(output))
    return sent


@pytest.mark.parametrize("program", [CLASSES, DECORATORS])
def test_every_word_is_counted(program):
    messages = [b'"Why, hello!" world', b"", b"Hello  1st \xc3\xa9clair -- don't\nhello", b"..."]
    assert b"".join(outputs_of(program, messages)).decode() == (
        "why => 1\nhello => 1\nworld => 1\nhello => 2\n1st => 1\néclair => 1\ndon't => 1\nhello => 3\n"
    )


@pytest.mark.parametrize("program", [CLASSES, DECORATORS])
def test_the_programs_count_as_the_plain_loop_does(program, tmp_path):
    lines = (CLASSES / "text.txt").read_bytes().splitlines()[:5000]
    received = tmp_path / "counts"
    received.write_bytes(b"".join(outputs_of(program, lines)))
    demo.compare(received, demo.count_words(line.decode() for line in lines))


def test_both_programs_declare_the_same_application():
    one, other = (load(folder / "word_count.py").application_setup(ARGUMENTS) for folder in (CLASSES, DECORATORS))
    assert one.name == other.name == "Word Count Application"
    for application in (one, other):
        [pipeline] = application.pipelines
        assert pipeline.name == "Split and Count"
        assert [step.name for step in pipeline.steps] == ["split into words", "Count Word"]
        assert pipeline.steps[1].state.name == "word totals"


def test_the_text_is_what_its_script_writes():
    written = run_python("make_text.py", cwd=CLASSES, text=False).stdout
    text = (CLASSES / "text.txt").read_bytes()
    assert text == written
    lines = text.decode("ascii").splitlines()
    assert {len(line.split()) for line in lines} == {8, 9, 10, 11, 12}
    counts = demo.count_words(lines)
    assert counts.total() >= 300_000
    assert len(counts) >= 3000


@pytest.mark.parametrize(
    ("received", "reason"),
    [
        ("a => 1\nb => 1\na => 3\n", r"output 3 is 'a => 3\\n'; expected was a => 2."),
        ("a => 1\n\nb => 1\n", r"output 2 is '\\n'"),
        ("a => 1\nb => 1\n", r"1 words have a wrong count:\n  'a': 1 instead of 2"),
        ("a => 1\na => 2\nb => 1\nc => 1\n", r"'c': 1 instead of 0"),
        ("", "2 words have a wrong count"),
    ],
)
def test_wrong_counts_are_found(tmp_path, received, reason):
    path = tmp_path / "counts"
    path.write_text(received)
    with pytest.raises(demo.Failure, match=reason):
        demo.compare(path, Counter(a=2, b=1))


def test_lines_are_counted_while_the_file_grows(tmp_path):
    path = tmp_path / "counts"
    received = demo.Received(path)
    path.write_bytes(b"a => 1\nb ")
    assert received.count() == 1
    with path.open("ab") as file:
        file.write(b"=> 1\nc => 1\n")
    assert received.count() == 3


def gone(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def child(tmp_path, program):
    return demo.Child("child", [sys.executable, "-u", "-c", program], folder=tmp_path)


def test_a_child_that_dies_is_noticed_while_it_is_waited_for(tmp_path):
    process = child(tmp_path, "print('no luck'); raise SystemExit(3)")
    with pytest.raises(demo.Failure, match="child ended with exit code 3") as caught:
        process.wait_for("^ready$", 60)
    assert caught.value.child.output() == "no luck\n"


def test_a_child_that_must_be_killed_leaves_nothing_running(tmp_path):
    process = child(
        tmp_path,
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "sleeper = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print('sleeper', sleeper.pid)\n"
        "time.sleep(600)\n",
    )
    sleeper = int(process.wait_for(r"^sleeper (\d+)$", 60)[1])
    with pytest.raises(demo.Failure, match="did not stop within"):
        process.stop(seconds=0.2)
    os.kill(sleeper, 0)
    process.kill()
    assert not process.running()
    deadline = time.monotonic() + 60
    while not gone(sleeper):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_child_stops_with_exit_code_0(tmp_path):
    stops = child(tmp_path, "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0));"
                  "print('ready'); signal.pause()")  # fmt: skip
    stops.wait_for("^ready$", 60)
    stops.stop()
    fails = child(tmp_path, "import signal; print('ready'); signal.pause()")
    fails.wait_for("^ready$", 60)
    with pytest.raises(demo.Failure, match="stopped with exit code -15 instead of 0"):
        fails.stop()


def run_demo(*arguments):
    return run_python(CLASSES / "demo.py", *arguments, code=None, timeout=560)


def test_the_demo():
    done = run_demo("--lines", "3000")
    assert done.returncode == 0, done.stdout
    assert done.stderr == ""
    lines = (CLASSES / "text.txt").read_text().splitlines()[:3000]
    counts = demo.count_words(lines)
    table = [line.strip("│").split("│") for line in done.stdout.splitlines() if line.startswith("│")]
    values = {name.strip(): value.strip() for name, value in table}
    assert values["messages in"] == "3,000"
    assert values["counts out"] == f"{counts.total():,}"
    assert values["distinct words"] == f"{len(counts):,}"
    assert list(values)[-10:] == [word for word, _ in counts.most_common(10)]


def test_paths_are_shown_as_they_can_be_typed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert demo.shown_path(tmp_path / ".venv" / "bin" / "activate") == ".venv/bin/activate"
    assert demo.shown_path(tmp_path.parent / "activate") == str(tmp_path.parent / "activate")


def test_the_demo_with_a_program_that_cannot_be_loaded(tmp_path):
    (tmp_path / "word_count.py").write_text("import no_such_module_anywhere\n")
    done = run_demo("--program", tmp_path, "--lines", "10")
    assert done.returncode == 1
    assert "The demo failed: machida ended with exit code 3." in done.stdout
    assert "no_such_module_anywhere" in done.stdout
