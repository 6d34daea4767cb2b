"""Keys have the same bucket in every process, and buckets are spread evenly."""

import dataclasses
import enum
import os
import string
from collections import Counter, namedtuple
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.processes import run_python

from wallaroo.engine.spark.java import java_home
from wallaroo.engine.transport.buckets import spark_hash, spread_ids, stable_hash

Point = namedtuple("Point", "x y")  # noqa: PYI024 - has to equal a plain tuple, that is all


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Word(enum.StrEnum):
    RED = "red"


class Number(enum.IntEnum):
    ONE = 1


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    "equal",
    [
        (1, 1.0, True, 1 + 0j, Decimal(1), Fraction(1), Number.ONE),
        (0, 0.0, -0.0, False, Decimal(0)),
        (0.5, Fraction(1, 2), Decimal("0.5")),
        (2**80, float(2**80), Fraction(2**80)),
        (-1, -1.0),
        ("red", Text("red"), Word.RED),
        ((1, "a"), (1.0, "a"), (True, Text("a")), Point(1, "a")),
        ((), ()),
        (frozenset({1, "a", None}), frozenset({None, "a", 1.0})),
        (((1, 2), frozenset({3})), (Point(1, 2), frozenset({3.0}))),
    ],
)
def test_equal_keys_have_equal_hashes(equal):
    assert all(key == equal[0] for key in equal)
    assert len({stable_hash(key) for key in equal}) == 1


numbers = (
    st.integers() | st.floats(allow_nan=False) | st.booleans() | st.fractions() | st.complex_numbers(allow_nan=False)
)
atoms = st.none() | st.text() | st.binary() | numbers
keys = st.recursive(atoms, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=6)


@settings(deadline=None)
@given(keys, keys)
def test_any_two_equal_keys_have_equal_hashes(one, other):
    assert 0 <= stable_hash(one) < 1 << 32
    if one == other:
        assert stable_hash(one) == stable_hash(other)


@settings(deadline=None)
@given(st.integers(-(10**20), 10**20))
def test_whole_numbers_and_their_floats_agree(number):
    rounded = float(number)
    assert stable_hash(rounded) == stable_hash(int(rounded))


def test_different_keys_rarely_share_a_hash():
    keys = [f"word{i}" for i in range(5000)]
    keys += range(5000)
    keys += [(i, i + 1) for i in range(5000)]
    keys += [b"%d" % i for i in range(5000)]
    assert len({stable_hash(key) for key in keys}) > 0.999 * len(keys)


@pytest.mark.parametrize("pair", [("a", b"a"), ((1, 2), (2, 1)), ("", None), ((), frozenset()), (("a",), "a")])
def test_unlike_keys_are_distinguished(pair):
    assert stable_hash(pair[0]) != stable_hash(pair[1])


KEYS = r"""[
    "acorn", "", "é\udc80", b"acorn", b"", 0, 1, -1, 2**70, 1.5, -0.0, float("inf"), 1j, True, None,
    (), ("a", 1, None), (("b",), 2.5), Colour.RED, Colour.BLUE, frozenset({"a", "b", "c", "d", None, 7}),
    frozenset({("x", frozenset({"y", "z"})), "w"}),
]"""
ELSEWHERE = f"""
import dataclasses
import enum
from wallaroo.engine.transport.buckets import stable_hash
class Colour(enum.Enum):
    RED = 1
    BLUE = 2
print([stable_hash(key) for key in {KEYS}])
"""


@pytest.mark.parametrize("seed", ["0", "1", "4242"])
def test_other_processes_compute_the_same_hashes(seed):
    expected = [stable_hash(key) for key in eval(KEYS)]
    answer = run_python("-c", ELSEWHERE, env={**os.environ, "PYTHONHASHSEED": seed})
    assert eval(answer.stdout) == expected


@pytest.mark.parametrize("partitions", [1, 2, 3, 4, 7, 8, 16, 200])
@pytest.mark.parametrize("number", [1, 2, 5, 27, 64, 400])
def test_ids_are_distributed_round_robin(number, partitions):
    ids = spread_ids(number, partitions)
    assert len(set(ids)) == number
    assert all(0 <= id_ < 1 << 31 for id_ in ids)
    assert [spark_hash(id_) % partitions for id_ in ids] == [index % partitions for index in range(number)]


def test_more_ids_begin_with_the_same_ones():
    # The carriers of a layout are the first ids of every level.
    assert spread_ids(40, 8)[:8] == spread_ids(8, 8)


@pytest.mark.parametrize("buckets", [2, 8, 27, 32])
@pytest.mark.parametrize(
    "keys",
    [
        range(20_000),
        range(0, 200_000, 10),
        [10**12 + 60 * i for i in range(20_000)],
        [i / 4 for i in range(20_000)],
        [f"user-{i}" for i in range(20_000)],
        [a + b + c for a in string.ascii_lowercase for b in string.ascii_lowercase for c in string.ascii_lowercase],
        [(f"host{i % 100}", i) for i in range(20_000)],
        [b"%08d" % i for i in range(20_000)],
    ],
    ids=["ints", "tens", "timestamps", "floats", "users", "letters", "tuples", "bytes"],
)
def test_typical_keys_spread_evenly(keys, buckets):
    counts = Counter(stable_hash(key) % buckets for key in keys)
    expected = len(keys) / buckets
    assert len(counts) == buckets
    assert max(counts.values()) < 1.25 * expected
    assert min(counts.values()) > 0.75 * expected


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    # Heavy, and only the tests below need it.
    from pyspark import SparkContext  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    folder = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.master": "local[1]",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.warehouse.dir": str(folder),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", java_home(folder))
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        session = SparkSession.builder.config(map=settings).getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        yield session
        gateway = session.sparkContext._gateway
        session.stop()
        # A later Spark in this process must not find the JVM that ends here.
        gateway.shutdown()
        SparkContext._gateway = SparkContext._jvm = None
        gateway.proc.stdin.close()
        gateway.proc.wait(timeout=120)


def test_our_hash_of_an_id_equals_sparks(spark):
    frame = spark.sql("select cast(id as int) id from range(-50, 3000) union all values (2147483647), (-2147483648)")
    rows = frame.selectExpr("id", "hash(id)", "pmod(hash(id), 7)").collect()
    assert len(rows) == 3052
    assert [tuple(row) for row in rows] == [(row[0], spark_hash(row[0]), spark_hash(row[0]) % 7) for row in rows]


def test_spark_places_the_ids_evenly(spark):
    ids = spread_ids(20, 4)
    values = ", ".join(f"({id_})" for id_ in ids)
    frame = spark.sql(f"select * from values {values} as t(id)").repartition(4, "id")
    placed = dict(frame.selectExpr("id", "spark_partition_id()").collect())
    assert [placed[id_] for id_ in ids] == [index % 4 for index in range(20)]


@dataclasses.dataclass(frozen=True)
class Place:
    city: str
    street: str | None
    note: str = dataclasses.field(default="", compare=False)


def test_a_dataclass_hashes_by_what_it_compares():
    assert stable_hash(Place("Rome", None, "old")) == stable_hash(Place("Rome", None, "new"))
    assert stable_hash(Place("Rome", None)) != stable_hash(Place("Rome", "Via Appia"))
    assert stable_hash(Place("Rome", None)) == stable_hash((Place.__qualname__, "Rome", None))


def test_a_dataclass_with_an_equality_of_its_own_is_asked_for_its_hash():
    @dataclasses.dataclass
    class Caseless:
        name: str

        def __eq__(self, other):
            return self.name.lower() == other.name.lower()

        def __hash__(self):
            return len(self.name)

    assert stable_hash(Caseless("Rome")) == stable_hash(Caseless("ROME"))


def test_a_dataclass_field_that_is_not_hashed_need_not_be_hashable():
    @dataclasses.dataclass(frozen=True)
    class Tagged:
        name: str
        tags: list = dataclasses.field(default_factory=list, hash=False)

    assert stable_hash(Tagged("a", [1])) == stable_hash(Tagged("a", [2]))
