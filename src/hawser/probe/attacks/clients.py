"""Command lines of benign sessions, with think times: ordinary clients, used as people use them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hawser.probe.attacks.servers import DATABASE, SITES, SSH, STREAM, URLS, WEB
from hawser.spec.attack import Application

_LARGEST_BACKUP: Final = 3_000_000
BACKUP_FILE: Final = "backup"


@dataclass(frozen=True)
class Session:
    """One session of an application."""

    application: Application
    port: int
    """Of the server."""
    command: tuple[str, ...]
    seconds: float
    """At most; it is ended then."""
    think: float
    """Seconds before it begins."""


def session(application: Application, address: str, folder: Path, chance: random.Random) -> Session:
    """Draw the next session of a user.

    Args:
        application: what is used.
        address: of the server.
        folder: the host's, with the key and file that `files` names.
        chance: of sizes, sites and times.
    """
    port, seconds, think, make = _APPLICATIONS[application]
    command = make(address, folder, chance)
    return Session(application, port, command, seconds, chance.expovariate(1 / think))


def programs(applications: Sequence[Application]) -> tuple[str, ...]:
    """Programs of applications and their servers, each once."""
    return tuple(dict.fromkeys(program for one in applications for program in PROGRAMS[one]))


def files(chance: random.Random) -> dict[str, bytes]:
    """Give the files that sessions of a host read, by name, beside the key `client`."""
    return {BACKUP_FILE: chance.randbytes(chance.randrange(500_000, _LARGEST_BACKUP))}


def _fetch(urls: Sequence[str], *options: str) -> tuple[str, ...]:
    each = (word for url in urls for word in ("-o", "/dev/null", url))
    return ("curl", "-s", "-f", *options, *each)


def _web(address: str, _folder: Path, chance: random.Random) -> tuple[str, ...]:
    site = chance.randrange(SITES)
    own = [url for url in URLS if url.startswith(f"/site{site}/")]
    pages = [chance.choice(own) for _ in range(chance.randrange(1, 9))]
    options = ["-H", f"Host: site{site}.example"]
    if chance.random() < 0.4:  # somebody reads between two pages
        options += ["--rate", f"{chance.randrange(60, 240)}/m"]
    if chance.random() < 0.2:
        options += ["--limit-rate", f"{chance.randrange(50, 400)}k"]
    return _fetch([f"http://{address}{page}" for page in pages], *options)


def _video(address: str, _folder: Path, chance: random.Random) -> tuple[str, ...]:
    count = chance.randrange(3, 8)
    segments = [f"http://{address}{STREAM[number % len(STREAM)]}" for number in range(count)]
    return _fetch(segments, "--rate", f"{chance.randrange(60, 150)}/m")


def _ssh(address: str, folder: Path, chance: random.Random) -> tuple[str, ...]:
    options = ("-i", str(folder / "client"), "-p", str(SSH), "-o", "BatchMode=yes")
    unknown = ("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null")
    # A line of output every so often, as somebody sees it who watches something.
    count, gap = chance.randrange(3, 12), f"{chance.uniform(0.05, 0.5):.2f}"
    watched = ("ping", "-i", gap, "-c", str(count), address)
    return ("ssh", "-F", "none", "-q", *options, *unknown, f"root@{address}", *watched)


def _database(address: str, _folder: Path, chance: random.Random) -> tuple[str, ...]:
    count, gap = chance.randrange(5, 60), f"{chance.uniform(0.005, 0.08):.3f}"
    key = f"key{chance.randrange(1000)}"
    commands = (
        ("INCR", "visits"),
        ("SET", key, "v" * chance.randrange(10, 4000)),
        ("GET", key),
        ("INFO",),
    )
    bounds = ("-r", str(count), "-i", gap)
    return ("redis-cli", "-h", address, "-p", str(DATABASE), *bounds, *chance.choice(commands))


def _backup(address: str, folder: Path, chance: random.Random) -> tuple[str, ...]:
    name = f"backup-{chance.randrange(10)}"
    limit = ("--limit-rate", f"{chance.randrange(800, 3000)}k")
    url = f"http://{address}/upload/{name}"
    return ("curl", "-s", "-f", "-o", "/dev/null", *limit, "-T", str(folder / BACKUP_FILE), url)


_Maker = Callable[[str, Path, random.Random], tuple[str, ...]]

_APPLICATIONS: Final[Mapping[Application, tuple[int, float, float, _Maker]]] = {
    Application.WEB: (WEB, 8.0, 1.0, _web),
    Application.VIDEO: (WEB, 10.0, 4.0, _video),
    Application.SSH: (SSH, 8.0, 3.0, _ssh),
    Application.DATABASE: (DATABASE, 8.0, 1.5, _database),
    Application.BACKUP: (WEB, 8.0, 8.0, _backup),
}
"""Port, longest session and mean think time (s), and what makes the command."""

PROGRAMS: Final[Mapping[Application, tuple[str, ...]]] = {
    Application.WEB: ("curl", "nginx"),
    Application.VIDEO: ("curl", "nginx"),
    Application.SSH: ("ssh", "sshd", "ssh-keygen", "ping"),
    Application.DATABASE: ("redis-cli", "redis-server"),
    Application.BACKUP: ("curl", "nginx"),
}
"""Programs of an application, those of its server among them."""
