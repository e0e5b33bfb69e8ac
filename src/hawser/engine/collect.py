"""What is kept of a trial besides samples: configurations, logs, and times of events."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hawser.driver.base import Lab
from hawser.engine.events import Applied
from hawser.probe import environment
from hawser.store.writer import TrialWriter


def settings(lab: Lab, writer: TrialWriter) -> None:
    """Write down the kernel settings of every node.

    Raises:
        NodeError: a node does not answer.
    """
    found = {name: environment.node_settings(node) for name, node in lab.nodes.items()}
    (writer.folder("config") / "kernel.json").write_text(
        json.dumps(found, indent=1) + "\n", encoding="utf-8"
    )


def events(applied: Sequence[Applied], writer: TrialWriter) -> None:
    """Write down which events happened, and when, in seconds from the start of traffic."""
    if applied:
        rows = [
            {"element": each.event.element, "planned": float(each.event.at), "at": each.at}
            | each.event.change.model_dump(mode="json", exclude_none=True)
            | ({"error": each.error} if each.error else {})
            for each in applied
        ]
        (writer.raw / "events.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
