"""How a process finds the modules of another one."""

import os
import sys

from wallaroo.program import apply_import_settings, import_path, import_settings


def test_import_paths_are_absolute(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", "relative", *sys.path])
    assert import_path()[:2] == [os.getcwd(), os.path.join(os.getcwd(), "relative")]  # noqa: PTH109, PTH118


def test_nothing_is_added_twice(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(map(os.path.abspath, sys.path)) | set(sys.path)
    for _ in range(2):
        apply_import_settings(import_settings())
    assert set(sys.path) == before


def test_the_order_of_the_module_path_is_kept(monkeypatch):
    monkeypatch.setattr(sys, "path", ["/script", "/standard", "/application", "/installed", "/last"])
    way = import_settings()
    monkeypatch.setattr(sys, "path", ["/spark", "/standard", "/installed"])
    apply_import_settings(way)
    assert sys.path == ["/spark", "/script", "/standard", "/application", "/installed", "/last"]
