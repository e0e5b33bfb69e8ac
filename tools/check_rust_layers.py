"""Fail where a crate depends on one that is not in a room above its own (ARCHITECTURE.md).

Reads `cargo metadata`. The pure crates may also not depend on anything that does input or output,
and `sim` serves tests only.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from repository import ROOT, report

ROOMS: Mapping[str, int] = {
    "hawser-wire": 1,
    "hawser-meter": 1,
    "hawser-multipath": 2,
    "hawser-impair": 2,
    "hawser-flowmeter": 2,
    "hawser-esp": 2,
    "hawser-tls": 2,
    "hawser-trees": 2,
    "hawser-tunnel": 3,
    "hawser-sim": 4,
    "hawser-bpf": 4,
    "hawser-netdev": 4,
    "hawser-daemon": 4,
    "hawser-gateway": 5,
    "hawser-function": 5,
    "hawser-wan": 5,
    "hawser-ids": 5,
    "hawser-load": 5,
    "hawserd": 6,
}
# Not `tls`: its library takes randomness and the date for a handshake by itself.
PURE = frozenset(name for name, room in ROOMS.items() if room <= 3) - {"hawser-tls"}
SIM = "hawser-sim"
# Not `quinn-proto`: the state machine of QUIC, which gets datagrams and time as arguments. `quinn`
# and `quinn-udp` are its runtime and its sockets.
_INPUT_OUTPUT = re.compile(
    r"tokio|async-std|smol|mio|polling|socket2|nix|rustix|libc|getrandom"
    r"|quinn|quinn-udp|reqwest|hyper"
)


def problems(metadata: Mapping[str, Any]) -> Iterator[str]:
    """Each dependency that must not be, of the output of `cargo metadata --no-deps`."""
    for package in metadata["packages"]:
        name = package["name"]
        if name not in ROOMS:
            yield f"{name}: has no room; name one in tools/check_rust_layers.py"
            continue
        for dependency in package["dependencies"]:
            if problem := _problem(name, dependency["name"], dependency["kind"] or "normal"):
                yield f"{name}: {problem}"


def _problem(name: str, dependency: str, kind: str) -> str:
    if kind != "dev" and dependency == SIM:
        return f"depends on {SIM}, which serves tests only"
    if dependency in ROOMS and dependency != SIM and ROOMS[dependency] >= ROOMS[name]:
        return f"depends on {dependency}, which is not in a room above its own"
    if kind != "dev" and name in PURE and _INPUT_OUTPUT.fullmatch(dependency):
        return f"is pure and depends on {dependency}, which does input and output"
    return ""


def _metadata() -> dict[str, Any]:
    command = ["cargo", "metadata", "--no-deps", "--format-version", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    sys.exit(report(list(problems(_metadata())), "crates depend only on rooms above their own"))
