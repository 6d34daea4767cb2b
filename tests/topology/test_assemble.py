"""Checks that look at several steps or pipelines together."""

import pytest

import wallaroo

SOURCE = wallaroo.TCPSourceConfig("127.0.0.1", 0, wallaroo.decoder(lambda bs: bs))


def step(name):
    return wallaroo.computation(name)(lambda data: data)


def state_step(name):
    return wallaroo.state_computation(name)(lambda data, state: (data, True))


@wallaroo.partition
def parity(data):
    return data % 2


def message_of(builder):
    with pytest.raises(wallaroo.WallarooParameterError) as refused:
        builder.build()
    return str(refused.value)


def test_different_steps_of_a_pipeline_need_different_names():
    builder = wallaroo.ApplicationBuilder("app").new_pipeline("p", SOURCE).to(step("x")).to(step("x"))
    assert "pipeline 'p': two different steps are called 'x'" in message_of(builder)


def test_steps_of_different_pipelines_may_have_the_same_name():
    builder = wallaroo.ApplicationBuilder("app").new_pipeline("p", SOURCE).to(step("x"))
    assert len(builder.new_pipeline("q", SOURCE).to(step("x")).build().pipelines) == 2


def test_a_shared_state_must_be_declared_alike():
    builder = wallaroo.ApplicationBuilder("app")
    builder.new_pipeline("p", SOURCE).to_state_partition(state_step("a"), dict, "s", parity, [0, 1])
    builder.new_pipeline("q", SOURCE).to_state_partition(state_step("b"), dict, "s", parity, [0])
    builder.new_pipeline("r", SOURCE).to_stateful(state_step("c"), list, "s")
    message = message_of(builder)
    taken = "the state name 's' is already used in pipeline 'p'"
    assert "has 3 mistakes" in message
    assert f"pipeline 'q', step 1 (to_state_partition <lambda>): {taken} with other partition_keys" in message
    assert f"pipeline 'r', step 1 (to_stateful <lambda>): {taken} with dict, here with list" in message
    assert f"pipeline 'r', step 1 (to_stateful <lambda>): {taken} with partitions, here without" in message


def test_pipelines_may_partition_a_shared_state_in_their_own_way():
    builder = wallaroo.ApplicationBuilder("app")
    for name in "pq":
        by_name = wallaroo.partition(lambda data, name=name: (name, data))
        builder.new_pipeline(name, SOURCE).to_state_partition(state_step("a"), dict, "s", by_name)
    assert len(builder.build().pipelines) == 2


def test_states_in_opposite_orders_are_a_mistake():
    builder = wallaroo.ApplicationBuilder("app")
    builder.new_pipeline("p", SOURCE).to_stateful(state_step("a"), dict, "x").to_stateful(state_step("b"), dict, "y")
    builder.new_pipeline("q", SOURCE).to_stateful(state_step("c"), dict, "y").to_stateful(state_step("d"), dict, "x")
    message = message_of(builder)
    assert "has a mistake" in message
    assert "the pipelines visit shared states in different orders" in message


def test_a_state_step_outside_a_pipeline_is_one_mistake():
    builder = wallaroo.ApplicationBuilder("app").to_stateful(state_step("a"), dict, "s")
    builder.new_pipeline("p", SOURCE).to_stateful(state_step("a"), list, "s")
    assert "has a mistake:" in message_of(builder)
