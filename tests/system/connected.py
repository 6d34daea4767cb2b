"""What the tests of `wallaroo connect` share: an application, and the scripts beside it."""

from tests.processes import WALLAROO

from .harness import Machida, Process, Receiver, environment, unused_address, values_by_key

TO_SCRIPT = [*WALLAROO, "connect"]


class Connected:
    """An application that counts what each script sends, and sends lines to others."""

    def __init__(self, folder, sources, sinks=1):
        self._scripts = []
        self._receiver = Receiver()
        self.to = [unused_address() for _ in range(sinks)]
        self._arguments = (
            *("--application-module", "connected", "--resilience-dir", str(folder)),
            *("--from", ",".join(sources), "--to", ",".join(self.to), "--out", self._receiver.address),
        )
        self.run = Machida(*self._arguments).wait_until_ready()

    def address(self, pipeline):
        """Return the address of a pipeline, as a command line has it."""
        return "{}:{}".format(*self.run.address(pipeline))

    def script(self, name, *arguments, until=None, **options):
        """Start a script, and wait until it says something."""
        script = self.run_beside([*TO_SCRIPT, name, *arguments], **options)
        if until is not None:
            script.wait_until(lambda: until in script.output, f"{name} saying {until!r}")
        return script

    def run_beside(self, command, **options):
        """Start another process."""
        self._scripts.append(Process(command, environment(), **options))
        return self._scripts[-1]

    def seen(self, beginning):
        """Return the messages with this beginning that were counted, and what came out for each."""
        data = b"".join(bytes(each) for each in self._receiver.connections)
        whole = data[: data.rfind(b"\n") + 1]
        return {message: counts for message, counts in values_by_key(whole).items() if message.startswith(beginning)}

    def wait_for(self, messages, beginning):
        """Wait until all these messages were counted; nothing else with this beginning was, and each once."""
        self.run.wait_until(lambda: len(self.seen(beginning)) >= len(set(messages)), f"all messages with {beginning!r}")
        assert self.seen(beginning) == {message: [1] for message in messages}

    def clean_up(self):
        """End everything."""
        for script in self._scripts:
            script.clean_up()
        self.run.clean_up()
        self._receiver.clean_up()
