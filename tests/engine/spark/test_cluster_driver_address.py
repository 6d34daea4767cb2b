"""Where workers of a cluster find this machine."""

import pytest

from wallaroo.engine.spark.cluster import driver_address
from wallaroo.engine.spark.session import SparkOptions
from wallaroo.errors import AddressError

LOOPBACK = "spark://127.0.0.1:7077"


@pytest.mark.parametrize(
    ("conf", "expected"),
    [
        ({}, ("127.0.0.1", "127.0.0.1")),
        ({"spark.driver.host": "example.org"}, ("example.org", "example.org")),
        ({"spark.driver.bindAddress": "127.0.0.2"}, ("127.0.0.2", "127.0.0.2")),
        ({"spark.driver.bindAddress": "0.0.0.0"}, ("0.0.0.0", "127.0.0.1")),
        ({"spark.driver.bindAddress": "::", "spark.driver.host": "example.org"}, ("::", "example.org")),
    ],
)
def test_it_is_on_the_route_to_the_master_or_as_configured(conf, expected):
    assert driver_address(SparkOptions(LOOPBACK, conf)) == expected


def test_a_master_of_another_kind_has_an_address_too():
    assert driver_address(SparkOptions("k8s://https://127.0.0.1:6443")).bind == "127.0.0.1"


def test_the_error_for_an_unreachable_master_names_the_setting():
    with pytest.raises(AddressError, match=r"--spark-conf spark\.driver\.host=ADDRESS"):
        driver_address(SparkOptions("spark://no.such.machine.invalid:7077"))
