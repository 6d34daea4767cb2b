"""Addresses are found among all the other arguments."""

import pytest

import wallaroo

MACHIDA = [
    "machida", "--application-module", "word_count", "--metrics", "127.0.0.1:5001", "--control", "h:6000",
    "--data", "127.0.0.1:6001", "--worker-name", "worker1", "--external=127.0.0.1:5050", "-n", "initializer",
    "--cluster-initializer", "--ponythreads=1", "--help", "-h", "--input", "x", "--outside=y",
]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["--in", "127.0.0.1:7010"], [("127.0.0.1", "7010")]),
        (["--in=127.0.0.1:7010"], [("127.0.0.1", "7010")]),
        (["-i", "localhost:0"], [("localhost", "0")]),
        (["-ilocalhost:7010"], [("localhost", "7010")]),
        (["--in", "a:1,b:2"], [("a", "1"), ("b", "2")]),
        (["--in", "a:1, b:2"], [("a", "1"), ("b", "2")]),
        (["--in", "a:1", "--in", "b:2"], [("a", "1"), ("b", "2")]),
        (["--in", "[::1]:7010"], [("::1", "7010")]),
        (["--in", "[fe80::1]:7010,a:2"], [("fe80::1", "7010"), ("a", "2")]),
        (["--in", "orders@a:1"], [("orders", "a", "1")]),
        (
            ["--in", "orders@[::1]:1, b:2,all prices@c:3"],
            [("orders", "::1", "1"), ("b", "2"), ("all prices", "c", "3")],
        ),
        (["--in", "a@home@b:1"], [("a@home", "b", "1")]),
    ],
)
def test_input_addresses(given, expected, capfd):
    middle = len(MACHIDA) // 2
    assert wallaroo.tcp_parse_input_addrs(given) == expected
    assert wallaroo.tcp_parse_input_addrs([*MACHIDA[:middle], *given, *MACHIDA[middle:]]) == expected
    assert wallaroo.tcp_parse_input_addrs((*given, "--out", "c:3")) == expected
    assert capfd.readouterr() == ("", "")


def test_output_addresses():
    assert wallaroo.tcp_parse_output_addrs(["--in", "a:1", "--out", "b:2"]) == [("b", "2")]
    assert wallaroo.tcp_parse_output_addrs([*MACHIDA, "-o", "b:2,c:3"]) == [("b", "2"), ("c", "3")]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], "--in is missing: add it to the command line"),
        (["--out", "a:1"], "--in is missing"),
        (["--in"], "--in needs an address"),
        (["--in", "--out", "a:1"], "--in needs an address"),
        (["--in", ""], "'' is not an address: write host:port, such as"),
        (["--in", "127.0.0.1"], "'127.0.0.1' is not an address: write host:port, such as"),
        (["--in", ":7010"], "':7010' is not an address: write host:port, such as"),
        (["--in", "a:1,"], "'' is not an address: write host:port, such as"),
        (["--in", "a:b"], "'a:b' is not an address: the port must be a number from 0 to 65535; got 'b'"),
        (["--in", "a:"], "'a:' is not an address: the port must be a number from 0 to 65535; got ''"),
        (["--in", "a:65536"], "the port must be a number from 0 to 65535; got '65536'"),
        (["--in", "a:-1"], "the port must be a number from 0 to 65535; got '-1'"),
        (["--in", "::1:7010"], "'::1:7010' is not an address: put the host in brackets, such as [::1]:7010"),
        (["--in", "[]:7010"], "'[]:7010' is not an address: write host:port, such as"),
        (["--in", "@a:1"], "'@a:1' is not an address: write a name in front of the @, such as orders@a:1"),
        (["--in", "orders@"], "'' is not an address: write host:port, such as"),
        (["--in", "orders@a"], "'a' is not an address: write host:port, such as"),
    ],
)
def test_missing_and_malformed_addresses_are_explained(given, expected, capfd):
    with pytest.raises(wallaroo.WallarooParameterError) as refused:
        wallaroo.tcp_parse_input_addrs(given)
    assert expected in str(refused.value)
    assert "for example --in 127.0.0.1:7010" in str(refused.value)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("args", [None, "--in a:1", 5, ["--in", 7010]])
def test_args_must_be_a_list_of_strings(args):
    with pytest.raises(wallaroo.WallarooParameterError, match=r"must be a list of strings.*application_setup\(args\)"):
        wallaroo.tcp_parse_input_addrs(args)
