"""Reads a topic from a place that is kept in a file, without a consumer group.

Every sensor needs all messages, so nothing is shared out, and Kafka would forget the place of a
group that was away for a week. The place is written when a message was dealt with: after a crash
the last one comes again, and none is left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from hawser.ids.errors import IdsError, Unavailable
from hawser.ids.stream.access import OPEN, Access
from hawser.ids.stream.kafka import client
from hawser.store import files

_TIMEOUT_S: Final = 30.0
_SIZE_MAX: Final = 1 << 20
"""Bytes of the file that are read at most."""
_LARGEST: Final = 2**63 - 1
_SETTINGS: Final[Mapping[str, Any]] = {
    "group.id": "hawser-verdicts",  # needed, but never joined
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    # Messages that Kafka has removed meanwhile are too old to matter.
    "auto.offset.reset": "earliest",
    # Whoever may write to the topic may write large messages.
    "queued.max.messages.kbytes": 16 << 10,
}


@dataclass(frozen=True)
class Place:
    """How far a topic was read."""

    cluster: str = ""
    """Id of the cluster whose topic it is: another one numbers its messages anew."""
    offsets: Mapping[int, int] = field(default_factory=dict)
    """Number of the next message, by partition."""

    @classmethod
    def read(cls, file: Path) -> Place:
        """Read it; nowhere if there is no file yet.

        Raises:
            IdsError: the file is none of a place.
        """
        try:
            with file.open("rb") as opened:
                found = json.loads(opened.read(_SIZE_MAX))
            offsets = {int(key): _offset(value) for key, value in found["offsets"].items()}
            return cls(str(found["cluster"]), offsets)
        except FileNotFoundError:
            return cls()
        except OSError as error:
            raise IdsError(file, error.strerror or str(error)) from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise IdsError(file, "expected a place in a topic; remove it to begin anew") from error

    def write(self, file: Path) -> None:
        """Replace the file.

        Raises:
            OSError: it cannot be written.
        """
        offsets = {str(partition): offset for partition, offset in self.offsets.items()}
        files.write(file, json.dumps({"cluster": self.cluster, "offsets": offsets}).encode())


def _offset(value: object) -> int:
    if type(value) is not int or not 0 <= value <= _LARGEST:
        raise ValueError(f"expected a number, 0 to {_LARGEST}")
    return value


@dataclass(frozen=True)
class Message:
    """A message, and where it is."""

    partition: int
    offset: int
    value: bytes


class Reader:
    """Reads messages from a place on."""

    def __init__(self, brokers: str, topic: str, access: Access = OPEN) -> None:
        """Say what to read; nothing is connected yet."""
        self._brokers, self._topic, self._access = brokers, topic, access
        self._consumer: Consumer | None = None
        self._lost: str | None = None
        """Why no broker is reached any more."""

    def begin(self, place: Place, since_us: int) -> Place:
        """Connect; give the place at which reading begins.

        Partitions that the place says nothing of, and all of another cluster, are read from the
        first message on that was written at `since_us` or later.

        Raises:
            Unavailable: Kafka does not answer, or has no such topic.
        """
        self.end()
        self._lost = None
        try:
            cluster, partitions = self._described()
            consumer = Consumer(
                {**client(self._brokers, self._access), **_SETTINGS, "error_cb": self._note}
            )
        except KafkaException as error:
            raise Unavailable(str(error)) from error
        try:
            known = place.offsets if place.cluster == cluster else {}
            offsets = {each: known[each] for each in partitions if each in known}
            offsets |= self._since(consumer, since_us, partitions - known.keys())
            consumer.assign([TopicPartition(self._topic, *each) for each in offsets.items()])
        except KafkaException as error:
            consumer.close()
            raise Unavailable(str(error)) from error
        self._consumer = consumer
        return Place(cluster, offsets)

    def _described(self) -> tuple[str, set[int]]:
        admin = AdminClient(client(self._brokers, self._access))
        found = admin.list_topics(self._topic, timeout=_TIMEOUT_S)
        topic = found.topics[self._topic]
        if topic.error is not None:
            raise Unavailable(f"topic {self._topic}: {topic.error.str()}")
        return str(found.cluster_id), set(topic.partitions)

    def _since(self, consumer: Consumer, since_us: int, partitions: set[int]) -> dict[int, int]:
        if not partitions:
            return {}
        wanted = [TopicPartition(self._topic, each, since_us // 1000) for each in partitions]
        found = {}
        for each in consumer.offsets_for_times(wanted, timeout=_TIMEOUT_S):
            if each.error is not None:
                raise KafkaException(each.error)
            _, end = consumer.get_watermark_offsets(each, timeout=_TIMEOUT_S)
            found[each.partition] = each.offset if each.offset >= 0 else end
        return found

    def next(self, timeout_s: float) -> Message | None:
        """Give the next message; None if there is none in this time.

        Raises:
            Unavailable: Kafka does not answer, or refuses.
        """
        if self._consumer is None:
            raise Unavailable("not begun")
        found = self._consumer.poll(timeout_s)
        if found is None:
            if self._lost is not None:
                raise Unavailable(self._lost)
            return None
        error = found.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 (librdkafka's own)
                return None
            raise Unavailable(error.str())
        return Message(found.partition() or 0, found.offset() or 0, found.value() or b"")

    def _note(self, error: KafkaError) -> None:
        """Take what the library says of connections; it goes on trying meanwhile."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001
            self._lost = error.str()

    def end(self) -> None:
        """Disconnect."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()
