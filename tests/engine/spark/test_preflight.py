"""What is checked before anything is started."""

import socket

import pytest

from wallaroo.engine.spark.memory import MIN_HEAP, available, check_memory
from wallaroo.engine.spark.preflight import check_connectors, check_master
from wallaroo.errors import AddressError, SparkStartError


def test_the_kinds_of_all_sources_and_sinks_are_asked(make):
    check_connectors([make.pipeline("p", encoders=[str, repr], port=1), make.pipeline("q", encoders=[])])
    with pytest.raises(AddressError, match=r"Pipeline 'q' cannot send to .*: a receiver has a port of its own"):
        check_connectors([make.pipeline("p", port=1), make.pipeline("q", port=0)])


def test_one_master_of_several_is_enough():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("127.0.0.1", 0)) as gone:
        there, nobody = server.getsockname()[1], gone.getsockname()[1]
        gone.close()
        check_master(f"spark://127.0.0.1:{nobody},127.0.0.1:{there}")
        with pytest.raises(SparkStartError, match=f"127.0.0.1:{nobody}: connection refused; 127.0.0.1:99999: "):
            check_master(f"spark://127.0.0.1:{nobody},127.0.0.1:99999")
    check_master("local[4]")
    check_master("yarn")


GIB = 1 << 30


@pytest.mark.parametrize(
    ("own", "files", "limit"),
    [
        # A container of either version sees its own group at the root, or its path as the host has it.
        ("0::/\n", {"memory.max": "3221225472\n"}, 3 * GIB),
        ("0::/docker/abc\n", {"memory.max": "3221225472\n"}, 3 * GIB),
        ("0::/a.slice/b.service\n", {"a.slice/memory.max": f"{GIB}", "a.slice/b.service/memory.max": "max\n"}, GIB),
        ("0::/a.slice/b.service\n", {"a.slice/memory.max": "max", "a.slice/b.service/memory.max": f"{GIB}"}, GIB),
        ("9:cpu:/x\n4:memory:/x\n0::/\n", {"memory/x/memory.limit_in_bytes": f"{GIB}\n"}, GIB),
        ("4:cpu,memory:/x\n", {"memory/memory.limit_in_bytes": f"{GIB}\n"}, GIB),
        ("4:memory:/x\n", {"memory/x/memory.limit_in_bytes": "9223372036854771712\n"}, None),
        ("0::/\n", {"memory.max": "max\n"}, None),
        (None, {}, None),
    ],
)
def test_the_memory_of_a_container_counts(tmp_path, own, files, limit):
    (tmp_path / "proc" / "self").mkdir(parents=True)
    if own is not None:
        (tmp_path / "proc" / "self" / "cgroup").write_text(own)
    for name, text in files.items():
        (tmp_path / "cgroup" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "cgroup" / name).write_text(text)
    machine = available(tmp_path / "nothing", tmp_path / "nothing")
    assert machine > GIB
    assert available(tmp_path / "proc", tmp_path / "cgroup") == min(machine, limit or machine)


def test_a_heap_has_to_be_large_enough_for_spark_and_small_enough_for_the_machine():
    check_memory("450m")
    check_memory(f"{MIN_HEAP >> 10}k")
    with pytest.raises(SparkStartError, match=r"spark\.driver\.memory=449m is too little: Spark needs 450 MiB"):
        check_memory("449m")
    with pytest.raises(SparkStartError, match="There is too little memory: Spark is to get 1,000,000 GiB"):
        check_memory("1000000g")
