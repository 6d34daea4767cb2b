"""How applications get to other processes."""

import importlib
import os
import stat
import sys
import zipfile
from pathlib import Path

import pytest
from tests.processes import run_python

from wallaroo.engine.transport import plan_file
from wallaroo.engine.transport.plan_file import PlanRef
from wallaroo.errors import WallarooError
from wallaroo.topology.fingerprint import describe

from ...programs import program_for  # noqa: TID252 - tests are not installed

SOURCES = str(Path(__import__("wallaroo").__file__).parent.parent)


def run(program, *arguments, folder, path=()):
    """Run a program in a process that can import Wallaroo, and `path`, and nothing else of ours."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, path), SOURCES])}
    return run_python("-c", program, *arguments, cwd=folder, env=environment).stdout


@pytest.fixture
def with_program(tmp_path):
    """Give a plan a program that every process finds."""

    def give(plan):
        plan.program = program_for(plan.application, tmp_path)
        return plan

    return give


class TestPlanRef:
    def test_without_the_file_the_reference_contains_the_plan(self, make, with_program, tmp_path):
        plan = make.plan(make.pipeline("p"), run_id="7")
        ref = PlanRef.write(with_program(plan), tmp_path / "plan").with_parcel()
        (tmp_path / "plan").unlink()
        assert ref.load().run_id == "7"

    def test_round_trip(self, make, with_program, tmp_path):
        plan = make.plan(
            make.pipeline("p", make.step(str.upper), make.state_step(getattr, keys="ab")),
            make.pipeline("q", encoders=[str, str]),
            run_id="7",
            inputs={"p": {"kind": "tcp", "place": {"port": 7010}, "log": "log/of p"}},
            sources=["q", "p"],
        )
        ref = PlanRef.write(with_program(plan), tmp_path / "plan")
        assert stat.S_IMODE((tmp_path / "plan").stat().st_mode) == 0o600
        found = ref.load()
        assert ref.load() is found
        assert describe(found.application) == describe(plan.application)
        assert found.layout == plan.layout
        for name in ("run_id", "inputs", "sources"):
            assert getattr(found, name) == getattr(plan, name)
        assert [type(route) for route in found.routes] == [type(route) for route in plan.routes]

    def test_a_plan_of_another_run_is_refused(self, make, with_program, tmp_path):
        ref = PlanRef.write(with_program(make.plan(make.pipeline("p"), run_id="7")), tmp_path / "plan")
        PlanRef.write(with_program(make.plan(make.pipeline("p"), run_id="8")), tmp_path / "plan")
        with pytest.raises(WallarooError, match="another run has overwritten it"):
            ref.load()


BUNDLE = """
import sys
from pathlib import Path
sys.path += {last}
import {modules}
from wallaroo.engine.transport.plan_file import bundle_modules
print(bundle_modules(Path(sys.argv[1]), "{program}", lambda said: print(said, file=sys.stderr)))
"""


class TestBundle:
    @staticmethod
    def bundle(tmp_path, modules, path, last=()):
        program = modules.partition(",")[0]
        answer = run(
            BUNDLE.format(modules=modules, program=program, last=[*map(str, last)]),
            tmp_path / "bundle.zip",
            folder=tmp_path,
            path=path,
        )
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
        self.write(tmp_path / "code", "app.py")
        self.write(tmp_path / "lib", "unused.py", "pkg/__init__.py", "pkg/late.py", "pkg/sub/deep.py")
        self.write(tmp_path / "lib", "pkg/data.txt", "unused_pkg/__init__.py")
        found = self.bundle(tmp_path, "app, pkg", [tmp_path / "code", tmp_path / "lib"])
        assert found == {
            name: f"# {name}\n" for name in ("app.py", "pkg/__init__.py", "pkg/late.py", "pkg/sub/deep.py")
        }

    def test_what_a_step_may_import_later_is_there(self, tmp_path):
        code = tmp_path / "code"
        self.write(code, "app.py", "late.py", "later/__init__.py", "later/on.py", "no-module.py", "data/text.txt")
        # These are never imported from here: not in machida, and so not by a worker.
        self.write(tmp_path / "first", "elsewhere.py")
        (code / "later" / ".#on.py").symlink_to("somebody@somewhere")
        self.write(code, "json.py", "sys.py", "elsewhere.py", "click/__init__.py")
        found = self.bundle(tmp_path, "app", [tmp_path / "first"], last=[code])
        assert set(found) == {"app.py", "late.py", "later/__init__.py", "later/on.py"}

    def test_what_is_too_much_is_left_out_and_reported(self, tmp_path, monkeypatch):
        code = tmp_path / "code"
        self.write(code, "started.py", "late.py", "wide/__init__.py", "wide/used.py")
        self.write(code, *(f"many/{name}.py" for name in ("__init__", "a", "b")))
        (code / "large.py").write_bytes(b"#" * 100)
        monkeypatch.syspath_prepend(code)
        monkeypatch.setattr(plan_file, "_MAX_BYTES", 99)
        monkeypatch.setattr(plan_file, "_MAX_FILES", 3)
        monkeypatch.setattr(plan_file, "import_path", lambda: [str(code)])
        for name in ("started", "wide"):
            monkeypatch.setitem(sys.modules, name, importlib.import_module(name))
        said = []
        target = plan_file.bundle_modules(tmp_path / "bundle.zip", "started", said.append)
        with zipfile.ZipFile(target) as archive:
            assert set(archive.namelist()) == {"started.py", "wide/__init__.py", "wide/used.py", "late.py"}
        (told,) = said
        assert told == (
            "Not sent to the workers: large, many, because there is too much beside started. Import what steps need at "
            "the beginning of the program."
        )

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
