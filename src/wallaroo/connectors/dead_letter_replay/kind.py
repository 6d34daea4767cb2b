"""The kind of the source for replayed dead letters, which every application has besides those of its pipelines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wallaroo.connectors.base import LoggedKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wallaroo.connectors.base import Intake, IntakeContext, SourceLog


@dataclass(frozen=True)
class ReplaySourceConfig:
    """A queue of letters, which is a file. Users do not write this: the engine adds it to every application."""

    queue: str


class ReplayKind(LoggedKind):
    """Sources that take letters from a queue. Each letter itself says how it is decoded, and for which step."""

    name = "replay"
    config_class = ReplaySourceConfig
    nature = "takes letters from a queue"
    brings_letters = True

    def mistakes(self, config: ReplaySourceConfig) -> Iterator[str]:  # noqa: ARG002
        """Yield nothing: the config is our own."""
        return iter(())

    def shown(self, config: ReplaySourceConfig) -> tuple[str, ...]:  # noqa: ARG002
        """Return a description."""
        return ("replayed dead letters",)

    def place(self, config: ReplaySourceConfig) -> dict[str, Any]:
        """Return the path of the queue, which no pipeline of the application has."""
        return {"queue": config.queue}

    def intake(
        self,
        config: ReplaySourceConfig | None,  # noqa: ARG002 - None in the ingress process.
        place: Mapping[str, Any],
        log: SourceLog,
        context: IntakeContext,
    ) -> Intake:
        """Return the intake that takes letters from the queue."""
        from wallaroo.connectors.dead_letter_replay.source import ReplayQueue, ReplaySource  # noqa: PLC0415 - only in the ingress.

        return ReplaySource(ReplayQueue(Path(place["queue"]), log.directory), log, context.notice)


KINDS = [ReplayKind()]
