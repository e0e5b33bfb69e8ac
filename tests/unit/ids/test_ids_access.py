"""Access to Kafka: read from a file, and named as both libraries name it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawser.ids.errors import IdsError
from hawser.ids.stream.access import OPEN, read

WHOLE = """\
protocol = "SASL_SSL"
authority = "ca.pem"
certificate = "own.pem"
key = "own.key"
user = 'se"nsor'
password_file = "password"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("ca.pem", "own.pem", "own.key"):
        (tmp_path / name).write_text(f"{name}\n")
    (tmp_path / "password").write_text('s"e\\cret\n')
    return tmp_path


def written(folder: Path, text: str) -> Path:
    file = folder / "kafka.toml"
    file.write_text(text)
    return file


def test_without_a_file_kafka_asks_nobody() -> None:
    assert OPEN.librdkafka() == OPEN.java() == {"security.protocol": "PLAINTEXT"}


def test_files_are_found_beside_it(folder: Path) -> None:
    found = read(written(folder, WHOLE)).librdkafka()
    assert found == {
        "security.protocol": "SASL_SSL",
        "ssl.ca.pem": "ca.pem\n",
        "ssl.certificate.pem": "own.pem\n",
        "ssl.key.pem": "own.key\n",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": 'se"nsor',
        "sasl.password": 's"e\\cret',
    }


@pytest.mark.parametrize(("mechanism", "module"), [("SCRAM-SHA-256", "Scram"), ("PLAIN", "Plain")])
def test_java_gets_contents_and_quoted_strings(folder: Path, mechanism: str, module: str) -> None:
    found = read(written(folder, WHOLE + f'mechanism = "{mechanism}"\n')).java()
    login = found.pop("sasl.jaas.config")
    assert f".{module}LoginModule required " in login
    assert login.endswith(r'username="se\"nsor" password="s\"e\\cret";')
    assert found == {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "ca.pem\n",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "own.pem\n",
        "ssl.keystore.key": "own.key\n",
        "sasl.mechanism": mechanism,
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('protocol = "TLS"', "kafka.toml: protocol: Input should be"),
        ('passwords = "x"', "kafka.toml: passwords: Extra inputs"),
        ("protocol = ", "kafka.toml: no TOML"),
        ('protocol = "SSL"\nkey = "own.key"', "found one of certificate and key"),
        ('protocol = "SASL_SSL"\nuser = "a"', "found one of user and password_file"),
        ('protocol = "SASL_SSL"', "kafka.toml: user: found none"),
        ('authority = "ca.pem"', "kafka.toml: protocol: found PLAINTEXT with authority"),
        ('protocol = "SSL"\nuser = "a"\npassword_file = "password"', "found SSL with user"),
        ('protocol = "SSL"\nauthority = "none.pem"', "none.pem: No such file"),
    ],
)
def test_a_mistake_is_told_with_its_place(folder: Path, text: str, said: str) -> None:
    with pytest.raises(IdsError) as error:
        read(written(folder, text))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@given(content=st.binary(max_size=100))
def test_no_file_breaks_it(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "any.toml"
    file.write_bytes(content)
    with suppress(IdsError):
        read(file)
