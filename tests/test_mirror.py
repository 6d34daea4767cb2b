"""Tests are where the code is: `tests/x/test_y.py` and `tests/x/test_y_more.py` are about `src/wallaroo/x/y.py`."""

from pathlib import Path

import pytest

import wallaroo

TESTS = Path(__file__).parent
PACKAGE = Path(wallaroo.__file__).parent
ABOUT_MORE = {
    "api/test_docstrings.py",
    "api/test_existing_programs.py",
    "api/test_generations.py",
    "api/test_typing.py",
    "test_attributes.py",
    "test_import_direction.py",
    "test_mirror.py",
    "test_public_names.py",
}
"""About the package as a whole, or about programs as users of the original wrote them."""
WHOLE_FOLDERS = {"docs", "examples", "system", "tools"}
"""About documents, examples, whole processes, and the tools of the project."""
EXAMPLES = "the examples in its docstrings"
TESTED_WITH = {
    "_version.py": "cli/test_wallaroo.py",
    "api/computations.py": "api/test_decorated.py",
    "api/partitions.py": "api/test_decorated.py",
    "backoff.py": EXAMPLES,
    "cli/dead_letter_queries.py": "cli/commands/test_dead_letters.py",
    "cli/options.py": "docs/test_command_line.py",
    "cli/send_input.py": "cli/commands/test_send.py",
    "connect/": "system/test_connect.py",
    "connectors/address_config.py": "connectors/tcp/test_kind.py",
    "connectors/dead_letter_replay/kind.py": "connectors/dead_letter_replay/test_source.py",
    "connectors/extension/": "connectors/extension/test_source.py",
    "connectors/kafka/": "connectors/kafka/test_source.py",
    "connectors/output_block.py": "connectors/tcp/test_sink.py",
    "connectors/polling_intake.py": "connectors/test_base_further_kinds.py",
    "contrib/kafka.py": EXAMPLES,
    "engine/delivery/ingress_feedback.py": "engine/test_run.py",
    "engine/delivery/undelivered_blocks.py": "engine/delivery/test_egress_undelivered.py",
    "engine/delivery/worker_deaths.py": "engine/delivery/test_collector.py",
    "engine/failure_kinds.py": "engine/delivery/test_collector.py",
    "engine/loop_codegen.py": "engine/stages/test_inlining.py",
    "engine/query_lifecycle.py": "system/test_lost_processes.py",
    "engine/spark/query.py": "system/test_word_count.py",
    "engine/spark/worker_daemon.py": "system/test_every_process.py",
    "engine/stages/current_message.py": "engine/stages/test_crash_guard.py",
    "engine/stages/first_stage.py": "engine/stages/test_worker.py",
    "engine/stages/result_checks.py": "engine/stages/test_steps.py",
    "engine/startup.py": "system/test_ways_to_start.py",
    "engine/state_manifest.py": "engine/delivery/test_collector.py",
    "engine/transport/crash_notes.py": "engine/stages/test_crash_guard.py",
    "engine/transport/dead_letter_record.py": "engine/delivery/test_dead_letter_file.py",
    "engine/transport/shuffle_format.py": "engine/stages/test_shuffle.py",
    "engine/transport/task_channel.py": "engine/delivery/test_collector.py",
    "errors.py": "cli/test_screen_exit_codes.py",
    "experimental/": "system/test_extensions.py",
    "ingress/__main__.py": "ingress/test_process.py",
    "ingress/client.py": "ingress/test_control.py",
    "ingress/config.py": "ingress/test_process.py",
    "ingress/limits.py": "ingress/test_server_load.py",
    "ingress/log/format.py": "ingress/log/test_writer.py",
    "ingress/log/reader.py": "ingress/log/test_cursor.py",
    "ingress/logged_source.py": "ingress/test_server_disk_room.py",
    "ingress/replayable_source.py": "connectors/test_base_lanes.py",
    "ingress/source.py": "connectors/test_base_further_kinds.py",
    "ingress/worker_client.py": "ingress/test_worker_server.py",
    "inlined_lines.py": "engine/stages/test_inlining.py",
    "interfaces.py": "api/test_typing.py",
    "internal_sockets.py": "engine/delivery/test_collector.py",
    "introspection.py": "topology/test_validate.py",
    "kafka_message.py": EXAMPLES,
    "testing/doubles.py": "testing/test_runner.py",
    "topology/fingerprint.py": "engine/transport/test_plan_file.py",
    "topology/model.py": "topology/test_assemble.py",
}
"""Where modules, or all modules of a folder, without tests of their own are tested: usually with what uses them."""


def own_tests(module):
    folder = TESTS / module.parent
    return [*folder.glob(f"test_{module.stem}.py"), *folder.glob(f"test_{module.stem}_*.py")]


MODULES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")
FILES = sorted(
    path.relative_to(TESTS)
    for path in TESTS.rglob("test_*.py")
    if path.relative_to(TESTS).parts[0] not in WHOLE_FOLDERS and str(path.relative_to(TESTS)) not in ABOUT_MORE
)


@pytest.mark.parametrize("file", FILES, ids=str)
def test_a_file_of_tests_is_named_after_what_it_tests(file):
    words = file.stem.removeprefix("test_").split("_")
    names = ["_".join(words[:number]) for number in range(1, len(words) + 1)]
    assert any((PACKAGE / file.parent / f"{name}.py").exists() for name in names), file


@pytest.mark.parametrize("module", [each for each in MODULES if not own_tests(each)], ids=str)
def test_a_module_without_tests_of_its_own_is_tested_elsewhere(module):
    entries = [where for entry, where in TESTED_WITH.items() if str(module) == entry or str(module).startswith(entry)]
    assert entries, f"write tests/{module.parent}/test_{module.name}, or say in {Path(__file__).name} what tests it"
    for where in entries:
        assert ">>> " in (PACKAGE / module).read_text() if where == EXAMPLES else (TESTS / where).exists()


@pytest.mark.parametrize("entry", TESTED_WITH)
def test_no_entry_is_left_over(entry):
    described = [each for each in MODULES if str(each).startswith(entry) and not own_tests(each)]
    assert described, entry
