"""`wallaroo check` on programs in files, as a process."""

from pathlib import Path

import pytest
from tests.processes import WALLAROO, environment, run_python, run_to_end

import wallaroo

SOURCES = str(Path(wallaroo.__file__).parents[1])
APPS = Path(__file__).parents[2] / "system" / "apps"

START = """
import threading
from collections import defaultdict
import wallaroo

@wallaroo.decoder
def decode(bs):
    return bs.decode()

@wallaroo.encoder
def encode(data):
    return data

@wallaroo.computation("copy")
def copy(data):
    return data

@wallaroo.state_computation("count")
def count(data, state):
    return data, True

@wallaroo.partition
def key(data):
    return data

class Locked:
    def __init__(self):
        self.lock = threading.Lock()
    def name(self):
        return "locked"
    def compute(self, data):
        return data

class LockedEncoder(Locked):
    def encode(self, data):
        return data

class Lambdas:
    def __init__(self):
        self.counts = defaultdict(lambda: 0)

class Broken:
    def __init__(self):
        self.lines = open("there is no such file")

def source(address):
    return wallaroo.TCPSourceConfig(*address, decode)

def sink(address, encoder=encode):
    return wallaroo.TCPSinkConfig(*address, encoder)

def application_setup(args):
    ab = wallaroo.ApplicationBuilder("Test")
"""
ONE_OF_EACH = """
    into, out = wallaroo.tcp_parse_input_addrs(args)[0], wallaroo.tcp_parse_output_addrs(args)[0]
"""
COPY = ONE_OF_EACH + "    return ab.new_pipeline('p', source(into)).to(copy).to_sink(sink(out)).build()\n"


@pytest.fixture
def check(tmp_path):
    """Write a program and check it; return the exit code, the output and the errors."""

    def run(program, *arguments, folder=tmp_path, module="app", **more):
        if program is not None:
            (tmp_path / "app.py").write_text(START + program)
        variables = environment(**{"PYTHONDONTWRITEBYTECODE": "1", **more})
        command = [*WALLAROO, "check", module, *arguments]
        done = run_to_end(*command, cwd=folder, env=variables, encoding="utf-8", code=None)
        return done.returncode, done.stdout, done.stderr

    return run


def test_an_application_without_mistakes_is_drawn(check):
    code, out, err = check(COPY)
    assert (code, err) == (0, "The addresses of --in and --out are made up; give your own to see them.\n")
    assert out == (
        "Test\n"
        "\n"
        "  p\n"
        "  ╭────────────────────╮   ╭──────╮   ╭────────────────────╮\n"
        "  │ TCP 127.0.0.1:7010 ├──▶│ copy ├──▶│ TCP 127.0.0.1:7002 │\n"
        "  │ decoded by decode  │   ╰──────╯   │ encoded by encode  │\n"
        "  ╰────────────────────╯              ╰────────────────────╯\n"
        "\n"
        "No mistakes.\n"
    )


def test_the_module_may_be_given_as_to_machida(check):
    code, out, err = check(COPY, "app", "--out", "127.0.0.1:2", module="--application-module")
    assert (code, err) == (0, "The addresses of --in are made up; give your own to see them.\n")
    assert "127.0.0.1:2 " in out


def test_addresses_of_the_program_itself_are_not_made_up(check):
    program = "    ab.new_pipeline('p', source(('127.0.0.1', 5555))).to(copy).to_sink(sink(('127.0.0.1', 5556)))\n"
    code, out, err = check(program + "    return ab.build()\n")
    assert (code, err) == (0, "")
    assert "127.0.0.1:5555" in out


@pytest.mark.parametrize(
    ("arguments", "made_up"),
    [
        (["--in", "127.0.0.1:1", "--out", "127.0.0.1:2"], ""),
        (["--in=127.0.0.1:1", "-o", "127.0.0.1:2"], ""),
        (["-i127.0.0.1:1"], "--out"),
        (["--out=127.0.0.1:2"], "--in"),
        (["--input", "mine", "--only"], "--in and --out"),
    ],
)
def test_addresses_are_made_up_only_where_they_are_missing(check, arguments, made_up):
    code, out, err = check(COPY, *arguments)
    assert code == 0, err
    assert err == (f"The addresses of {made_up} are made up; give your own to see them.\n" if made_up else "")
    assert ("127.0.0.1:7010" in out) == ("--in" in made_up)
    assert ("127.0.0.1:1 " in out) == ("--in" not in made_up)
    assert ("127.0.0.1:7002" in out) == ("--out" in made_up)
    assert ("127.0.0.1:2 " in out) == ("--out" not in made_up)


def test_nothing_is_left_in_the_folder_of_the_application(check, tmp_path):
    code, _, err = check(COPY, PYTHONDONTWRITEBYTECODE="")
    assert code == 0, err
    assert [path.name for path in tmp_path.iterdir()] == ["app.py"]


def test_arguments_reach_the_application(check):
    code, out, err = check("    return wallaroo.ApplicationBuilder(args[1]).build()\n", "--title", "Given")
    assert (code, out) == (1, "")
    assert err.startswith("Error: The application 'Given' has ")
    assert "\n  - there is no pipeline" in err


def test_an_application_that_unpacks_exactly_its_addresses(check):
    code, out, err = check(None, folder=APPS, module="market")
    assert code == 0, err
    assert [port for port in range(7000, 7020) if f"127.0.0.1:{port} " in out] == [
        *range(7002, 7006),
        *range(7010, 7014),
    ]
    assert "◆ state 'symbols' — shared by 'Prices' (update price) and 'Orders' (check order)\n\nNo mistakes.\n" in out


def test_an_application_that_takes_any_number_of_addresses_gets_one_of_each(check):
    code, out, _ = check("""
    ab.new_pipeline("p", source(wallaroo.tcp_parse_input_addrs(args)[0]))
    return ab.to_sinks([sink(each) for each in wallaroo.tcp_parse_output_addrs(args)]).build()
""")
    assert (code, out.count("encoded by")) == (0, 1)


def test_a_failure_that_the_addresses_have_nothing_to_do_with(check):
    code, out, err = check("""
    one, other = wallaroo.tcp_parse_input_addrs(args)
    third = wallaroo.tcp_parse_output_addrs(args)[2]
    int("seven")
""")
    assert (code, out) == (1, "")
    assert "ValueError: invalid literal for int() with base 10: 'seven'\n" in err
    assert 'app.py", line' in err
    assert "unpack" not in err
    assert err.endswith(
        "The addresses of --in and --out were made up. If the application needs others, give them as for machida.\n"
    )


def test_too_few_given_addresses(check):
    program = "    one, other = wallaroo.tcp_parse_input_addrs(args)\n"
    code, _, err = check(program, "--in", "127.0.0.1:1", "--out", "127.0.0.1:2")
    assert code == 1
    assert err.endswith("ValueError: not enough values to unpack (expected 2, got 1)\n")


def test_every_mistake_of_the_builder_is_listed(check):
    code, out, err = check(
        ONE_OF_EACH
        + """
    ab.new_pipeline("p", source(into)).to_stateful(count, dict, "a").to_stateful(count, dict, "b").to_sink(sink(out))
    ab.new_pipeline("q", source(into)).to(len).to_stateful(count, dict, "b").to_stateful(count, dict, "a")
    return ab.build()
"""
    )
    assert (code, out) == (1, "")
    assert err.startswith("Error: The application 'Test' has 3 mistakes:\n  - pipeline 'q', step 1 (to len): ")
    assert "\n  - the pipelines 'p' and 'q' both listen on 127.0.0.1:7010" in err
    assert "\n  - the pipelines visit shared states in different orders: " in err
    assert "Traceback" not in err


OLD_DECODER = """
class OldDecoder:
    def header_length(self):
        return 4
    def payload_length(self, bs):
        return 4
    def decode(self, bs):
        return bs[:3] == "BUY"
"""


def test_a_comparison_of_bytes_with_text_in_a_decoder_is_a_hint_and_no_mistake(check, tmp_path):
    code, out, err = check(COPY + OLD_DECODER)
    line = (tmp_path / "app.py").read_text().splitlines().index('        return bs[:3] == "BUY"') + 1
    assert code == 0
    assert out.endswith("No mistakes.\n")
    assert err.startswith(f"Hint: app.py, line {line}: `bs[:3] == 'BUY'` is never true: bytes do not equal text")
    assert "Hint:" not in check(COPY)[2]


def test_parts_need_not_be_picklable(check):
    code, out, err = check(
        ONE_OF_EACH
        + """
    return ab.new_pipeline("p", source(into)).to(Locked()).to(copy).to_sink(sink(out, LockedEncoder())).build()
"""
    )
    assert code == 0, err
    assert "│ locked ├──▶│ copy ├──▶│" in out


def test_states_that_cannot_be_made_or_saved(check):
    program = (
        ONE_OF_EACH
        + """
    ab.new_pipeline("p", source(into)).to_stateful(count, Lambdas, "lambdas")
    return ab.to_state_partition(count, Broken, "broken", key).to_sink(sink(out)).build()
"""
    )
    code, _, err = check(program)
    assert code == 1
    assert "has 2 mistakes:\n  - the state 'lambdas' cannot be saved (" in err
    assert "no lambda (write a function of the module instead)" in err
    assert "\n  - the state 'broken' cannot be made: FileNotFoundError: " in err


def test_states_of_an_application_with_its_own_serialize_are_not_pickled(check):
    program = ONE_OF_EACH + "    return ab.new_pipeline('p', source(into)).to_stateful(count, Lambdas, 's').build()\n"
    assert check(program)[0] == 1
    assert check(program + "\ndef serialize(o):\n    return b''\n\ndef deserialize(b):\n    return None\n")[0] == 0
    assert check(program + "\nfrom wallaroo import serialize, deserialize\n")[0] == 1


def test_modules_that_cannot_be_used(check, tmp_path):
    assert check(None, module="app.py")[2] == (
        "Error: No module named 'app.py' in the current folder or PYTHONPATH. Leave out the ending: app\n"
    )
    (tmp_path / "empty.py").touch()
    code, _, err = check(None, module="empty")
    assert (code, "has no function application_setup(args)" in err) == (1, True)


def test_a_terminal_without_unicode(check):
    code, out, err = check(COPY, PYTHONIOENCODING="ascii")
    assert code == 0, err
    assert "  | TCP 127.0.0.1:7010 +-->| copy +-->| TCP 127.0.0.1:7002 |\n" in out


def test_a_narrow_terminal(check):
    _, out, _ = check(COPY, COLUMNS="50")
    assert max(map(len, out.splitlines())) == 60


def test_spark_is_not_loaded(tmp_path):
    (tmp_path / "app.py").write_text(START + COPY)
    program = (
        "import sys; from wallaroo.cli.wallaroo import main; main(['check', 'app'], standalone_mode=False);"
        "print({'rich', 'pyspark', 'pyarrow', 'py4j'} & set(sys.modules))"
    )
    done = run_python("-c", program, cwd=tmp_path, env=environment())
    assert done.stdout.endswith("No mistakes.\nset()\n")
