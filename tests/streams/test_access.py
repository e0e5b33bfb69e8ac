"""A Kafka that demands certificates and passwords: sidecars and the job show theirs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from flow_models import CONTENT, sealed
from flow_records import record
from harness.ports import free_port
from hawser.driver.parts import pki
from hawser.ids.cluster import kafka as cluster_kafka
from hawser.ids.cluster.job import Job
from hawser.ids.cluster.kafka import Broker
from hawser.ids.errors import Unavailable
from hawser.ids.stream import access, kafka
from hawser.ids.stream.names import VERDICTS
from hawser.ids.stream.reader import Place, Reader
from sensor_log import SensorLog
from streams.conftest import Cluster, until
from streams.test_streams import NOW_US, RUNS, count, shipping

_SECURE = """\
listeners=PLAINTEXT://127.0.0.1:{{port}},CONTROLLER://127.0.0.1:{{controller}},SECURE://127.0.0.1:{secure}
advertised.listeners=PLAINTEXT://127.0.0.1:{{port}},SECURE://localhost:{secure}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL
sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.secure.scram-sha-512.sasl.jaas.config={module} required;
listener.name.secure.ssl.client.auth=required
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
ssl.keystore.type=PEM
ssl.keystore.location={folder}/kafka.pem
ssl.truststore.type=PEM
ssl.truststore.location={folder}/ca.pem
"""
_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_USER, _PASSWORD = "sensor-b1", 'a "word"\\'
_ACCESS = """\
protocol = "SASL_SSL"
authority = "ca.pem"
certificate = "b1.pem"
key = "b1.key"
user = "{user}"
password_file = "password"
"""


@dataclass
class Secured:
    """A broker with a second listener, which asks who comes."""

    cluster: Cluster
    address: str
    folder: Path

    def access(self, *, without: str = "", user: str = _USER) -> Path:
        """Write an access file, without some of its lines."""
        lines = _ACCESS.format(user=user).splitlines(keepends=True)
        file = self.folder / "kafka.toml"
        file.write_text("".join(line for line in lines if line.split()[0] not in without.split()))
        return file


@pytest.fixture
def secured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Secured:
    pki.make(tmp_path, ["localhost", "b1"])
    own = (tmp_path / "localhost.key").read_text() + (tmp_path / "localhost.pem").read_text()
    (tmp_path / "kafka.pem").write_text(own)
    (tmp_path / "password").write_text(_PASSWORD + "\n")
    secure = free_port()
    changed = _SECURE.format(secure=secure, folder=tmp_path, module=_MODULE)
    names = {line.partition("=")[0] for line in changed.splitlines()}
    plain = cluster_kafka._PROPERTIES.splitlines(keepends=True)
    kept = "".join(line for line in plain if line.partition("=")[0] not in names)
    monkeypatch.setattr(cluster_kafka, "_PROPERTIES", kept + changed)
    model = tmp_path / "model.json"
    model.write_bytes(sealed(CONTENT))
    broker = Broker(tmp_path / "cluster", free_port())
    made = Cluster(broker, Job(broker.folder, broker.address, model))
    return Secured(made, f"localhost:{secure}", tmp_path)


def test_records_and_verdicts_pass_with_tls_and_password(secured: Secured) -> None:
    cluster, file = secured.cluster, secured.access()
    job = Job(cluster.broker.folder, secured.address, cluster.job.model, access=file)
    (secured.folder / "b1").mkdir()
    log = SensorLog(secured.folder / "b1", run=RUNS["b1"])
    for port in range(140):
        tried = {"srcip": "203.0.113.9", "dstip": "10.1.0.1", "dstport": port}
        log.add(record(last_us=NOW_US + port, is_conversation=False, **tried))
    try:
        cluster.start_kafka()
        _add_user(cluster.broker.address)
        kafka.make_topics(cluster.broker.address)  # the user may not
        job.start()
        with shipping(cluster, secured.folder / "b1", "b1", secured.address, file):
            until("all is stored", lambda: count(job.store / "records") == 140)
            reader = Reader(secured.address, VERDICTS, access.read(file))
            reader.begin(Place(), 0)
            until("the scan is named", lambda: reader.next(1) is not None)
            reader.end()
        for changed, why in (
            ({"user": "nobody"}, "SASL authentication error"),
            ({"without": "certificate key"}, "SSL"),
            ({"without": "authority"}, "certificate verify failed"),
        ):
            found = access.read(secured.access(**changed))
            with pytest.raises(Unavailable, match=why):
                kafka.make_topics(secured.address, found, timeout_s=10)
    finally:
        job.stop()
        cluster.broker.stop()


def _add_user(brokers: str) -> None:
    """Add the user, who may read and write, and make nothing."""
    admin = AdminClient(kafka.client(brokers))
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    wanted = UserScramCredentialUpsertion(_USER, info, _PASSWORD.encode())
    made = [*admin.alter_user_scram_credentials([wanted]).values()]
    allowed = [
        (ResourceType.TOPIC, "hawser.", (AclOperation.READ, AclOperation.WRITE)),
        (ResourceType.TRANSACTIONAL_ID, "hawser-", (AclOperation.WRITE,)),
        (ResourceType.GROUP, "", (AclOperation.READ,)),
    ]
    made += admin.create_acls(
        [
            AclBinding(
                kind,
                name or "*",
                ResourcePatternType.PREFIXED if name else ResourcePatternType.LITERAL,
                f"User:{_USER}",
                "*",
                operation,
                AclPermissionType.ALLOW,
            )
            for kind, name, operations in allowed
            for operation in operations
        ]
    ).values()
    for done in made:
        done.result(30)
