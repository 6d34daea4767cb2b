"""For all tests: a JVM without its second compiler, a Ctrl-C that works, no deadlines, and files of other users.

State goes to a folder of the tests' own, never to the home folder of the user who runs them.

Whole processes come first, so that at the end no worker of the test runner waits for another's long tests.

Tests with Kafka or Redis use real servers. Without these, and without a way to get them, they are skipped, but not in
CI.
"""

import os
import signal

import pytest
from hypothesis import settings

# A JVM that lives for seconds does not optimise what it will not run again; it halves the work.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
# In the background of a script it is ignored, and all processes of the tests would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
# How long an example takes says nothing on a busy machine.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: "/system/" not in item.path.as_posix())


@pytest.fixture(autouse=True, scope="session")
def folder_for_state(tmp_path_factory):
    """Have applications without a directory keep their state in a folder of the tests' own."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session")
def kafka(tmp_path_factory):
    """Return a running `tools.kafka_broker.Broker`, which all tests of a worker share: use topics of your own."""
    broker = _new_broker(tmp_path_factory.mktemp("kafka"))
    yield broker.start()
    broker.clean_up()


@pytest.fixture
def new_kafka(tmp_path_factory):
    """Make a broker for one test, not started yet, for those that stop it or have it set up in another way."""
    made = []

    def make(settings=None):
        made.append(_new_broker(tmp_path_factory.mktemp("kafka"), settings))
        return made[-1]

    yield make
    for broker in made:
        broker.clean_up()


def _new_broker(folder, settings=None):
    # Most tests need neither the client nor Java.
    from tools.kafka_broker import Broker  # noqa: PLC0415
    from tools.kafka_jars import jars  # noqa: PLC0415

    _need(jars, "The jars of a Kafka broker are")
    return Broker(folder, settings)


@pytest.fixture
def redis(tmp_path_factory):
    """Return a running `tools.redis_server.Server`, which a test may kill and start again."""
    from tools.redis_server import Server, binary  # noqa: PLC0415

    _need(binary, "The program of a Redis server is")
    server = Server(tmp_path_factory.mktemp("redis"))
    yield server.start()
    server.clean_up()


def _need(fetch, what):
    """Fetch what a server needs; skip the test where that is not possible."""
    from tools.ivy import OfflineError  # noqa: PLC0415

    try:
        fetch()
    except OfflineError as error:
        why = f"{what} not in the cache folder, and cannot be downloaded: {error}"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(why)


@pytest.fixture
def given_away():
    """Return a function that gives a file to another user, and returns the user for whom it is then another user's.

    Only root can give files away. Other users ask for a user other than themselves, whose files theirs are not.
    """

    def give(path):
        if os.getuid() != 0:
            return os.getuid() + 1
        os.chown(path, 12345, -1, follow_symlinks=False)
        return 0

    return give
