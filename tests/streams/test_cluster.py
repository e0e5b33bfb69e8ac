"""Kafka as `hawser ids cluster` starts it."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from harness.ports import free_port
from hawser.ids.cluster.kafka import Broker
from hawser.ids.stream import kafka
from streams.conftest import until

DASH = uuid.UUID(bytes=b"\xf8" + bytes(15))
"""Begins with a dash in base64url, as one of 64 random ones does."""


def test_a_cluster_id_may_begin_with_a_dash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uuid, "uuid4", lambda: DASH)
    broker = Broker(tmp_path, free_port())
    try:
        broker.start()
        until("Kafka answers", lambda: kafka.is_ready(broker.address))
    finally:
        broker.stop()
    assert "cluster.id=-" in (tmp_path / "kafka" / "meta.properties").read_text()
