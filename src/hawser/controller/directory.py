"""A controller's directory: settings, keys, and with SQLite the database.

controller.json     settings
sealing.key         opens the secrets that are sealed in the database
ca.pem              certificate of the authority
server.pem, .key    the controller's own certificate, renewed at start
controller.db       the database, unless another URL is set
openflow/           sockets of the OpenFlow controller, and what it was started with
statistics/         what gateways have reported (hawser.store.statistics)
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Network, IPv6Network, ip_address
from pathlib import Path
from typing import Annotated

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from pydantic import AfterValidator, Field, IPvAnyAddress, StringConstraints, ValidationError

from hawser.control.https import address_of
from hawser.control.link import SERVER_NAME
from hawser.controller.access import user
from hawser.controller.access.limit import RateLimit
from hawser.controller.access.password import check as check_password
from hawser.controller.access.principal import system
from hawser.controller.access.role import Role
from hawser.controller.access.vault import Vault
from hawser.controller.context import Context
from hawser.controller.db import migrate
from hawser.controller.db.database import Database
from hawser.controller.errors import DirectoryError, Invalid
from hawser.controller.inventory import authority
from hawser.controller.inventory.gateway import Signer
from hawser.controller.jobs.openflow import SwitchControl
from hawser.controller.jobs.paths import Planned
from hawser.controller.jobs.remote_write import Target
from hawser.controller.jobs.watch import Watch
from hawser.controller.paths.trains import Trains
from hawser.controller.paths.whatif import WhatIf
from hawser.controller.policy import version
from hawser.controller.telemetry.exposition import Exposition
from hawser.controller.telemetry.latest import Latest
from hawser.controller.telemetry.others import Others
from hawser.pki.authority import Authority, Name, pem
from hawser.pki.file import create_private, replace_private
from hawser.pki.key import key_pem, new_key, read_key
from hawser.pki.seal import new_sealing_key
from hawser.spec.model import Model
from hawser.spec.network import Network
from hawser.spec.site import document_of
from hawser.spec.units import Duration, Ratio
from hawser.spec.validate import Issue
from hawser.store.statistics.store import StatisticsStore

_SETTINGS, _SEALING_KEY, _AUTHORITY = "controller.json", "sealing.key", "ca.pem"
_CERTIFICATE, _KEY = "server.pem", "server.key"
_STATISTICS, _OPENFLOW = "statistics", "openflow"
_SERVER_LIFETIME = timedelta(days=365)
_RENEW_BEFORE = timedelta(days=60)

_BURST_S = 10.0
"""For how many seconds' worth of requests may come at once."""
_STRANGERS_PER_S = 20.0
"""Requests of one address without authentication. Many gateways may join from behind one NAT."""

_LOGINS_PER_S, _LOGINS = 0.5, 30
"""Logins at an OpenID provider that one address begins, on average and at once: in the ten minutes
for which they are kept, a third of all."""

TcpPort = Annotated[int, Field(ge=1, le=65535)]
HostName = Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z._:*-]{1,253}$")]
"""DNS name or address, as a certificate has it."""


class PathRules(Model):
    """How slowly automatic paths follow what is measured."""

    gain: Ratio = Ratio(0.1)
    """Least gain, as a share of the demand of two branches."""
    hold: Duration = Duration(3)
    """How long there has to be one before groups are replaced."""
    per_hour: Annotated[int, Field(ge=1, le=1000)] = 12
    """Most replacements of the groups of two branches in an hour."""


class AlarmRules(Model):
    """What counts as degraded, and where alarms may be sent."""

    loss: Ratio = Ratio(0.05)
    """Share of bytes that a path loses."""
    rtt_factor: Annotated[float, Field(ge=1, le=1000)] = 3.0
    """Round-trip time, as a multiple of the lowest of the last day, ..."""
    rtt_more: Duration = Duration(0.05)
    """... if it is also so much above it."""
    networks: Annotated[tuple[IPv4Network | IPv6Network, ...], Field(max_length=64)] = ()
    """Addresses of receivers that are allowed besides public ones."""


def _controller_url(text: str) -> str:
    address_of(text)
    return text


ControllerUrl = Annotated[str, AfterValidator(_controller_url)]


class Settings(Model):
    """What a controller is started with."""

    database: str
    """URL of the database; a path of SQLite is relative to the directory."""
    host: str = "127.0.0.1"
    """Address at which the API and gateways are served; `::` for all of IPv6 and IPv4."""
    api_port: TcpPort = 8443
    gateways_port: TcpPort = 8444
    names: tuple[HostName, ...] = ()
    """DNS names and addresses by which users reach the API."""
    certificate_lifetime: Duration = Duration(720 * 3600)
    """Of gateways' certificates, which are renewed after two thirds of it."""
    requests_per_s: Annotated[float, Field(gt=0, le=1e6)] = 100
    """Requests of one user or API key to the API, on average over ten seconds."""
    paths: PathRules = PathRules()
    """For networks with `overlay.paths: automatic`."""
    alarms: AlarmRules = AlarmRules()
    others: Annotated[tuple[ControllerUrl, ...], Field(max_length=16)] = ()
    """URLs of the other controllers of the database, which are asked for their statistics."""
    proxies: Annotated[tuple[IPvAnyAddress, ...], Field(max_length=16)] = ()
    """Addresses of proxies before the API, which have to begin each connection with a header of the
    PROXY protocol, version 2."""
    dns_servers: Annotated[tuple[IPvAnyAddress, ...], Field(max_length=8)] = ()
    """Addresses of DNS servers that resolve names of applications; else those of the system."""
    remote_write: Target | None = None
    """Where statistics are sent, besides being stored here."""


@dataclass(frozen=True)
class Directory:
    """The directory of a controller."""

    path: Path

    @property
    def settings(self) -> Settings:
        """Its settings.

        Raises:
            DirectoryError: it is no controller's directory.
        """
        try:
            return Settings.model_validate_json((self.path / _SETTINGS).read_bytes())
        except FileNotFoundError as error:
            message = f"{self.path}: no controller is here; hawser controller init makes one"
            raise DirectoryError(message) from error
        except ValidationError as error:
            raise DirectoryError(f"{self.path / _SETTINGS}: {error}") from error

    @property
    def certificate(self) -> Path:
        """The controller's own certificate."""
        return self.path / _CERTIFICATE

    @property
    def key(self) -> Path:
        """Its key."""
        return self.path / _KEY

    @property
    def statistics(self) -> Path:
        """The folder of statistics."""
        return self.path / _STATISTICS

    @property
    def authority(self) -> Path:
        """The authority's certificate."""
        return self.path / _AUTHORITY

    def certificate_ends(self) -> dict[str, datetime]:
        """Give when the authority's certificate and the controller's own one expire."""
        files = {"authority": self.authority, "server": self.certificate}
        return {
            name: x509.load_pem_x509_certificate(file.read_bytes()).not_valid_after_utc
            for name, file in files.items()
        }

    @property
    def sealing_key(self) -> bytes:
        """The key that opens the secrets in the database."""
        return (self.path / _SEALING_KEY).read_bytes()

    def database(self, settings: Settings | None = None) -> Database:
        """Open the database.

        Raises:
            DirectoryError: its URL is none.
        """
        url = (settings or self.settings).database
        if url.startswith("sqlite:///") and not url.startswith("sqlite:////"):
            url = f"sqlite:///{self.path.absolute() / url.removeprefix('sqlite:///')}"
        try:
            return Database(url)
        except ValueError as error:
            raise DirectoryError(str(error)) from error


def utc_now() -> datetime:
    """Give the time."""
    return datetime.now(UTC)


def init(
    path: Path, settings: Settings, network: Network, admin: str, password: str | None
) -> str | None:
    """Make a controller, and give the admin's one-time password, unless a password was given.

    Raises:
        DirectoryError: there is one already, in the directory or in the database.
        Invalid: network, name or password are not good.
    """
    directory, now = Directory(path), utc_now()
    for name in (_SETTINGS, _SEALING_KEY):
        if (path / name).exists():
            raise DirectoryError(f"{path / name}: there is a controller already")
    network = version.network_of(document_of(network))
    _check_admin(admin, password)
    make(path)
    database = directory.database(settings)
    check_unused(database, settings.database)
    sealing_key = new_sealing_key()
    create_private(path / _SEALING_KEY, sealing_key, durable=True)
    try:
        chosen = _fill(database, sealing_key, network, (admin, password), now)
    except BaseException:
        (path / _SEALING_KEY).unlink()  # it opens nothing
        raise
    finally:
        database.close()
    write_settings(path, settings)
    return None if password else chosen


def make(path: Path) -> None:
    """Make a directory that only its owner may read.

    Raises:
        DirectoryError: it cannot be made.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise DirectoryError(f"{path}: {error.strerror}") from error


def _check_admin(name: str, password: str | None) -> None:
    if not re.fullmatch(user.NAME, name):
        message = f"found {name!r}, expected small letters, digits and . _ @ -, at most 64"
        raise Invalid([Issue(("admin",), message)])
    if password is not None:
        check_password(password)


def check_unused(database: Database, url: str) -> None:
    """Refuse a database that some controller has. Tables alone are left by what was interrupted.

    Raises:
        DirectoryError: one has it, or it does not answer.
    """
    if migrate.revision(database) is None:
        return
    with database.read() as session:
        if version.newest_number(session):
            raise DirectoryError(f"{url}: a controller has this database")


def _fill(
    database: Database,
    sealing_key: bytes,
    network: Network,
    admin: tuple[str, str | None],
    now: datetime,
) -> str:
    who = system("hawser controller init")
    migrate.upgrade(database)
    with database.write() as session:
        authority.create(session, sealing_key, network.name, now)
        version.first(session, who, now, network)
        return user.add_user(session, who, now, admin[0], Role.ADMIN, admin[1])


def write_settings(path: Path, settings: Settings) -> None:
    """Write the settings of a directory."""
    text = settings.model_dump_json(indent=1) + "\n"
    replace_private(path / _SETTINGS, text.encode())


def open_context(
    directory: Directory, clock: Callable[[], datetime], changed: Callable[[], None]
) -> Context:
    """Bring a controller's database up to date, and give what its parts share.

    Raises:
        DirectoryError: it is no controller's directory, or the sealing key is not the database's.
    """
    settings, database = directory.settings, directory.database()
    migrate.upgrade(database)
    try:
        with database.read() as session:
            found = authority.load(session, directory.sealing_key)
    except (OSError, ValueError) as error:
        raise DirectoryError(f"{directory.path / _SEALING_KEY}: {error}") from error
    replace_private(directory.authority, found.pem, mode=0o644)
    _certify(directory, found, settings.names, clock())
    return Context(
        instance=secrets.token_hex(8),
        database=database,
        vault=Vault(directory.sealing_key),
        known=RateLimit(settings.requests_per_s, _BURST_S * settings.requests_per_s),
        unknown=RateLimit(_STRANGERS_PER_S, _BURST_S * _STRANGERS_PER_S),
        logins=RateLimit(_LOGINS_PER_S, _LOGINS),
        signer=Signer(found, timedelta(seconds=settings.certificate_lifetime)),
        clock=clock,
        watch=Watch(database, clock),
        latest=Latest(),
        statistics=StatisticsStore(directory.statistics, lambda: clock().timestamp()),
        exposition=Exposition(),
        planned=Planned(),
        trains=Trains(),
        whatif=WhatIf(),
        others=Others(settings.others, found.pem),
        switches=SwitchControl(directory.path.absolute() / _OPENFLOW),
        gateways_port=settings.gateways_port,
        changed=changed,
    )


def _certify(
    directory: Directory, signer: Authority, names: tuple[str, ...], now: datetime
) -> None:
    """Make the controller's own certificate, where it lacks, ends soon, or has other names."""
    wanted = [SERVER_NAME, *map(_name, ("localhost", "127.0.0.1", *names))]
    if not _is_good(directory, signer, wanted, now):
        key = new_key()
        made = signer.sign(key.public_key(), wanted, now, _SERVER_LIFETIME)
        replace_private(directory.key, key_pem(key))
        replace_private(directory.certificate, pem(made))


def _is_good(directory: Directory, signer: Authority, wanted: list[Name], now: datetime) -> bool:
    try:
        found = x509.load_pem_x509_certificate(directory.certificate.read_bytes())
        key = read_key(directory.key.read_bytes())
        found.verify_directly_issued_by(signer.certificate)
    except (OSError, ValueError, TypeError, InvalidSignature):
        return False
    left = found.not_valid_after_utc - now
    return (
        _names(found) == wanted and left > _RENEW_BEFORE and found.public_key() == key.public_key()
    )


def _name(text: str) -> Name:
    try:
        return ip_address(text)
    except ValueError:
        return text


def _names(certificate: x509.Certificate) -> list[Name]:
    extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return [each.value for each in extension.value]
