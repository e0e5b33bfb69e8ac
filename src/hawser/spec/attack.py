"""Attacks in a lab, with benign traffic beside them: labelled traffic for intrusion detection."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from hawser.spec.model import Model, Name
from hawser.spec.units import Duration


class AttackKind(StrEnum):
    """An attack by a real tool; the value is its name in label files."""

    SYN_SCAN = "syn-scan"
    """Ports by half-open connections: nmap -sS."""
    CONNECT_SCAN = "connect-scan"
    """Ports by whole connections: nmap -sT."""
    UDP_SCAN = "udp-scan"
    """UDP ports: nmap -sU."""
    SYN_FLOOD = "syn-flood"
    """SYN segments from ever other ports: hping3."""
    UDP_FLOOD = "udp-flood"
    """Datagrams of one flow: hping3."""
    ICMP_FLOOD = "icmp-flood"
    """Echo requests: hping3."""
    SLOW_HEADERS = "slow-headers"
    """HTTP requests whose headers never end: slowhttptest -H."""
    SLOW_BODY = "slow-body"
    """HTTP requests whose bodies trickle in: slowhttptest -B."""
    PASSWORD_GUESSING = "password-guessing"  # noqa: S105 (a name, no password)
    """Passwords of SSH: hydra."""
    HTTP_INJECTION = "http-injection"
    """Requests with SQL, scripts and paths in their parameters: curl."""
    DNS_TUNNEL = "dns-tunnel"
    """IP over queries of the DNS: iodine."""
    EXFILTRATION = "exfiltration"
    """Files sent out in small pieces over HTTP: curl."""


FLOODS = (AttackKind.SYN_FLOOD, AttackKind.UDP_FLOOD, AttackKind.ICMP_FLOOD)
"""Volumetric attacks."""


class Application(StrEnum):
    """A kind of benign traffic; the value is the `detail` of its rows in label files."""

    WEB = "web"
    """Pages of several objects from many sites: curl and nginx."""
    VIDEO = "video"
    """Segments of a stream, one after the other: curl and nginx."""
    SSH = "ssh"
    """Sessions with output from time to time: OpenSSH."""
    DATABASE = "database"
    """Commands at short intervals on one connection: Redis."""
    BACKUP = "backup"
    """Large files sent to a server: curl and nginx."""


MAX_HOSTS = 64


class Passed(Model):
    """Two captures with between them what may block attacks.

    Gives `malicious_blocked`, `malicious_passed`, `benign_blocked`, `benign_passed` (flows),
    `accuracy`, `malicious_flows_blocked`, `benign_flows_blocked`, `malicious_volume_blocked`,
    `late_volume_blocked`, `flood_volume_blocked` (%), `time_to_block` and `time_to_block_p99` (ms).
    """

    before: Name
    """Capture on the hosts' side."""
    behind: Name
    """Capture on the servers' side."""


class Attacks(Model):
    """Seeded attacks and benign sessions between nodes while a trial's measurements run."""

    source: Annotated[tuple[Name, ...], Field(alias="from", min_length=1, max_length=MAX_HOSTS)]
    """Hosts: each is a client, and at other times an attacker, unless `attackers` parts them."""
    target: Annotated[tuple[Name, ...], Field(alias="to", min_length=1, max_length=MAX_HOSTS)]
    """Servers: they serve all applications, and are attacked."""
    attackers: Annotated[tuple[Name, ...], Field(max_length=MAX_HOSTS)] = ()
    """Hosts that attack and do nothing else; the others then never attack. Default: all do both."""
    kinds: Annotated[tuple[AttackKind, ...], Field(max_length=64)] = tuple(AttackKind)
    """Attacks that are made. Default: all."""
    episodes: Annotated[int, Field(ge=1, le=1000)] = 1
    """How often each of them is made."""
    benign: Annotated[tuple[Application, ...], Field(max_length=16)] = tuple(Application)
    """Applications of the hosts. Default: all."""
    duration: Duration = Duration(60)
    """Time from the first session to the end of the last, 10 s to 1 h."""
    packet_rate: Annotated[int, Field(ge=10, le=10_000)] = 500
    """Highest rate of a flood or scan, packets per second."""
    passed: Passed | None = None
    """Captures that are compared. Default: none."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    """Seed of order, times, attackers, targets, ports, words and think times."""

    @property
    def attacking(self) -> tuple[Name, ...]:
        """Hosts that attack."""
        return self.attackers or self.source

    @property
    def clients(self) -> tuple[Name, ...]:
        """Hosts with benign sessions."""
        return tuple(name for name in self.source if name not in self.attackers)


ATTACK_SECONDS = (3.0, 6.0)
"""Shortest and longest attack."""
GUARD_SECONDS = 2.0
"""Time before and after an attack in which its host does nothing else, so that all its packets in
between are the attack's."""
SLOT_SECONDS = ATTACK_SECONDS[1] + 2 * GUARD_SECONDS


def least_duration(attacks: Attacks) -> float:
    """Seconds in which each attacker can make its share of the attacks, one after the other."""
    every = len(attacks.kinds) * attacks.episodes
    return -(-every // len(attacks.attacking)) * SLOT_SECONDS
