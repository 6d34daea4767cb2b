"""Names of windows exist, and raise an error that says that they come later."""

import pytest

import wallaroo


class Sum(wallaroo.Aggregation):
    def initial_accumulator(self):
        return [0]

    def update(self, data, accumulator):
        accumulator[0] += data

    def combine(self, accumulator1, accumulator2):
        return [accumulator1[0] + accumulator2[0]]

    def output(self, key, accumulator):
        return key, accumulator[0]


@pytest.mark.parametrize(
    "call",
    [
        lambda: wallaroo.range_windows(wallaroo.seconds(5)).with_slide(wallaroo.seconds(1)).over(Sum),
        lambda: wallaroo.count_windows(100).over(Sum),
    ],
)
def test_windows_are_refused_with_a_clear_message(call):
    with pytest.raises(wallaroo.WallarooParameterError) as refused:
        call()
    assert "_windows: windows come in a later release. Until then gather the messages in a state" in str(refused.value)
    assert '@wallaroo.state_computation("step name", StateClass)' in str(refused.value)


def test_aggregations_can_be_tested_on_their_own():
    total = Sum()
    accumulator = total.initial_accumulator()
    total.update(5, accumulator)
    assert total.output("key", total.combine(accumulator, accumulator)) == ("key", 10)
    assert total.name() == "Sum"


def test_an_aggregation_must_be_complete():
    class Half(wallaroo.Aggregation):
        def initial_accumulator(self):
            return 0

    with pytest.raises(TypeError, match="update"):
        Half()


@pytest.mark.parametrize("aggregation", [Sum, Sum()])
def test_an_aggregation_is_no_computation(aggregation):
    decode = wallaroo.decoder(lambda bs: bs)
    pipeline = wallaroo.source("numbers", wallaroo.TCPSourceConfig("127.0.0.1", 0, decode)).to(aggregation)
    with pytest.raises(wallaroo.WallarooParameterError, match="is an aggregation, which is for windows"):
        wallaroo.build_application("app", pipeline)
