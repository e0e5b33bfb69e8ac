"""Versions and kernel settings of this machine: results depend on them besides the workflow."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from hawser.store.machine import this_machine
from hawser.store.manifest import Environment

_VERSION_COMMANDS = {
    "iperf3": ["iperf3", "--version"],
    "ping": ["ping", "-V"],
    "ip": ["ip", "-V"],
    "mptcpize": ["mptcpize", "--version"],
    "wrk": ["wrk", "--version"],
    "nginx": ["nginx", "-v"],
}
_PACKAGES = ("pydantic", "pyroute2", "numpy", "scipy", "pyarrow", "duckdb")
SETTINGS = (
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
"""Kernel settings that affect the performance of TCP, MPTCP and UDP."""


def environment(daemon: Path | None) -> Environment:
    """Describe this machine and the programs that a run uses.

    Args:
        daemon: path of the program `hawserd`; None if there is none.
    """
    return Environment(
        machine=this_machine(), tools=tool_versions(daemon), kernel=kernel_settings()
    )


def tool_versions(daemon: Path | None) -> dict[str, str]:
    """Versions of the programs and packages that a run uses; absent ones are left out."""
    commands = dict(_VERSION_COMMANDS)
    if daemon is not None:
        commands["hawserd"] = [str(daemon), "--version"]
    found = {name: first_line(command) for name, command in commands.items()}
    packages = {f"python:{name}": _version(name) for name in _PACKAGES}
    return {name: text for name, text in (found | packages).items() if text}


def version(program: Path) -> str:
    """What a program says of its version; its path if it says nothing."""
    return first_line([str(program), "--version"]) or str(program)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # some are installed when first used
        return ""


def kernel_settings(
    names: Iterable[str] = SETTINGS, root: Path = Path("/proc/sys")
) -> dict[str, str]:
    """Values of kernel settings by name; settings that this kernel lacks are left out."""
    found = {}
    for name in names:
        try:
            found[name] = " ".join((root / name.replace(".", "/")).read_text().split())
        except OSError:
            continue
    return found


def first_line(command: list[str]) -> str:
    """First line that a command prints; empty if the command cannot be run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = (done.stdout or done.stderr).splitlines()
    return lines[0].strip() if lines else ""
