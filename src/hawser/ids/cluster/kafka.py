"""A broker of Kafka on the loopback: one node, KRaft, no replicas."""

from __future__ import annotations

import base64
import subprocess
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hawser.ids.cluster import jars, processes
from hawser.ids.errors import IdsError
from hawser.store import files

_PROPERTIES: Final = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
offsets.topic.num.partitions=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
log.retention.hours=168
log.retention.bytes={retention}
"""
_RETENTION: Final = 2 << 30
"""Of each partition, bytes."""
_HEAP: Final = "512m"
_TIMEOUT_S: Final = 120


@dataclass(frozen=True)
class Broker:
    """A broker in a folder."""

    folder: Path
    port: int

    @property
    def address(self) -> str:
        """Where clients reach it."""
        return f"127.0.0.1:{self.port}"

    @property
    def record(self) -> Path:
        """File that says which process it is."""
        return self.folder / "kafka.json"

    def start(self) -> None:
        """Start it, unless it runs; its data stay over restarts.

        Raises:
            Lacking: Java or Maven is missing.
            IdsError: its storage cannot be made.
        """
        if processes.running(self.record):
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        data = self.folder.resolve() / "kafka"
        properties = self.folder / "server.properties"
        text = _PROPERTIES.format(
            port=self.port, controller=self.port + 1, data=data, retention=_RETENTION
        )
        files.write(properties, text.encode())
        if not (data / "meta.properties").exists():
            self._format(properties)
        processes.start(
            self._java("kafka.Kafka", str(properties)), self.record, self.folder / "kafka.log", {}
        )

    def _format(self, properties: Path) -> None:
        name = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # It may begin with a dash, which would be taken for an option.
        options = (f"--cluster-id={name}", f"--config={properties}")
        command = self._java("kafka.tools.StorageTool", "format", *options)
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["its storage cannot be made"]
            raise IdsError("Kafka", lines[-1])

    def _java(self, *arguments: str) -> list[str]:
        classes = f"{jars.folder('kafka')}/*"
        return [jars.java(), f"-Xmx{_HEAP}", "-cp", classes, *arguments]

    def stop(self) -> bool:
        """End it; says whether it ran."""
        return processes.stop(self.record)
