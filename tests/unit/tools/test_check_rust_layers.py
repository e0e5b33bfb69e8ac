from __future__ import annotations

from typing import Any

import pytest

from check_rust_layers import problems


def metadata(name: str, *dependencies: tuple[str, str | None]) -> dict[str, Any]:
    """What `cargo metadata` says of one package; kind None is an ordinary dependency."""
    found = [{"name": dependency, "kind": kind} for dependency, kind in dependencies]
    return {"packages": [{"name": name, "dependencies": found}]}


@pytest.mark.parametrize(
    ("name", "dependency", "kind"),
    [
        ("hawserd", "hawser-netdev", None),
        ("hawserd", "hawser-gateway", None),
        ("hawserd", "hawser-wire", None),
        ("hawser-gateway", "hawser-daemon", None),
        ("hawser-gateway", "hawser-tunnel", None),
        ("hawser-tunnel", "quinn-proto", None),
        ("hawser-tunnel", "hawser-multipath", None),
        ("hawser-sim", "hawser-tunnel", None),
        ("hawserd", "tokio", None),
        ("hawserd", "hawser-tls", None),
        ("hawser-tls", "getrandom", None),
        ("hawser-netdev", "libc", None),
        ("hawser-multipath", "hawser-wire", None),
        ("hawser-multipath", "hawser-sim", "dev"),
        ("hawser-sim", "hawser-multipath", None),
        ("hawser-wire", "thiserror", None),
        ("hawser-wire", "proptest", "dev"),
    ],
)
def test_arrows_that_may_be(name: str, dependency: str, kind: str | None) -> None:
    assert list(problems(metadata(name, (dependency, kind)))) == []


@pytest.mark.parametrize(
    ("name", "dependency", "kind"),
    [
        ("hawser-wire", "hawser-netdev", None),
        ("hawser-wire", "hawser-meter", None),
        ("hawser-netdev", "hawser-bpf", None),
        ("hawser-netdev", "hawserd", None),
        ("hawser-gateway", "hawser-load", None),
        ("hawser-daemon", "hawser-netdev", None),
        ("hawser-tunnel", "hawser-netdev", None),
        ("hawser-tunnel", "tokio", None),
        ("hawser-tunnel", "quinn-udp", None),
        ("hawser-multipath", "hawser-tunnel", None),
        ("hawser-tls", "hawser-netdev", None),
        ("hawser-wire", "hawser-netdev", "dev"),
        ("hawser-wire", "hawser-netdev", "build"),
        ("hawserd", "hawser-sim", None),
        ("hawser-multipath", "tokio", None),
        ("hawser-meter", "libc", "build"),
    ],
)
def test_arrows_that_must_not_be(name: str, dependency: str, kind: str | None) -> None:
    found = list(problems(metadata(name, (dependency, kind))))
    assert len(found) == 1
    assert found[0].startswith(f"{name}: ")
    assert dependency in found[0]


def test_a_crate_without_a_room_is_a_problem() -> None:
    assert list(problems(metadata("hawser-new"))) == [
        "hawser-new: has no room; name one in tools/check_rust_layers.py"
    ]
