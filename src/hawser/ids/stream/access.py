"""How clients of Kafka show who they are, and know that it is Kafka: TLS, passwords.

One file serves the programs beside the sensors, whose library is librdkafka, and the job on Spark,
whose library is Kafka's own. These name the same settings differently.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hawser.ids.errors import IdsError

_SIZE_MAX: Final = 1 << 20
"""Bytes of a file that are read at most."""
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"

_Path = Annotated[str, Field(min_length=1)]


class Access(BaseModel):
    """Access to Kafka. Names of files are relative to the folder of the file that has them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    authority: _Path | None = None
    """Certificates of those who may vouch for Kafka (PEM). Default: the system's, or Java's."""
    certificate: _Path | None = None
    """Own certificate (PEM), where Kafka asks for one."""
    key: _Path | None = None
    """Its key (PEM, PKCS #8), not encrypted."""
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    user: Annotated[str, Field(min_length=1)] | None = None
    password_file: _Path | None = None
    """File with the password of the user."""

    def librdkafka(self) -> dict[str, Any]:
        """Give the settings of a client of librdkafka.

        Raises:
            IdsError: a file cannot be read.
        """
        return {"security.protocol": self.protocol} | self._of(
            {
                "ssl.ca.pem": self.authority,
                "ssl.certificate.pem": self.certificate,
                "ssl.key.pem": self.key,
            },
            lambda user, password: {
                "sasl.mechanism": self.mechanism,
                "sasl.username": user,
                "sasl.password": password,
            },
        )

    def java(self) -> dict[str, str]:
        """Give the settings of a client of Kafka's own library; files are in it, not their names.

        Raises:
            IdsError: a file cannot be read.
        """
        found = {"security.protocol": self.protocol} | self._of(
            {
                "ssl.truststore.certificates": self.authority,
                "ssl.keystore.certificate.chain": self.certificate,
                "ssl.keystore.key": self.key,
            },
            lambda user, password: {
                "sasl.mechanism": self.mechanism,
                "sasl.jaas.config": f"{_PLAIN if self.mechanism == 'PLAIN' else _SCRAM} required "
                f"username={_quoted(user)} password={_quoted(password)};",
            },
        )
        for store in ("truststore.certificates", "keystore.key"):
            if f"ssl.{store}" in found:
                found[f"ssl.{store.partition('.')[0]}.type"] = "PEM"
        return found

    def _of(
        self,
        files: Mapping[str, str | None],
        passwords: Callable[[str, str], dict[str, str]],
    ) -> dict[str, str]:
        found = {name: _content(file) for name, file in files.items() if file is not None}
        if self.user is not None and self.password_file is not None:
            found |= passwords(self.user, _content(self.password_file).strip())
        return found


OPEN: Final = Access()
"""Kafka asks nobody who it is: on the loopback."""


def read(file: Path) -> Access:
    """Read access to Kafka from a file (TOML).

    Raises:
        IdsError: it cannot be read, is none, or names a file that cannot be read.
    """
    try:
        found = Access.model_validate(tomllib.loads(_content(str(file))))
    except ValidationError as error:
        first = error.errors()[0]
        raise IdsError(f"{file}: {'.'.join(map(str, first['loc']))}", str(first["msg"])) from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise IdsError(file, f"no TOML: {error}") from error
    _check(file, found)
    paths = ("authority", "certificate", "key", "password_file")
    near = {name: str(file.parent / value) for name in paths if (value := getattr(found, name))}
    whole = found.model_copy(update=near)
    whole.java()  # every file can be read
    return whole


def _check(file: Path, access: Access) -> None:
    """Check that what belongs together is there, and has an effect."""
    with_tls, with_password = access.protocol.endswith("SSL"), access.protocol.startswith("SASL")
    for one, other in (("certificate", "key"), ("user", "password_file")):
        if (getattr(access, one) is None) != (getattr(access, other) is None):
            raise IdsError(file, f"found one of {one} and {other}, expected both or none")
    for name, counts, what in (
        ("authority", with_tls, "SSL or SASL_SSL"),
        ("certificate", with_tls, "SSL or SASL_SSL"),
        ("user", with_password, "SASL_SSL or SASL_PLAINTEXT"),
    ):
        if getattr(access, name) is not None and not counts:
            message = f"found {access.protocol} with {name}, expected {what}"
            raise IdsError(f"{file}: protocol", message)
    if with_password and access.user is None:
        raise IdsError(f"{file}: user", f"found none, expected one with {access.protocol}")


def _content(file: str) -> str:
    try:
        with Path(file).open("rb") as opened:
            content = opened.read(_SIZE_MAX + 1)
    except OSError as error:
        raise IdsError(file, error.strerror or str(error)) from error
    if len(content) > _SIZE_MAX:
        raise IdsError(file, f"larger than {_SIZE_MAX >> 20} MiB")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise IdsError(file, "no text in UTF-8") from error


def _quoted(text: str) -> str:
    """Quote for a line of JAAS, which reads strings as Java does."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
