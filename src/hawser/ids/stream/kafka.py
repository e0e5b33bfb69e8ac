"""Kafka as this package uses it: topics, transactions, places in logs."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from hawser.ids.errors import Fenced, IdsError, Unavailable
from hawser.ids.stream.access import OPEN, Access
from hawser.ids.stream.names import PLACES, RECORDS, VERDICTS
from hawser.ids.stream.progress import Progress, Record

_SENSOR: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
PARTITIONS: Final = 4
"""Of records, where the topic is made here: as many cores can score."""
_TIMEOUT_S: Final = 30.0
_LEFT: Final = (
    KafkaError.TOPIC_ALREADY_EXISTS,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
)
"""Why a topic is not made."""
_TRANSACTION_MS: Final = 20_000
"""After which what a killed sender began is aborted. Until then it hides what others send."""


def client(brokers: str, access: Access = OPEN) -> dict[str, Any]:
    """Settings of every client. What its library would print itself comes back as errors.

    Raises:
        IdsError: a file of the access cannot be read.
    """
    return {
        **access.librdkafka(),
        "bootstrap.servers": brokers,
        "log_level": 0,
        "log.connection.close": False,
        "reconnect.backoff.max.ms": 2000,
    }


def make_topics(brokers: str, access: Access = OPEN, timeout_s: float = _TIMEOUT_S) -> None:
    """Make the topics that are missing. Who may not make any uses those that are there.

    Raises:
        IdsError: a file of the access cannot be read.
        Unavailable: Kafka does not answer, or refuses: the reason of TLS and SASL too.
    """
    said: list[str] = []
    noted: dict[str, Any] = {"error_cb": lambda error: said.append(error.str())}
    admin = AdminClient(client(brokers, access) | noted)
    # Small segments are compacted soon: who takes over reads all places that are left.
    compacted = {
        "cleanup.policy": "compact",
        "segment.bytes": str(8 << 20),
        "min.cleanable.dirty.ratio": "0.1",
    }
    wanted = [
        NewTopic(RECORDS, PARTITIONS),
        NewTopic(PLACES, 1, config=compacted),
        NewTopic(VERDICTS, 1),
    ]
    deadline = time.monotonic() + timeout_s
    for done in admin.create_topics(wanted, operation_timeout=timeout_s).values():
        try:
            while not done.done() and time.monotonic() < deadline:
                admin.poll(0.1)  # which calls back
            done.result(0)
        except KafkaException as error:
            if error.args[0].code() not in _LEFT:
                raise Unavailable(said[0] if said else str(error)) from error
        except TimeoutError as error:
            raise Unavailable(said[0] if said else "no answer") from error


def is_ready(brokers: str, timeout_s: float = 2.0) -> bool:
    """Say whether a broker answers."""
    try:
        AdminClient(client(brokers)).list_topics(timeout=timeout_s)
    except KafkaException:
        return False
    return True


@dataclass
class Sender:
    """Sends the records of one sensor, and its place with them, in transactions.

    Only one process at a time can: a second one of this sensor fences off the first.
    """

    brokers: str
    sensor: str
    access: Access = OPEN

    def __post_init__(self) -> None:
        """Raises IdsError if the sensor's name is none."""
        if not _SENSOR.fullmatch(self.sensor):
            raise IdsError(
                "sensor",
                f"found {self.sensor!r}, expected 1 to 64 letters, digits, dots and dashes",
            )
        self._producer: Producer | None = None

    def begin(self) -> Progress:
        """Take over from an earlier process, and give its place.

        Raises:
            Unavailable: Kafka does not answer.
        """
        make_topics(self.brokers, self.access)
        producer = Producer(
            {
                **client(self.brokers, self.access),
                "transactional.id": f"hawser-{self.sensor}",
                "transaction.timeout.ms": _TRANSACTION_MS,
                "linger.ms": 5,
                "compression.type": "lz4",
            }
        )
        try:
            # Also ends what the earlier process had begun: after it, its place is final.
            producer.init_transactions(_TIMEOUT_S)
            found = self._place()
        except KafkaException as error:
            raise Unavailable(str(error)) from error
        self._producer = producer
        return found

    def send(self, records: Sequence[Record], progress: Progress) -> None:
        """Send records and the place behind them: all, or nothing.

        After any error, `begin` says what was sent.

        Raises:
            Unavailable: Kafka does not answer.
            Fenced: another process has taken over.
        """
        producer = self._producer
        if producer is None:
            raise Unavailable("not begun")
        try:
            producer.begin_transaction()
            for record in records:
                _produce(producer, RECORDS, record.flow.encode(), record.value)
            _produce(producer, PLACES, self.sensor.encode(), progress.dump())
            producer.commit_transaction(_TIMEOUT_S)
        except (KafkaException, BufferError) as error:
            self._producer = None
            if isinstance(error, KafkaException) and _is_fenced(error.args[0]):
                raise Fenced(f"another process sends the records of {self.sensor}") from error
            raise Unavailable(str(error)) from error

    def _place(self) -> Progress:
        """Give the last committed place of the sensor."""
        consumer = Consumer(
            {
                **client(self.brokers, self.access),
                "group.id": f"hawser-places-{self.sensor}",  # needed, but never joined
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        try:
            partition = TopicPartition(PLACES, 0, 0)
            _, end = consumer.get_watermark_offsets(partition, timeout=_TIMEOUT_S)
            consumer.assign([partition])
            return _last(consumer, self.sensor, end)
        finally:
            consumer.close()


def _produce(producer: Producer, topic: str, key: bytes, value: bytes) -> None:
    while True:
        try:
            producer.produce(topic, value, key)
        except BufferError:  # the queue is full: Kafka is slower than the log
            if not producer.poll(_TIMEOUT_S):
                raise
        else:
            producer.poll(0)
            return


def _is_fenced(error: KafkaError) -> bool:
    return error.code() in (
        KafkaError._FENCED,  # noqa: SLF001 (librdkafka's own codes are named so)
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
    )


def _last(consumer: Consumer, sensor: str, end: int) -> Progress:
    """Read until `end`, behind all that this sensor has sent.

    Others go on: there may always be more to read. And what one of them has begun and not
    ended hides all that follows until it times out, so the end of what is visible is not enough.
    """
    found = Progress()
    deadline = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
            raise KafkaException(error)
        if (message.offset() or 0) >= end:
            return found
        if error is None and message.key() == sensor.encode():
            found = _progress(message.value() or b"")
    raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001


def _progress(message: bytes) -> Progress:
    try:
        return Progress.load(message)
    except ValueError as problem:
        raise IdsError(f"topic {PLACES}", str(problem)) from problem
