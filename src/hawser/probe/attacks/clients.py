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
_SLACK: Final = 2.0
"""Seconds that a session may take longer than its pace says."""
BACKUP_FILE: Final = "backup"


@dataclass(frozen=True)
class Session:
    """One session of an application."""

    application: Application
    port: int
    """Of the server."""
    command: tuple[str, ...]
    seconds: float
    """At most, with time for a slow machine; it is ended then."""
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
    port, think, make = _APPLICATIONS[application]
    command, seconds = make(address, folder, chance)
    return Session(application, port, command, seconds + _SLACK, chance.expovariate(1 / think))


def programs(applications: Sequence[Application]) -> tuple[str, ...]:
    """Programs of applications and their servers, each once."""
    return tuple(dict.fromkeys(program for one in applications for program in PROGRAMS[one]))


def files(chance: random.Random) -> dict[str, bytes]:
    """Give the files that sessions of a host read, by name, beside the key `client`."""
    return {BACKUP_FILE: chance.randbytes(chance.randrange(500_000, _LARGEST_BACKUP))}


def _fetch(urls: Sequence[str], *options: str) -> tuple[str, ...]:
    each = (word for url in urls for word in ("-o", "/dev/null", url))
    return ("curl", "-s", "-f", *options, *each)


_Made = tuple[tuple[str, ...], float]
"""A command, and the seconds that its pace makes of it."""
_Maker = Callable[[str, Path, random.Random], _Made]


def _web(address: str, _folder: Path, chance: random.Random) -> _Made:
    site = chance.randrange(SITES)
    own = [url for url in URLS if url.startswith(f"/site{site}/")]
    pages = [f"http://{address}{chance.choice(own)}" for _ in range(chance.randrange(1, 9))]
    options, seconds = ["-H", f"Host: site{site}.example"], 0.0
    if chance.random() < 0.4:  # somebody reads between two pages
        a_minute = chance.randrange(100, 400)
        options += ["--rate", f"{a_minute}/m"]
        seconds += 60 * len(pages) / a_minute
    if chance.random() < 0.2:
        options += ["--limit-rate", f"{chance.randrange(200, 800)}k"]
    return _fetch(pages, *options), seconds


def _video(address: str, _folder: Path, chance: random.Random) -> _Made:
    count, a_minute = chance.randrange(3, 8), chance.randrange(60, 150)
    segments = [f"http://{address}{STREAM[number % len(STREAM)]}" for number in range(count)]
    return _fetch(segments, "--rate", f"{a_minute}/m"), 60 * count / a_minute


def _ssh(address: str, folder: Path, chance: random.Random) -> _Made:
    options = ("-i", str(folder / "client"), "-p", str(SSH), "-o", "BatchMode=yes")
    unknown = ("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null")
    # A line of output every so often, as somebody sees it who watches something.
    count, gap = chance.randrange(3, 12), chance.uniform(0.05, 0.5)
    watched = ("ping", "-i", f"{gap:.2f}", "-c", str(count), address)
    command = ("ssh", "-F", "none", "-q", *options, *unknown, f"root@{address}", *watched)
    return command, count * gap


def _database(address: str, _folder: Path, chance: random.Random) -> _Made:
    count, gap = chance.randrange(5, 60), chance.uniform(0.005, 0.08)
    key = f"key{chance.randrange(1000)}"
    commands = (
        ("INCR", "visits"),
        ("SET", key, "v" * chance.randrange(10, 4000)),
        ("GET", key),
        ("INFO",),
    )
    at = ("-h", address, "-p", str(DATABASE), "-r", str(count), "-i", f"{gap:.3f}")
    return ("redis-cli", *at, *chance.choice(commands)), count * gap


def _backup(address: str, folder: Path, chance: random.Random) -> _Made:
    name, rate = f"backup-{chance.randrange(10)}", chance.randrange(800, 3000)
    url = f"http://{address}/upload/{name}"
    options = ("-s", "-f", "-o", "/dev/null", "--limit-rate", f"{rate}k")
    command = ("curl", *options, "-T", str(folder / BACKUP_FILE), url)
    return command, _LARGEST_BACKUP / (1024 * rate)


_APPLICATIONS: Final[Mapping[Application, tuple[int, float, _Maker]]] = {
    Application.WEB: (WEB, 1.0, _web),
    Application.VIDEO: (WEB, 4.0, _video),
    Application.SSH: (SSH, 3.0, _ssh),
    Application.DATABASE: (DATABASE, 1.5, _database),
    Application.BACKUP: (WEB, 8.0, _backup),
}
"""Port, mean think time (s), and what makes the command."""

PROGRAMS: Final[Mapping[Application, tuple[str, ...]]] = {
    Application.WEB: ("curl", "nginx"),
    Application.VIDEO: ("curl", "nginx"),
    Application.SSH: ("ssh", "sshd", "ssh-keygen", "ping"),
    Application.DATABASE: ("redis-cli", "redis-server"),
    Application.BACKUP: ("curl", "nginx"),
}
"""Programs of an application, those of its server among them."""
