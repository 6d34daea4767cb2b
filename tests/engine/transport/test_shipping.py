"""How applications reach other processes."""

import os
import stat
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from wallaroo.engine.transport.shipping import PlanRef, import_path, pack, picklable_mistakes, unpack
from wallaroo.errors import WallarooError
from wallaroo.topology.model import Application

SOURCES = str(Path(__import__("wallaroo").__file__).parent.parent)


def run(program, *arguments, folder, path=()):
    """Run a program in a process that can import Wallaroo, and `path`, and nothing else of ours."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, path), SOURCES])}
    command = [sys.executable, "-c", program, *map(str, arguments)]
    answer = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


PACK = """
import sys
from pathlib import Path
import shapes
from wallaroo.engine.transport.shipping import pack
factor = 2
def local(number):
    return number * factor
Path(sys.argv[1]).write_bytes(pack({"square": shapes.Square(3), "area": shapes.area, "local": local}))
"""
UNPACK = """
import sys
from pathlib import Path
from wallaroo.engine.transport.shipping import unpack
parcel = unpack(Path(sys.argv[1]).read_bytes())
print(parcel["area"](parcel["square"]), parcel["local"](21), type(parcel["square"]).__module__)
"""


def test_a_parcel_brings_the_way_to_its_modules(tmp_path):
    code, elsewhere = tmp_path / "code", tmp_path / "else\nwhere"
    code.mkdir()
    elsewhere.mkdir()
    (code / "shapes.py").write_text(
        "class Square:\n"
        "    def __init__(self, side):\n"
        "        self.side = side\n"
        "def area(square):\n"
        "    return square.side ** 2\n"
    )
    # The folder is only the current one there: the parcel has to name it in full.
    run(PACK, tmp_path / "parcel", folder=code, path=[elsewhere])
    assert run(UNPACK, tmp_path / "parcel", folder=elsewhere) == "9 42 shapes\n"


def test_import_paths_are_absolute(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", "relative", *sys.path])
    assert import_path()[:2] == [os.getcwd(), os.path.join(os.getcwd(), "relative")]  # noqa: PTH109, PTH118


def test_a_parcel_adds_nothing_twice(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(map(os.path.abspath, sys.path)) | set(sys.path)
    for _ in range(2):
        unpack(pack(1))
    assert set(sys.path) == before


def test_a_parcel_brings_the_order_in_which_modules_are_looked_for(monkeypatch):
    monkeypatch.setattr(sys, "path", ["/script", "/standard", "/application", "/installed", "/last"])
    parcel = pack(1)
    monkeypatch.setattr(sys, "path", ["/spark", "/standard", "/installed"])
    unpack(parcel)
    assert sys.path == ["/spark", "/script", "/standard", "/application", "/installed", "/last"]


class TestPlanRef:
    def test_where_there_is_no_file_the_reference_brings_the_plan_along(self, make, tmp_path):
        ref = PlanRef.write(make.plan(make.pipeline("p"), run_id="7"), tmp_path / "plan").with_parcel()
        (tmp_path / "plan").unlink()
        assert ref.load().run_id == "7"

    def test_round_trip(self, make, tmp_path):
        ref = PlanRef.write(make.plan(make.pipeline("p"), run_id="7"), tmp_path / "plan")
        plan = ref.load()
        assert (plan.run_id, plan.application.name, plan.application.pipelines[0].name) == ("7", "test", "p")
        assert plan.after(plan.application.pipelines[0], 0) is None
        assert stat.S_IMODE((tmp_path / "plan").stat().st_mode) == 0o600
        assert ref.load() is plan

    def test_a_plan_of_another_run_is_refused(self, make, tmp_path):
        ref = PlanRef.write(make.plan(make.pipeline("p"), run_id="7"), tmp_path / "plan")
        PlanRef.write(make.plan(make.pipeline("p"), run_id="8"), tmp_path / "plan")
        with pytest.raises(WallarooError, match="another run has overwritten it"):
            ref.load()

    def test_what_cannot_be_pickled_is_named(self, make, tmp_path):
        lock = threading.Lock()

        def locked(data, state=None):
            with lock:
                return data, True

        def fine(data):
            return data

        wrong = {
            "the decoder": make.pipeline("lines", make.step(fine), decode=locked),
            "step 'locked'": make.pipeline("lines", make.step(fine), make.step(locked)),
            "an encoder": make.pipeline("lines", make.step(fine), encoders=[fine, locked]),
        }
        stateful = make.pipeline("lines", make.step(fine), make.state_step(locked))
        for label, pipeline in [*wrong.items(), ("step 'locked'", stateful)]:
            plan = make.plan(make.pipeline("good", make.step(fine)), pipeline)
            with pytest.raises(WallarooError) as caught:
                PlanRef.write(plan, tmp_path / "plan")
            text = str(caught.value)
            assert text.startswith(
                f"Pipeline 'lines': {label} cannot be sent to the workers (cannot pickle '_thread.lock'"
            )
            assert "Create what cannot be pickled" in text
            assert ("pass the class instead of an instance" in text) == label.startswith("step")
            assert not (tmp_path / "plan").exists()

    def test_everything_that_cannot_be_pickled_is_listed(self, make):
        lock = threading.Lock()

        def locked(data):
            with lock:
                return data

        good, bad = make.pipeline("good"), make.pipeline("bad", make.step(locked), decode=locked)
        assert list(picklable_mistakes(make.plan(good).application)) == []
        texts = list(picklable_mistakes(make.plan(good, bad).application))
        assert [text.partition(" cannot")[0] for text in texts] == [
            "pipeline 'bad': the decoder",
            "pipeline 'bad': step 'locked'",
        ]

    def test_what_was_declared_and_is_no_part_travels_too(self, make):
        application = Application("test", (make.pipeline("p"),), [("to_stateful", threading.Lock())])
        assert list(picklable_mistakes(application)) == [
            "the application cannot be sent to the workers (cannot pickle '_thread.lock' object)"
        ]

    def test_other_parts_that_cannot_be_pickled(self, make, tmp_path):
        lock = threading.Lock()
        plan = make.plan(make.pipeline("p"), serialize=lambda data: (lock, data), deserialize=bytes)
        with pytest.raises(WallarooError, match="The application cannot be sent to the workers: cannot pickle"):
            PlanRef.write(plan, tmp_path / "plan")


BUNDLE = """
import sys
from pathlib import Path
import {modules}
from wallaroo.engine.transport.shipping import bundle_modules
print(bundle_modules(Path(sys.argv[1])))
"""


class TestBundle:
    @staticmethod
    def bundle(tmp_path, modules, path):
        answer = run(BUNDLE.format(modules=modules), tmp_path / "bundle.zip", folder=tmp_path, path=path)
        if answer == "None\n":
            return None
        assert answer == f"{tmp_path / 'bundle.zip'}\n"
        with zipfile.ZipFile(tmp_path / "bundle.zip") as archive:
            return {name: archive.read(name).decode() for name in archive.namelist()}

    @staticmethod
    def write(folder, *names):
        for name in names:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"# {name}\n")

    def test_imported_modules_and_whole_packages(self, tmp_path):
        self.write(tmp_path / "code", "app.py", "unused.py", "pkg/__init__.py", "pkg/late.py", "pkg/sub/deep.py")
        self.write(tmp_path / "code", "pkg/data.txt", "unused_pkg/__init__.py")
        found = self.bundle(tmp_path, "app, pkg", [tmp_path / "code"])
        assert found == {
            name: f"# {name}\n" for name in ("app.py", "pkg/__init__.py", "pkg/late.py", "pkg/sub/deep.py")
        }

    def test_installed_packages_stay_where_they_are(self, tmp_path):
        assert self.bundle(tmp_path, "click, cloudpickle, json", []) is None

    @pytest.mark.parametrize("folder", ["site-packages", "dist-packages"])
    def test_packages_installed_for_one_user_stay_where_they_are(self, tmp_path, folder):
        installed = tmp_path / ".local" / "lib" / "python3" / folder
        self.write(installed, "library/__init__.py", "single.py")
        self.write(tmp_path / "code", "app.py")
        assert list(self.bundle(tmp_path, "app, library, single", [tmp_path / "code", installed])) == ["app.py"]

    def test_an_environment_inside_the_project_is_not_part_of_it(self, tmp_path):
        installed = tmp_path / ".venv" / "lib" / "python3" / "site-packages"
        self.write(installed, "library/__init__.py", "library/more.py")
        self.write(tmp_path, "app.py")
        assert list(self.bundle(tmp_path, "app, library", [tmp_path, installed])) == ["app.py"]

    def test_modules_keep_the_place_they_were_imported_from(self, tmp_path):
        self.write(tmp_path, "app.py", "src/tools/__init__.py", "src/tools/one.py", "src/alone.py")
        found = self.bundle(tmp_path, "app, tools.one, alone", [tmp_path, tmp_path / "src"])
        assert set(found) == {"app.py", "alone.py", "tools/__init__.py", "tools/one.py"}
