"""Names, directories and certificates of labs, in a temporary directory."""

from __future__ import annotations

import json
import os
import stat
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from hawser.driver import names, state
from hawser.driver.base import DriverError
from hawser.driver.parts import pki
from hawser.overlay.config.gateway import GatewayConfig
from hawser.overlay.config.wan import WanConfig
from hawser.overlay.lab.plan import NetworkPlan, WanDaemon
from lab.plans.small import gateway_daemon

PLAN = NetworkPlan(nodes=(), links=(), shapers=(), daemons=(), addresses={})


def record(name: str) -> state.LabRecord:
    maker = state.ProcessRecord.of(os.getpid())
    assert maker is not None
    return state.LabRecord(name=name, maker=maker, created=0, plan=PLAN)


lab_names = st.from_regex(r"[a-z0-9][a-z0-9-]{0,47}", fullmatch=True)
node_names = st.from_regex(r"[a-z][a-z0-9-]{0,30}", fullmatch=True)


@given(lab_names, node_names)
def test_a_namespace_tells_its_lab(lab: str, node: str) -> None:
    assert names.lab_of(names.namespace(names.checked(lab), node)) == lab


@pytest.mark.parametrize(
    "name", ["x", "hawser", "hawser.x", "hawser..y", "hawser.A.y", "other.x.y"]
)
def test_namespaces_of_others_belong_to_no_lab(name: str) -> None:
    assert names.lab_of(name) is None


def emulator(name: str, control: str) -> WanDaemon:
    config = WanConfig(control=PurePosixPath(control), wires=(), emulated=())
    return WanDaemon(node="n", name=name, config=config)


def test_the_longest_names_fit_a_socket_path() -> None:
    daemon = emulator("n" * 31, "n" * 31 + ".sock")
    path = names.control_socket(names.ROOT / ("x" * 48), daemon)
    assert len(str(path)) <= 107


@pytest.mark.parametrize("control", ["/etc/passwd", "../x.sock"])
def test_sockets_stay_in_the_lab(control: str) -> None:
    daemon = emulator("n", control)
    with pytest.raises(DriverError, match="expected a file name"):
        names.control_socket(names.ROOT / "x", daemon)


def test_a_lab_is_claimed_once(tmp_path: Path) -> None:
    state.create(tmp_path / "x")
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o700
    with pytest.raises(DriverError, match="half made"):
        state.create(tmp_path / "x")
    state.write(tmp_path / "x", record("x"))
    with pytest.raises(DriverError, match=f"made by process {os.getpid()}"):
        state.create(tmp_path / "x")


def test_records_come_back(tmp_path: Path) -> None:
    state.create(tmp_path / "x")
    state.write(tmp_path / "x", record("x"))
    assert state.read(tmp_path / "x") == record("x")
    daemon = state.DaemonRecord(process=record("x").maker, restarts=3)
    state.write_daemon(tmp_path / "x", "gw1", daemon)
    assert state.read_daemon(tmp_path / "x", "gw1") == daemon
    assert state.recorded_processes(tmp_path / "x") == (daemon.process,)
    assert daemon.process.alive()
    assert not daemon.process.model_copy(update={"started": 0}).alive()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"name": "x"}', "\0" * 100])
def test_a_damaged_record_is_remains(tmp_path: Path, text: str) -> None:
    state.create(tmp_path / "x")
    (tmp_path / "x" / "lab.json").write_text(text)
    (tmp_path / "x" / "daemons" / "gw1.json").write_text(text)
    with pytest.raises(DriverError, match="only remains are left"):
        state.read(tmp_path / "x")
    assert state.recorded_processes(tmp_path / "x") == ()
    state.remove(tmp_path / "x")
    with pytest.raises(DriverError, match="none of that name"):
        state.read(tmp_path / "x")


def test_a_lock_is_held_by_one(tmp_path: Path) -> None:
    state.create(tmp_path / "x")
    first = state.locked(tmp_path / "x", 0)
    refused = pytest.raises(DriverError, match="another process")
    with first, refused, state.locked(tmp_path / "x", 0.05):
        pytest.fail("locked twice")
    with state.locked(tmp_path / "x", 0):
        pass


def test_a_lock_on_a_lab_that_was_made_anew_is_none(tmp_path: Path) -> None:
    state.create(tmp_path / "x")
    handle = os.open(tmp_path / "x", os.O_RDONLY)
    state.remove(tmp_path / "x")
    state.create(tmp_path / "x")
    with pytest.raises(DriverError, match="removed meanwhile"):
        state._acquire(handle, tmp_path / "x", 0)
    os.close(handle)
    with pytest.raises(DriverError, match="none of that name"), state.locked(tmp_path / "y", 0):
        pass


def test_configurations_get_absolute_paths(tmp_path: Path) -> None:
    config = gateway_daemon("gw1", "gw1", "b1").config.placed(tmp_path)
    state.create(tmp_path / "x")
    written = json.loads(state.write_config(tmp_path / "x", "gw1", config).read_text())
    assert GatewayConfig.model_validate(written) == config
    assert written["control"] == f"{tmp_path}/gw1.sock"
    assert written["transport"]["tls"]["key"] == f"{tmp_path}/pki/b1.key"


def test_certificates(tmp_path: Path) -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    pki.make(tmp_path, ["b1", "b2"], now)
    found = {p.name: stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()}
    assert found == dict.fromkeys(["ca.pem", "b1.pem", "b1.key", "b2.pem", "b2.key"], 0o600)
    ca, one, two = (
        x509.load_pem_x509_certificate((tmp_path / f"{name}.pem").read_bytes())
        for name in ("ca", "b1", "b2")
    )
    for certificate in (one, two):
        certificate.verify_directly_issued_by(ca)
        assert certificate.not_valid_before_utc < now < certificate.not_valid_after_utc
    assert one.serial_number != two.serial_number
    with pytest.raises(FileExistsError):
        pki.make(tmp_path, ["b1"], now)
