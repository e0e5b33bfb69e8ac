"""Daemons of a lab are started, waited for, restarted and ended. A stand-in plays `hawserd`.

 a                        b
+-----------------+      +-----------------+
| daemon gw-a     |      | daemon gw-b     |
| e  10.0.0.1/24  |--x---| e  10.0.0.2/24  |
+-----------------+      +-----------------+
"""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from hawser.control.client import ControlError, DaemonClient
from hawser.driver import daemon as daemons
from hawser.driver.base import DriverError
from hawser.driver.local import LocalDriver, LocalLab
from hawser.node.process import started
from hawser.overlay.config.gateway import Tun
from hawser.overlay.lab.plan import GatewayDaemon, NetworkPlan
from lab import PROGRAMS
from lab.plans.small import gateway_daemon, pair
from lab.waiting import until

pytestmark = pytest.mark.root

Deploy = Callable[[NetworkPlan], LocalLab]


@pytest.fixture(autouse=True)
def _stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAWSERD", str(PROGRAMS / "fake_gateway.py"))


def plan(*, tls: bool = False, **fake: str) -> NetworkPlan:
    """Two nodes with a daemon each; `a="exit"` makes the one on a misbehave."""
    return pair(
        daemons=tuple(_misbehaving(node, "b1" if tls else None, fake.get(node)) for node in "ab")
    )


def _misbehaving(node: str, tls: str | None, fake: str | None) -> GatewayDaemon:
    daemon = gateway_daemon(f"gw-{node}", node, tls)
    tun = Tun(name=fake or "hawser0", mtu=1500)
    return daemon.model_copy(update={"config": daemon.config.model_copy(update={"tun": tun})})


def test_daemons_run_in_their_nodes_and_answer(deploy: Deploy) -> None:
    lab = deploy(plan())
    for name, node in (("gw-a", "a"), ("gw-b", "b")):
        daemon = lab.daemons[name]
        assert (daemon.node, daemon.restarts) == (node, 0)
        here = Path(f"/run/netns/hawser.{lab.name}.{node}").stat().st_ino
        assert Path(f"/proc/{daemon.pid}/ns/net").stat().st_ino == here
        with DaemonClient(daemon.control) as client:
            assert client.status().ready
    assert "line one" in (lab.directory / "logs" / "gw-a.log").read_text()


def test_paths_in_the_configuration_become_absolute(deploy: Deploy) -> None:
    lab = deploy(plan(tls=True))
    config = json.loads((lab.directory / "config" / "gw-a.json").read_text())
    assert config["control"] == str(lab.directory / "gw-a.sock")
    assert config["transport"]["tls"] == {
        "certificate": str(lab.directory / "pki" / "b1.pem"),
        "key": str(lab.directory / "pki" / "b1.key"),
        "ca": str(lab.directory / "pki" / "ca.pem"),
    }


def test_certificates_are_the_branches(deploy: Deploy) -> None:
    lab = deploy(plan(tls=True))
    pki = lab.directory / "pki"
    ca, own = (x509.load_pem_x509_certificate((pki / f).read_bytes()) for f in ("ca.pem", "b1.pem"))
    own.verify_directly_issued_by(ca)
    names = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["b1"]
    public = own.public_key()
    assert isinstance(public, ec.EllipticCurvePublicKey)
    assert public.curve.name == "secp256r1"
    assert stat.S_IMODE((pki / "b1.key").stat().st_mode) == 0o600
    assert not (pki / "ca.key").exists()
    for purpose in ("sslserver", "sslclient"):
        command = ["openssl", "verify", "-purpose", purpose, "-CAfile", "ca.pem", "b1.pem"]
        assert subprocess.run(command, cwd=pki, check=True, capture_output=True).stdout


def test_a_killed_daemon_is_started_again_and_counted(deploy: Deploy) -> None:
    lab = deploy(plan())
    daemon = lab.daemons["gw-a"]
    for restarts in (1, 2):
        before = daemon.pid
        os.kill(before, signal.SIGKILL)
        until(lambda n=restarts: daemon.restarts == n and daemon.control.exists())
        assert daemon.pid != before
        until(lambda: _answers(daemon.control))
    assert lab.daemons["gw-b"].restarts == 0
    attached = LocalDriver().attach(lab.name).daemons["gw-a"]
    assert (attached.pid, attached.restarts) == (daemon.pid, 2)


def _said(control: Path) -> bool:
    """Whether a daemon answers, whatever it says."""
    try:
        with DaemonClient(control) as client:
            return client.status() is not None
    except ControlError:
        return False


def _answers(control: Path) -> bool:
    try:
        with DaemonClient(control) as client:
            return client.status().ready
    except Exception:
        return False


def test_a_daemon_that_ends_at_once_is_an_error_with_its_last_words(
    driver: LocalDriver, lab_name: str
) -> None:
    with pytest.raises(DriverError, match=r"gw-b ended at once\n(.*\n)*.*found 99, expected 1 to"):
        driver.deploy(lab_name, plan(b="exit"))
    assert lab_name not in driver.labs()


def test_a_daemon_that_is_never_ready_is_an_error(
    driver: LocalDriver, lab_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = 0

    def clock() -> float:
        """Time passes once the daemon has answered that it is not ready."""
        nonlocal answers
        answers += _said(Path("/run/hawser") / lab_name / "gw-a.sock")
        return answers * daemons.READY_WITHIN

    wait = daemons.wait_ready
    monkeypatch.setattr(daemons, "wait_ready", lambda running: wait(running, clock))
    with pytest.raises(DriverError, match=r"gw-a not ready after 15 s: not connected to b2"):
        driver.deploy(lab_name, plan(a="mute"))
    assert lab_name not in driver.labs()


def test_a_daemon_that_is_not_built_is_missing(
    driver: LocalDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAWSERD", "/nonexistent/hawserd")
    assert driver.missing(plan()) == (
        "hawserd is not built (/nonexistent/hawserd): run `cargo build --release`",
    )


def test_a_socket_path_that_is_too_long_is_refused(driver: LocalDriver) -> None:
    long = gateway_daemon("g" * 60, "a")
    with pytest.raises(DriverError, match="longer than 107 bytes"):
        driver.deploy("x" * 48, pair(daemons=(long,)))
    assert "x" * 48 not in driver.labs()


def test_another_process_that_destroys_the_lab_is_not_fought(
    driver: LocalDriver, deploy: Deploy
) -> None:
    lab = deploy(plan())
    pids = [daemon.pid for daemon in lab.daemons.values()]
    driver.destroy(lab.name)
    time.sleep(0.5)  # longer than the first restarts would take
    assert [started(pid) for pid in pids] == [None, None]
    assert [daemon.restarts for daemon in lab.daemons.values()] == [0, 0]
    assert lab.name not in driver.labs()


def test_supervision_outlives_a_program_that_is_away_for_a_while(
    deploy: Deploy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "hawserd"
    program.symlink_to(PROGRAMS / "fake_gateway.py")
    monkeypatch.setenv("HAWSERD", str(program))
    daemon = deploy(plan()).daemons["gw-a"]
    program.rename(tmp_path / "elsewhere")
    os.kill(daemon.pid, signal.SIGKILL)
    time.sleep(0.3)
    assert daemon.restarts == 0
    (tmp_path / "elsewhere").rename(program)
    until(lambda: daemon.restarts == 1 and _answers(daemon.control))
