"""Two controllers on one PostgreSQL, behind HAProxy.

    simulated gateways --- gateways' port +-----------+ --- controller one --+
                                          |  HAProxy  |                      +-- PostgreSQL
    client --------------- API ---------- +-----------+ --- controller two --+

All on the loopback; no namespaces are needed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from harness.controller import Controller, Gateways
from harness.gateways import names
from harness.ports import free_ports
from hawser.spec.units import Size
from lab.controller.postgres import INITDB, Postgres
from lab.waiting import until

pytestmark = [
    pytest.mark.root,
    pytest.mark.slow,
    pytest.mark.skipif(INITDB is None, reason="PostgreSQL (Debian postgresql) lacks"),
    pytest.mark.skipif(not shutil.which("haproxy"), reason="HAProxy (Debian haproxy) lacks"),
]

_log = logging.getLogger(__name__)

GATEWAYS = 12
AWAY_S = float(os.environ.get("HAWSER_AWAY", "8"))

PROXY = """
defaults
  mode tcp
  timeout connect 1s
  timeout client 1h
  timeout server 1h
  retries 3
  option redispatch
  default-server check inter 300ms fall 2 rise 1 on-marked-down shutdown-sessions
listen api
  bind 127.0.0.1:{api}
  balance roundrobin
  server one 127.0.0.1:{one.api_port}
  server two 127.0.0.1:{two.api_port}
listen gateways
  bind 127.0.0.1:{gateways}
  balance roundrobin
  server one 127.0.0.1:{one.gateways_port}
  server two 127.0.0.1:{two.gateways_port}
"""


@contextlib.contextmanager
def proxy(folder: Path, one: Controller, two: Controller) -> Iterator[tuple[int, int]]:
    """HAProxy before two controllers; gives its ports for the API and for gateways."""
    api, gateways = free_ports(2)
    file = folder / "haproxy.cfg"
    file.write_text(PROXY.format(api=api, gateways=gateways, one=one, two=two))
    with (folder / "haproxy.log").open("wb") as log:
        process = subprocess.Popen(["haproxy", "-db", "-f", str(file)], stdout=log, stderr=log)
    try:
        yield api, gateways
    finally:
        process.terminate()
        process.wait(30)


def changes(client: httpx.Client, made: dict[int, int], end: threading.Event) -> None:
    """Change the network again and again; remember what was acknowledged."""
    queue = 1000
    while not end.is_set():
        queue += 1
        body = {"patch": {"overlay": {"queue": f"{queue} kB"}}, "reason": "a test"}
        with contextlib.suppress(httpx.HTTPError):
            answer = client.patch("/v1/network", json=body, timeout=10)
            if answer.status_code == 200:
                made[answer.json()["number"]] = queue
        time.sleep(0.5)


def in_force(client: httpx.Client) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        found = client.get("/v1/gateways").json()
        return all(each["configuration"]["state"] == "in_force" for each in found)
    return False


def answers(client: httpx.Client) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return client.get("/v1/gateways").status_code == 200
    return False


def numbers(controller: Controller, branch: int, *, here: bool = False) -> set[int]:
    """Reports of a gateway that a controller knows. The first series numbers them."""
    asked = {"branch": f"b{branch}", "series": names()[0], "resolution": "1s", "here": str(here)}
    with contextlib.closing(controller.client()) as client:
        found = client.get("/v1/statistics/history", params=asked).raise_for_status().json()
    return {round(each) for each in found["series"][0]["mean"]}


def test_one_of_two_controllers_is_killed_and_the_database_goes_away(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(tempfile.TemporaryDirectory(prefix="hawser-postgres-"))
        postgres = Postgres(Path(place))
        stack.callback(postgres.end)
        one = Controller(tmp_path, GATEWAYS, postgres.new())
        two = one.another(tmp_path / "two")
        api, port = stack.enter_context(proxy(tmp_path, one, two))
        for controller in (one, two):
            controller.start()
            stack.callback(controller.stop, signal.SIGKILL)
        one.client().close()
        two.client().close()
        client = one.client(api)
        stack.callback(client.close)
        gateways = Gateways(tmp_path, port, GATEWAYS, None, 2.0)
        stack.callback(gateways.stop)
        until(lambda: gateways.ask("state")["kept"].get("1") == GATEWAYS, "all are configured")
        kill(one, client, gateways)
        stop(postgres, client, gateways)
        ended = gateways.ask("end")
        assert ended["dropped"] == 0
        assert ended["acknowledged"] == ended["reports"]
        one.start()
        for branch, count in enumerate(ended["sequences"]):
            both = numbers(one, branch, here=True) | numbers(two, branch, here=True)
            assert both == set(range(count))
        until(lambda: numbers(one, 0) == set(range(ended["sequences"][0])), "each tells all")
        assert numbers(two, 0) == set(range(ended["sequences"][0]))
        assert any(numbers(one, n, here=True) != numbers(one, n) for n in range(GATEWAYS))


def kill(controller: Controller, client: httpx.Client, gateways: Gateways) -> None:
    """Kill a controller while the network is changed; nothing that was acknowledged is lost."""
    made: dict[int, int] = {}
    end = threading.Event()
    changing = threading.Thread(target=changes, args=(client, made, end))
    changing.start()
    until(lambda: len(made) >= 3, "changes are made")
    began = time.monotonic()
    controller.stop(signal.SIGKILL)
    until(lambda: answers(client), "the API goes on")
    _log.info("API again after %.1f s", time.monotonic() - began)
    until(lambda: gateways.ask("state")["connected"] == GATEWAYS, "all are connected")
    state = gateways.ask("state")
    _log.info("gateways were without a controller for %.1f s", state["longest_gap_s"])
    assert state["connections"] > GATEWAYS
    count = len(made)
    until(lambda: len(made) >= count + 3, "changes go on")
    end.set()
    changing.join()
    until(lambda: in_force(client), "all have the newest configuration")
    for number, queue in made.items():
        found = client.get(f"/v1/versions/{number}").json()["network"]["overlay"]["queue"]
        assert Size.parse(found) == queue * 1000
    assert client.get("/v1/audit/check").json()["broken"] is None


def stop(postgres: Postgres, client: httpx.Client, gateways: Gateways) -> None:
    """Stop the database for a while, and change the network after it; gateways do not notice."""
    before = gateways.ask("state")
    postgres.stop()
    time.sleep(AWAY_S)
    assert client.get("/v1/gateways").status_code == 503
    postgres.start()
    until(lambda: answers(client), "the API is back")
    body = {"patch": {"overlay": {"queue": "9 MB"}}, "reason": "a test"}
    until(lambda: client.patch("/v1/network", json=body).status_code == 200)
    until(lambda: in_force(client), "all have the newest configuration")
    after = gateways.ask("state")
    assert after["connections"] == before["connections"]
