"""The broker that the tests with Kafka rest on."""

from confluent_kafka import Producer


def values(broker, topic, **how):
    return sorted(message.value() for message in broker.consume(topic, **how))


def test_what_it_was_given_is_there_after_a_stop_and_after_a_crash(new_kafka):
    broker = new_kafka().start()
    topic = broker.create_topic(partitions=3)
    broker.produce(topic, [{"value": b"one", "partition": 0}, {"value": b"two", "key": b"k", "partition": 2}])
    for end in (broker.stop, broker.kill):
        end()
        broker.start()
        assert values(broker, topic) == [b"one", b"two"]
    assert broker.ends(topic) == {0: 1, 1: 0, 2: 1}


def test_what_is_not_committed_is_left_out_unless_asked_for(kafka):
    topic = kafka.create_topic()
    producer = Producer(kafka.client(transactional_id=topic))
    producer.init_transactions()
    for value, end in ((b"kept", producer.commit_transaction), (b"undone", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush()
        end()
    assert values(kafka, topic) == [b"kept"]
    assert values(kafka, topic, committed=False) == [b"kept", b"undone"]


def test_partitions_are_added_and_old_messages_removed(kafka):
    topic = kafka.create_topic()
    kafka.produce(topic, [b"old", b"new"])
    kafka.add_partitions(topic, 2)
    kafka.delete_before(topic, {0: 1})
    kafka.produce(topic, [{"value": b"elsewhere", "partition": 1}])
    assert values(kafka, topic) == [b"elsewhere", b"new"]
