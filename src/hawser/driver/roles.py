"""Roles of daemons as a table: which program, which configuration, and what it counts.

Programs are named, never imported: the OpenFlow controller is one in Python, as `hawserd` is one in
Rust, and a driver starts both alike.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from hawser.driver.base import DriverError
from hawser.overlay.config.base import Configuration
from hawser.overlay.config.classifier import ClassifierConfig
from hawser.overlay.config.function import FirewallConfig, ForwarderConfig, IdsConfig, SffConfig
from hawser.overlay.config.gateway import GatewayConfig
from hawser.overlay.config.ipsec import IpsecConfig
from hawser.overlay.config.openflow import ControllerConfig
from hawser.overlay.config.srv6_proxy import Srv6ProxyConfig
from hawser.overlay.config.wan import WanConfig
from hawser.overlay.lab.plan import Role


@dataclass(frozen=True)
class Program:
    """What is started; `--config FILE` follows."""

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RoleEntry:
    """What a role means."""

    program: Callable[[str], Program]
    """Finds the program, or takes the given build of `hawserd`; raises `DriverError` where it is
    not there."""
    configuration: type[Configuration]
    counters: Literal["parts", "wan", "function"] = "parts"
    """Form of its counters: those of each part, of a WAN emulator, of a part of service chains."""
    traced: bool = False
    """Whether it tells the way of packets."""


def hawserd(chosen: str = "") -> Path:
    """The daemon's program: that one, `$HAWSERD`, or what `cargo build --release` made here.

    Raises:
        DriverError: it is not there.
    """
    chosen = chosen or os.environ.get("HAWSERD", "")
    path = Path(chosen) if chosen else _sources().parent / "target" / "release" / "hawserd"
    if not os.access(path, os.X_OK):
        raise DriverError(f"hawserd is not built ({path}): run `cargo build --release`")
    return path


def _hawserd(*arguments: str) -> Callable[[str], Program]:
    return lambda chosen: Program((str(hawserd(chosen)), *arguments))


def _python(module: str) -> Callable[[str], Program]:
    """A program in Python, from where this very code is."""
    program = Program((sys.executable, "-m", module), python_environment())
    return lambda _: program


def python_environment() -> Mapping[str, str]:
    """What a program in Python needs to be this very code."""
    return {"PYTHONPATH": str(_sources())}


def _sources() -> Path:
    return Path(__file__).resolve().parents[2]


def _function(name: str, configuration: type[Configuration], *, traced: bool = False) -> RoleEntry:
    """A part of service chains."""
    return RoleEntry(_hawserd("function", name), configuration, "function", traced)


ROLES: Final[Mapping[Role, RoleEntry]] = {
    "gateway": RoleEntry(_hawserd("gateway"), GatewayConfig),
    "wan": RoleEntry(_hawserd("wan"), WanConfig, "wan"),
    "openflow": RoleEntry(_python("hawser.openflow"), ControllerConfig),
    "sff": _function("sff", SffConfig, traced=True),
    "classifier": _function("classifier", ClassifierConfig),
    "forwarder": _function("forwarder", ForwarderConfig, traced=True),
    "firewall": _function("firewall", FirewallConfig, traced=True),
    "ids": _function("ids", IdsConfig, traced=True),
    "srv6-proxy": _function("srv6-proxy", Srv6ProxyConfig),
    "ipsec": _function("ipsec", IpsecConfig),
}
