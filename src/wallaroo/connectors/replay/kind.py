"""The source that every application has besides those of its pipelines: dead letters that are to be replayed."""

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
    """A queue of letters, which is a file. No user writes this: the engine adds it to every application."""

    queue: str


class ReplayKind(LoggedKind):
    """Sources that take letters from a queue. What has to be decoded, and where, each letter says itself."""

    name = "replay"
    config_class = ReplaySourceConfig
    nature = "takes letters from a queue"
    brings_letters = True

    def mistakes(self, config: ReplaySourceConfig) -> Iterator[str]:  # noqa: ARG002
        """Yield nothing: it is ours."""
        return iter(())

    def shown(self, config: ReplaySourceConfig) -> tuple[str, ...]:  # noqa: ARG002
        """Return what it is."""
        return ("replayed dead letters",)

    def place(self, config: ReplaySourceConfig) -> dict[str, Any]:
        """Return the path of the queue: no pipeline of the application has it."""
        return {"queue": config.queue}

    def intake(
        self,
        config: ReplaySourceConfig | None,  # noqa: ARG002 - the ingress process has none.
        place: Mapping[str, Any],
        log: SourceLog,
        context: IntakeContext,
    ) -> Intake:
        """Return what takes them from the queue."""
        from wallaroo.connectors.replay.source import ReplayQueue, ReplaySource  # noqa: PLC0415 - only the ingress does.

        return ReplaySource(ReplayQueue(Path(place["queue"]), log.directory), log, context.notice)
