"""What a result depends on besides the workflow and the machines: settings of nodes, revision."""

from __future__ import annotations

from pathlib import Path

from hawser.node.base import Node
from hawser.store.environment import SETTINGS, first_line
from hawser.store.manifest import Revision


def node_settings(node: Node) -> dict[str, str]:
    """Kernel settings as a node has them: most are a network namespace's own.

    Raises:
        NodeError: the node does not answer.
    """
    paths = [f"/proc/sys/{name.replace('.', '/')}" for name in SETTINGS]
    told = node.run(["grep", "-sH", "", *paths], timeout=10, check=False).stdout
    pairs = (line.removeprefix("/proc/sys/").partition(":") for line in told.splitlines())
    return {name.replace("/", "."): " ".join(value.split()) for name, _, value in pairs}


def revision(checkout: Path) -> Revision | None:
    """The git commit of a checkout, and whether files differ from it; None outside of one.

    Results that earlier runs left in the checkout are no difference.
    """
    commit = first_line(["git", "-C", str(checkout), "rev-parse", "HEAD"])
    if len(commit) != 40:
        return None
    others = ["--", ":/", ":(top,exclude)docs/runs"]
    changed = first_line(["git", "-C", str(checkout), "status", "--porcelain", *others])
    return Revision(commit=commit, dirty=bool(changed))
