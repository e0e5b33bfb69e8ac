"""What a result depends on besides the workflow: versions, kernel settings, source revision."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from hawser.node.base import Node
from hawser.store.manifest import Revision

_VERSION_COMMANDS = {
    "iperf3": ["iperf3", "--version"],
    "ping": ["ping", "-V"],
    "ip": ["ip", "-V"],
    "mptcpize": ["mptcpize", "--version"],
    "wrk": ["wrk", "--version"],
    "nginx": ["nginx", "-v"],
}
_PACKAGES = ("pydantic", "pyroute2", "numpy", "scipy", "pyarrow", "duckdb")
_SETTINGS = (
    "net.core.default_qdisc",
    "net.core.netdev_max_backlog",
    "net.core.optmem_max",
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_wmem",
    "net.ipv4.udp_rmem_min",
    "net.mptcp.enabled",
    "net.mptcp.scheduler",
)
"""Kernel settings that change what TCP, MPTCP and UDP give."""


def tool_versions(daemon: Path | None) -> dict[str, str]:
    """Versions of the programs and packages that take part; what is absent is left out."""
    commands = dict(_VERSION_COMMANDS)
    if daemon is not None:
        commands["hawserd"] = [str(daemon), "--version"]
    found = {name: _first_line(command) for name, command in commands.items()}
    packages = {f"python:{name}": _version(name) for name in _PACKAGES}
    return {name: text for name, text in (found | packages).items() if text}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # some are installed when first used
        return ""


def _first_line(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = (done.stdout or done.stderr).splitlines()
    return lines[0].strip() if lines else ""


def kernel_settings(
    names: Iterable[str] = _SETTINGS, root: Path = Path("/proc/sys")
) -> dict[str, str]:
    """Values of kernel settings by name; what this kernel does not have is left out."""
    found = {}
    for name in names:
        try:
            found[name] = " ".join((root / name.replace(".", "/")).read_text().split())
        except OSError:
            continue
    return found


def node_settings(node: Node) -> dict[str, str]:
    """The same settings as a node has them: most are a network namespace's own.

    Raises:
        NodeError: the node does not answer.
    """
    paths = [f"/proc/sys/{name.replace('.', '/')}" for name in _SETTINGS]
    told = node.run(["grep", "-sH", "", *paths], timeout=10, check=False).stdout
    pairs = (line.removeprefix("/proc/sys/").partition(":") for line in told.splitlines())
    return {name.replace("/", "."): " ".join(value.split()) for name, _, value in pairs}


def revision(checkout: Path) -> Revision | None:
    """The git commit of a checkout, and whether files differ from it; None outside of one."""
    commit = _first_line(["git", "-C", str(checkout), "rev-parse", "HEAD"])
    if len(commit) != 40:
        return None
    changed = _first_line(["git", "-C", str(checkout), "status", "--porcelain"])
    return Revision(commit=commit, dirty=bool(changed))
