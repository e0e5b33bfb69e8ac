"""What a provider runs at the router of lab/gateway/addresses.py: DHCP, DNS, NAT."""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path

from lab.gateway.pair import Lab
from lab.waiting import PATIENCE, until

_CLIENT = """#!/bin/sh
# As udhcpc calls it: deconfig, bound, renew or nak, with the lease in variables.
case "$1" in
deconfig) ip -4 addr flush dev "$interface" ;;
bound | renew)
    ip addr replace "$ip/$mask" dev "$interface"
    ip route replace default via "$router" dev "$interface" metric 1
    ;;
esac
"""


class Dhcp:
    """A DHCP server at port `ia`, and a client on `wa` of branch 1."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._server: subprocess.Popen[str] | None = None
        self._leases = 0
        script = lab.folder / "lease.sh"
        script.write_text(_CLIENT)
        script.chmod(0o755)
        client = ("udhcpc", "-f", "-i", "wa", "-s", str(script), "-t", "2", "-T", "1", "-A", "1")
        self._client = lab.start(1, *client, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def serve(self, host: int) -> None:
        """Hand out this address and no other, from now on."""
        if self._server:
            self._server.terminate()
            self._server.wait(PATIENCE)
        self._leases += 1
        address = f"198.18.1.{host}"
        self._server = self._lab.start(
            0, "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--port=0",
            "--interface=ia", "--bind-interfaces", "--user=root", "--no-ping",
            f"--pid-file={self._lab.folder}/dhcp.pid", "--dhcp-authoritative",
            f"--dhcp-leasefile={self._lab.folder}/leases.{self._leases}",
            f"--dhcp-range={address},{address},255.255.255.0,2m",
            "--dhcp-option=option:router,198.18.1.1", "--log-facility=/dev/null",
        )  # fmt: skip
        until(lambda: ":67 " in self._lab.at(0, "ss", "-Hlun"), "the DHCP server listens")

    def renew(self) -> None:
        """Let the client ask for its lease again."""
        self._client.send_signal(signal.SIGUSR1)


class Dns:
    """A name server at the router's `ia`, which branch 1 asks. Leaving the context ends that."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._hosts = lab.folder / "hosts"
        self._settings = Path("/etc/netns", f"{lab.prefix}-1")

    def __enter__(self) -> Dns:
        self._settings.mkdir(parents=True)
        (self._settings / "resolv.conf").write_text("nameserver 198.18.1.1\noptions timeout:1\n")
        self._hosts.write_text("")
        self._server = self._lab.start(
            0, "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv",
            "--no-hosts", f"--addn-hosts={self._hosts}", "--listen-address=198.18.1.1",
            "--bind-interfaces", "--user=root", "--local=/test/", "--log-facility=/dev/null",
            f"--pid-file={self._lab.folder}/dns.pid",
        )  # fmt: skip
        until(lambda: "198.18.1.1:53" in self._lab.at(0, "ss", "-Hlun"), "the name server listens")
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._settings)

    def say(self, name: str, address: str) -> None:
        """Answer with this address, from now on."""
        self._hosts.write_text(f"{address} {name}\n")
        self._server.send_signal(signal.SIGHUP)


def masquerade(lab: Lab, number: int = 0, interface: str = "i2") -> None:
    """Translate what leaves the router to branch 2: each flow gets a port of its own, at random.

    That is address and port-dependent mapping (RFC 4787 section 4.1).
    """
    hook = "type nat hook postrouting priority srcnat;"
    rule = f"oifname {interface} masquerade fully-random"
    rules = f"table ip nat {{\nchain out {{\n{hook}\n{rule}\n}}\n}}\n"
    (lab.folder / "nat.nft").write_text(rules)
    lab.at(number, "nft", "-f", str(lab.folder / "nat.nft"))


def rebind(lab: Lab, host: int) -> None:
    """Give the router another address towards branch 2: it forgets all translations."""
    lab.at(0, "ip", "-4", "addr", "flush", "dev", "i2")
    lab.at(0, "ip", "addr", "add", f"198.18.3.{host}/24", "dev", "i2")
