"""Limits for which there is no memory: refused if the user has set them, and otherwise lowered."""

import pytest

from wallaroo.engine.spark.memory import fitting_limits, largest_message
from wallaroo.engine.spark.session import SparkOptions
from wallaroo.errors import SparkStartError
from wallaroo.ingress.limits import Limits

MIB, GIB = 1 << 20, 1 << 30


def heap(memory):
    return SparkOptions(conf={"spark.driver.memory": memory})


def chosen(**limits):
    return Limits(**limits, chosen=frozenset(limits))


def test_the_usual_limits_hold_with_the_usual_heap_on_a_usual_machine():
    assert fitting_limits(Limits(), SparkOptions(), 4 * GIB) == Limits()


@pytest.mark.parametrize(
    ("spark", "memory", "size"),
    [
        (SparkOptions(), 4 * GIB, 64 * MIB),
        (heap("450m"), 4 * GIB, 23 * MIB),
        (heap("8g"), 64 * GIB, 576 * MIB),
        # The machine has less to give than the heap.
        (SparkOptions(), 2 * GIB, 32 * MIB),
        (heap("8g"), 10 * GIB, 96 * MIB),
        (SparkOptions(), GIB + MIB, MIB),
        # On a cluster, the machines of the others are not known.
        (SparkOptions("spark://host:7077", {"spark.driver.memory": "8g"}), 2 * GIB, 64 * MIB),
        (SparkOptions("spark://host:7077", {"spark.executor.memory": "8g"}), 2 * GIB, 64 * MIB),
    ],
)
def test_a_message_fits_into_the_heap_and_into_the_machine(spark, memory, size):
    assert largest_message(spark, memory) == size
    limits = chosen(max_message_size=size)
    assert fitting_limits(limits, spark, memory).max_message_size == size
    with pytest.raises(SparkStartError, match="is too much: there is room for messages of up to"):
        fitting_limits(chosen(max_message_size=size + 1), spark, memory)
    assert fitting_limits(Limits(max_message_size=size + 1), spark, memory).max_message_size == size


@pytest.mark.parametrize(
    ("spark", "memory", "words"),
    [
        (
            SparkOptions(),
            64 * GIB,
            "64 MiB. Write that, or less; or give Spark more: --spark-conf spark.driver.memory=14464m.",
        ),
        (
            SparkOptions(),
            8 * GIB,
            (
                "64 MiB. Write that, or less. For messages of that size, Spark needs 14,464 MiB (spark.driver.memory), "
                "and all processes together 31,360 MiB; this machine or container has 8 GiB."
            ),
        ),
        (
            SparkOptions("spark://host:7077"),
            8 * GIB,
            (
                "64 MiB. Write that, or less; or give Spark more: --spark-conf spark.driver.memory=14464m --spark-conf "
                "spark.executor.memory=14464m."
            ),
        ),
    ],
)
def test_what_would_fit_is_said_and_what_else_could_be_changed(spark, memory, words):
    with pytest.raises(SparkStartError) as refused:
        fitting_limits(chosen(max_message_size=GIB), spark, memory)
    assert str(refused.value) == f"--max-message-size 1 GiB is too much: there is room for messages of up to {words}"


def test_what_is_said_to_be_enough_is_enough():
    with pytest.raises(SparkStartError):
        fitting_limits(chosen(max_message_size=GIB), heap("14463m"), 64 * GIB)
    assert fitting_limits(chosen(max_message_size=GIB), heap("14464m"), 64 * GIB).max_message_size == GIB


def test_unfinished_messages_need_memory_too():
    most = 4 * GIB - GIB - 512 * MIB - 64 * MIB
    assert fitting_limits(chosen(max_unfinished=most), SparkOptions(), 4 * GIB).max_unfinished == most
    with pytest.raises(SparkStartError) as refused:
        fitting_limits(chosen(max_unfinished=most + 1), SparkOptions(), 4 * GIB)
    assert str(refused.value) == (
        "--max-unfinished 2.4 GiB is too much: beside Spark, this machine or container has room for 2,496 MiB of "
        "unfinished messages. Write that, or less."
    )
    assert fitting_limits(Limits(), SparkOptions(), 2 * GIB - 256 * MIB).max_unfinished == 240 * MIB
