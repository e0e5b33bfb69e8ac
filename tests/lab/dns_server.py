"""A DNS server (RFC 1035) over UDP, whose answers a test changes."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Mapping, Sequence

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset


class DnsServer:
    """Answers for A records from `zone`, in a thread, until the context is left."""

    def __init__(self, made: socket.socket, zone: Mapping[str, Sequence[str]]) -> None:
        self._socket = made
        self.zone = dict(zone)
        """Addresses by name; a name with none has other records only."""
        self.ttl = 60
        self.silent = False
        self.asked: list[str] = []
        self.port: int = made.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> DnsServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # it is closed
            while True:
                packet, client = self._socket.recvfrom(4096)
                if not packet:
                    return
                answer = self._answer(dns.message.from_wire(packet))
                if not self.silent:
                    self._socket.sendto(answer.to_wire(), client)

    def _answer(self, query: dns.message.Message) -> dns.message.Message:
        (question,) = query.question
        name = str(question.name).rstrip(".")
        self.asked.append(name)
        answer = dns.message.make_response(query)
        answer.flags |= dns.flags.RA
        found = self.zone.get(name)
        if found is None:
            answer.set_rcode(dns.rcode.NXDOMAIN)
        elif found and question.rdtype == dns.rdatatype.A:
            answer.answer.append(dns.rrset.from_text(question.name, self.ttl, "IN", "A", *found))
        return answer
