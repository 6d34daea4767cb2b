"""The tables at the end of a run."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from bench.figures import Figures
from bench.targets import TARGETS


def show(parts: Sequence[Figures], screen: Console) -> None:
    """Print all figures, then the targets, then what is missing."""
    screen.print(_figures_table(parts))
    screen.print(_targets_table(parts))
    for part in parts:
        for note in part.notes:
            screen.print(f"[yellow]Not measured:[/yellow] {note}", soft_wrap=True)


def _figures_table(parts: Sequence[Figures]) -> Table:
    table = Table(title="What was measured", title_justify="left")
    table.add_column("")
    for column in ("median", "lowest", "highest"):
        table.add_column(column, justify="right")
    table.add_column("unit")
    for part in parts:
        table.add_section()
        table.add_row(f"[bold]{part.title}[/bold]")
        for name, figure in part.by_name.items():
            values = (figure.median, min(figure.values), max(figure.values))
            # Ratios are what to look at; what they are made of depends on the machine.
            style = "bold" if figure.unit == "x" else ""
            table.add_row(name, *map(figure.text, values), figure.unit, style=style)
    return table


def _targets_table(parts: Sequence[Figures]) -> Table:
    table = Table(title="Targets (for two cores)", title_justify="left")
    table.add_column("")
    for column in ("wanted", "measured", ""):
        table.add_column(column, justify="right")
    for target in TARGETS:
        value = target.value(parts)
        if value is None:
            table.add_row(target.what, target.wanted, "", "[dim]not measured[/dim]")
            continue
        verdict = "[green]met[/green]" if target.is_met(value) else "[red]not met[/red]"
        table.add_row(target.what, target.wanted, f"{value:.3g}", verdict)
    return table
