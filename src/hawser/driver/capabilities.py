"""Capabilities of this kernel and machine, found by trying them.

Kernel features are tried in a scratch namespace that is gone afterwards: a version number says
little about what a distribution, a cloud or a container left out.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

from hawser.driver.base import DriverError
from hawser.driver.parts import cross_traffic, openvswitch, programs, tunnels
from hawser.driver.roles import hawserd
from hawser.node.netns import cgroup, features
from hawser.node.netns.htb import needs_tree
from hawser.overlay.lab.emulator import kernels
from hawser.overlay.lab.facts import Facts
from hawser.overlay.lab.plan import NetworkPlan, NodePlan
from hawser.spec.model import Model


class Capability(Model):
    """One capability that labs can use."""

    name: str
    found: bool
    detail: str
    """What was found, or why it is missing."""
    instead: str = ""
    """What is used instead if it is missing; empty if nothing is."""
    how: str = ""
    """How to get it, such as a Debian package."""


_KERNEL_MODULE = "a kernel that has it (Debian and Ubuntu kernels do: package linux-image-amd64)"
_NOTHING = "nothing: labs on this machine need it"

_Row = tuple[str, Callable[[], None], str, str]
"""Name, probe (raises what the kernel says), what is used instead, how to get it."""

_KERNEL: tuple[_Row, ...] = (
    ("namespaces", features.namespaces, _NOTHING, "root, and a kernel with CONFIG_NET_NS"),
    ("veth", features.veth, _NOTHING, _KERNEL_MODULE),
    ("tun", features.tun, _NOTHING, "/dev/net/tun (in a container: pass the device)"),
    ("mptcp", features.mptcp, "transport ipip, over one path", _KERNEL_MODULE),
    ("htb", features.htb, _NOTHING, _KERNEL_MODULE),
    ("tbf", features.tbf, _NOTHING, _KERNEL_MODULE),
    ("bfifo", features.bfifo, _NOTHING, _KERNEL_MODULE),
    ("u32", features.u32, _NOTHING, _KERNEL_MODULE),
    ("ingress", features.ingress, "", _KERNEL_MODULE),
    ("cls_bpf", features.cls_bpf, "", _KERNEL_MODULE),
    ("xdp", features.xdp, "", _KERNEL_MODULE),
    ("mirred", features.mirred, _NOTHING, _KERNEL_MODULE),
    ("netem", features.netem, "the WAN emulator in user space", _KERNEL_MODULE),
    ("ipip", features.ipip, "encapsulation in hawserd", _KERNEL_MODULE),
    ("seg6", features.seg6, "", _KERNEL_MODULE),
    ("vrf", features.vrf, "End.DX4 and End.DX6 (srv6: {last: End.DX})", _KERNEL_MODULE),
    (
        "nftables",
        features.nftables,
        "steering nsh or routes",
        "apt-get install nftables, and a kernel with nf_tables and nft_counter",
    ),
    (
        "tproxy",
        features.tproxy,
        "datagrams for TCP as well (no overlay.tcp_proxy)",
        "apt-get install nftables, and a kernel with nft_tproxy and nft_socket",
    ),
    (
        "nat",
        features.nat,
        "",
        "apt-get install nftables, and a kernel with nft_masq",
    ),
    (
        "openvswitch",
        features.openvswitch,
        "Open vSwitch's datapath in user space",
        _KERNEL_MODULE,
    ),
)

_TOOLS = (
    ("iperf3", "iperf3"),
    ("ping", "iputils-ping"),
    ("mptcpize", "mptcpize"),
    ("wrk", "wrk"),
    ("tcpdump", "tcpdump"),
    ("prlimit", "util-linux"),
    ("nginx", "nginx-light"),
    ("ethtool", "ethtool"),
    ("ovs-vswitchd", openvswitch.PACKAGE),
)
"""Program and its Debian package."""

_ATTACK_TOOLS = (
    ("nmap", "nmap"),
    ("hping3", "hping3"),
    ("slowhttptest", "slowhttptest"),
    ("hydra", "hydra"),
    ("iodine", "iodine"),
    ("iodined", "iodine"),
    ("curl", "curl"),
    ("ping", "iputils-ping"),
    ("ssh", "openssh-client"),
    ("ssh-keygen", "openssh-client"),
    ("sshd", "openssh-server"),
    ("redis-cli", "redis-tools"),
    ("redis-server", "redis-server"),
)
"""The same for `attacks` of workflows (apt-packages-attacks.txt)."""

_COLLECTOR_TOOLS = (("java", "openjdk-17-jre-headless"),)
"""The same for a `collector` (apt-packages-spark.txt)."""


def capabilities() -> tuple[Capability, ...]:
    """Try all capabilities once, in about 0.1 s. Kernel features require root."""
    kernel = tuple(_kernel(*row) for row in _KERNEL)
    return (*kernel, *(_tool(*row) for row in _TOOLS), *_machine())


def missing(plan: NetworkPlan) -> tuple[str, ...]:
    """What a plan needs and this machine lacks, each with how to get it."""
    if os.geteuid() != 0:
        return ("labs of network namespaces need root: use sudo",)
    kernel = tuple(
        f"this kernel has no {name}; use {_how(name)}" for name in _needs(plan) if not has(name)
    )
    lacking = (
        *_missing_daemon(plan),
        *tunnels.missing(plan),
        *programs.missing(plan),
        *cross_traffic.missing(plan),
        *openvswitch.missing(plan),
    )
    return (*kernel, *_missing_cgroup(plan), *lacking)


def missing_tools(tools: Iterable[str]) -> Iterator[str]:
    """Programs that this machine lacks, each with the package that has it."""
    packages = dict((*_TOOLS, *_ATTACK_TOOLS, *_COLLECTOR_TOOLS))
    for tool in tools:
        if shutil.which(tool) is None:
            yield f"program {tool}: install the Debian package {packages.get(tool, tool)}"


def facts() -> Facts:
    """What of this machine a plan depends on."""
    return Facts(netem=has("netem"))


def _needs(plan: NetworkPlan) -> Iterator[str]:
    """Kernel features that a plan uses."""
    wanted = {need for each in plan.daemons for need in each.config.needs()}
    yield from ("namespaces", "veth")
    if any(map(needs_tree, plan.shapers)):
        yield from ("htb", "tbf", "u32")
    if any(kernels(plan)):
        yield "netem"
    if plan.tunnels or "tun" in wanted:
        yield "tun"
    if any(node.redirects for node in plan.nodes):
        yield "mirred"
    if "mptcp" in wanted or any(
        node.mptcp or "net.mptcp.enabled" in node.sysctl for node in plan.nodes
    ):
        yield "mptcp"
    if "xdp" in wanted:
        yield "xdp"
    for node in plan.nodes:
        yield from _segment_routing(node)
    if any(node.nat for node in plan.nodes):
        yield "nat"
    if "tproxy" in wanted:
        yield "tproxy"


def _segment_routing(node: NodePlan) -> Iterator[str]:
    """Kernel features that a node's segments use."""
    if node.segments:
        yield "seg6"
    if node.vrfs:
        yield "vrf"
    if node.untrusted:
        yield "nftables"


def _missing_cgroup(plan: NetworkPlan) -> tuple[str, ...]:
    limited = [node.name for node in plan.nodes if node.cpu is not None]
    if not limited or cgroup.available():
        return ()
    fault = f"node {limited[0]} has a CPU quota, but no control group can be created"
    return (f"{fault}; use {_cgroup().how}",)


def _missing_daemon(plan: NetworkPlan) -> tuple[str, ...]:
    if not any("hawserd" in each.config.needs() for each in plan.daemons):
        return ()
    try:
        hawserd()
    except DriverError as error:
        return (str(error),)
    return ()


@cache
def has(name: str) -> bool:
    """Whether the kernel has one feature; tried once in the life of the process."""
    return _kernel(*_row(name)).found


def _how(name: str) -> str:
    return _row(name)[3]


def _row(name: str) -> _Row:
    return next(row for row in _KERNEL if row[0] == name)


def _kernel(name: str, probe: Callable[[], None], instead: str, how: str) -> Capability:
    fault = features.fault(probe)
    detail = "in this kernel" if fault is None else f"not in this kernel ({fault})"
    if fault is not None and os.geteuid() != 0:
        detail = "cannot be tried without root"
    return Capability(name=name, found=fault is None, detail=detail, instead=instead, how=how)


def _tool(program: str, package: str) -> Capability:
    path = shutil.which(program)
    detail = path or "not installed"
    return Capability(
        name=program, found=path is not None, detail=detail, how=f"apt-get install {package}"
    )


def _machine() -> tuple[Capability, ...]:
    return (_cgroup(), _governor(), _timer_slack(), _root())


def _cgroup() -> Capability:
    return Capability(
        name="cgroup",
        found=cgroup.available(),
        detail=cgroup.detail(),
        instead="no CPU quotas of nodes, and no usage of nodes",
        how="root, and a mounted cgroup file system with the controller cpu",
    )


def _governor() -> Capability:
    path = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    try:
        governor = path.read_text().strip()
    except OSError:
        return Capability(
            name="cpu-governor",
            found=True,
            detail="none: the clock rate is fixed, or the host controls it",
        )
    return Capability(
        name="cpu-governor",
        found=governor == "performance",
        detail=governor,
        instead="the clock rate changes during measurements, which widens intervals",
        how="cpupower frequency-set -g performance (package linux-cpupower)",
    )


def _timer_slack() -> Capability:
    slack = int(Path("/proc/self/timerslack_ns").read_text())
    return Capability(
        name="timer-slack",
        found=True,
        detail=f"{slack} ns by default; daemons set their own",
    )


def _root() -> Capability:
    uid = os.geteuid()
    return Capability(
        name="root", found=uid == 0, detail=f"user id {uid}", how="sudo", instead=_NOTHING
    )
