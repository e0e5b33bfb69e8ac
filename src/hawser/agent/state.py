"""What an agent keeps: who it is, and the last configuration that was good.

joined.json         controller and branch
pki -> pki.N/       the authority's certificate, the branch's certificate and key
good.json           the configuration that is kept, also without a controller
hawserd.json        what the daemon was started with
hawserd.pid, .log, .log.1
ofs/                an OpenFlow switch: database, sockets, logs (hawser.agent.openvswitch)
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated

from cryptography import x509
from pydantic import Field, ValidationError

from hawser.agent.errors import AgentError
from hawser.overlay.config.bridge import FIELD as BRIDGE
from hawser.overlay.config.bridge import Bridge
from hawser.overlay.config.gateway import GatewayConfig
from hawser.overlay.config.steering import FIELD as STEERING
from hawser.overlay.config.steering import Steering
from hawser.pki.file import create_private, replace_private, sync_directory
from hawser.spec.model import Model, Name

CONTROL = "gateway.sock"
"""The daemon's control socket."""


class Joined(Model):
    """The network that a gateway belongs to."""

    host: str
    """The controller's host."""
    port: Annotated[int, Field(ge=1, le=65535)]
    """Its TCP port for gateways."""
    branch: Name


class Kept(Model):
    """A configuration as the controller sent it."""

    version: int
    digest: str
    document: str
    """JSON; its paths are relative to the agent's directory."""

    def config(self) -> GatewayConfig:
        """Read the configuration. The daemon's control socket is always the same.

        Raises:
            ValueError: it is not a configuration that was kept.
        """
        document = json.loads(self.document)
        for field in (STEERING, BRIDGE):
            document.pop(field, None)
        found = GatewayConfig.model_validate_json(json.dumps(document))
        return found.model_copy(update={"control": PurePosixPath(CONTROL)})

    def bridge(self) -> Bridge | None:
        """Read the OpenFlow switch; None where there is none.

        Raises:
            ValueError: it is not a configuration that was kept.
        """
        found = json.loads(self.document).get(BRIDGE)
        return None if found is None else Bridge.model_validate_json(json.dumps(found))

    def steering(self) -> Steering | None:
        """Read the chains of service functions; None where there are none.

        Raises:
            ValueError: it is not a configuration that was kept.
        """
        found = json.loads(self.document).get(STEERING)
        return None if found is None else Steering.model_validate_json(json.dumps(found))


@dataclass(frozen=True)
class StateDirectory:
    """The directory of an agent."""

    path: Path

    @property
    def pki(self) -> Path:
        """Certificates and key in force."""
        return self.path / "pki"

    def authority(self) -> bytes:
        """Give the authority's certificate."""
        return (self.pki / "ca.pem").read_bytes()

    def certificate(self, branch: str) -> x509.Certificate:
        """Give the gateway's certificate."""
        return x509.load_pem_x509_certificate((self.pki / f"{branch}.pem").read_bytes())

    def joined(self) -> Joined:
        """Give the network that this gateway belongs to.

        Raises:
            AgentError: it has not joined one.
        """
        path = self.path / "joined.json"
        try:
            return Joined.model_validate_json(path.read_bytes())
        except FileNotFoundError as error:
            message = f"{path}: this gateway has not joined a network (hawser gateway join)"
            raise AgentError(message) from error
        except ValidationError as error:
            raise AgentError(f"{path}: {error}") from error

    def join(self, joined: Joined) -> None:
        """Write down that this gateway has joined. Certificates are there already."""
        text = joined.model_dump_json(indent=1) + "\n"
        replace_private(self.path / "joined.json", text.encode())

    def pending_key(self) -> Path:
        """The key with which the gateway asks to join: asked again, it is the same."""
        return self.path / "joining.key"

    def put_pki(self, branch: str, authority: bytes, certificate: bytes, key: bytes) -> None:
        """Put certificates and key in force: all of them at once."""
        old = self.pki.readlink().name if self.pki.is_symlink() else ""
        name = f"pki.{int(old.rpartition('.')[2] or 0) + 1}"
        new = self.path / name
        shutil.rmtree(new, ignore_errors=True)  # of a renewal that was not finished
        new.mkdir(mode=0o700)
        files = {"ca.pem": authority, f"{branch}.pem": certificate, f"{branch}.key": key}
        for file, content in files.items():
            create_private(new / file, content, durable=True)
        sync_directory(new)
        link = self.path / ".pki.new"
        link.unlink(missing_ok=True)
        link.symlink_to(name)
        link.replace(self.pki)
        sync_directory(self.path)
        if old:
            shutil.rmtree(self.path / old, ignore_errors=True)

    def good(self) -> Kept | None:
        """Give the configuration that is kept; None before the first one."""
        path = self.path / "good.json"
        try:
            return Kept.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except ValidationError as error:
            raise AgentError(f"{path}: {error}") from error

    def keep(self, kept: Kept) -> None:
        """Keep a configuration from now on."""
        replace_private(self.path / "good.json", kept.model_dump_json().encode())

    def write_daemon(self, config: GatewayConfig) -> Path:
        """Write the file that the daemon starts with."""
        path = self.path / "hawserd.json"
        document = json.loads(config.placed(self.path).model_dump_json())
        replace_private(path, json.dumps(document, indent=1).encode())
        return path
