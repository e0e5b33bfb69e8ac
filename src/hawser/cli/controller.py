"""`hawser controller`: a controller made, started, saved, and asked."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from hawser.cli import (
    alarms,
    audit,
    demo,
    files,
    history,
    options,
    output,
    paths,
    remote,
    statistics,
    whatif,
)

if TYPE_CHECKING:
    from hawser.spec.model import Model

M = TypeVar("M", bound="Model")

app = typer.Typer(
    name="controller",
    help="Run the controller of a network of gateways (SSC).",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
app.add_typer(audit.app)
history.add_to(app)
paths.add_to(app)
app.command("demo")(demo.demo)
app.command("whatif")(whatif.whatif)
app.add_typer(statistics.app)
app.add_typer(alarms.app)

_DirectoryArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="Directory of the controller.")
]
_NetworkOption = Annotated[
    Path | None,
    typer.Option("--network", metavar="FILE", help="The network; else one without branches."),
]
_NetworkNameOption = Annotated[
    str, typer.Option("--network-name", metavar="NAME", help="Its name, where no file is given.")
]
_AdminOption = Annotated[
    str, typer.Option("--admin", metavar="NAME", help="Name of the first user.")
]
_PasswordOption = Annotated[
    Path | None,
    typer.Option(
        "--password-file",
        metavar="FILE",
        help="Its password; else one is made that has to be changed at the first login.",
    ),
]
_DatabaseOption = Annotated[
    str, typer.Option("--database", metavar="URL", help="SQLite or PostgreSQL.")
]
_HostOption = Annotated[
    str,
    typer.Option(
        "--host", metavar="ADDRESS", help="Address to serve at; `::` for all of IPv6 and IPv4."
    ),
]
_ApiPortOption = Annotated[
    int, typer.Option("--api-port", min=1, max=65535, help="TCP port of the API.")
]
_GatewaysPortOption = Annotated[
    int,
    typer.Option("--gateways-port", min=1, max=65535, help="TCP port to which gateways connect."),
]
_NamesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--name", metavar="NAME", help="Name or address by which users reach it; may be repeated."
    ),
]


@app.command("init")
def init(
    directory: _DirectoryArgument,
    network: _NetworkOption = None,
    name: _NetworkNameOption = "network",
    admin: _AdminOption = "admin",
    password_file: _PasswordOption = None,
    database: _DatabaseOption = "sqlite:///controller.db",
    host: _HostOption = "127.0.0.1",
    api_port: _ApiPortOption = 8443,
    gateways_port: _GatewaysPortOption = 8444,
    names: _NamesOption = None,
) -> None:
    """Make a controller: directory, database, authority, first user."""
    from hawser.cli import extras

    extras.need("controller")
    from hawser.controller import directory as directories
    from hawser.spec.network import Network
    from hawser.spec.network_file import load_network
    from hawser.spec.overlay import Overlay, Transport

    if network is not None:
        found = load_network(files.content(network), str(network))
    else:
        empty = Overlay(transport=Transport.QUIC, branches={})
        found = _checked("--network-name", Network, name=name, overlay=empty)
    settings = _checked(
        "--name",
        directories.Settings,
        database=database,
        host=host,
        api_port=api_port,
        gateways_port=gateways_port,
        names=tuple(names or ()),
    )
    password = None if password_file is None else files.secret(password_file)
    made = directories.init(directory, settings, found, admin, password)
    if made is not None:
        output.say(f"One-time password of {admin}, to be changed at the first login:")
        output.raw(f"{made}\n")


def _checked(option: str, model: type[M], **values: object) -> M:
    """Make a model that takes the value of an option as it is."""
    from pydantic import ValidationError

    from hawser.engine.errors import InputError

    try:
        return model(**values)
    except ValidationError as error:
        problems = [f"{option}: {each['msg']}" for each in error.errors()]
        raise InputError(problems) from error


@app.command("start")
def start(directory: _DirectoryArgument) -> None:
    """Serve the API and the gateways until told to stop."""
    from hawser.cli import extras

    extras.need("controller")
    from hawser.controller.directory import Directory
    from hawser.controller.service import start as serve

    serve(Directory(directory))


@app.command("backup")
def backup(
    directory: _DirectoryArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it.")],
) -> None:
    """Save everything to a file, also while the controller works. It contains all secrets."""
    from hawser.cli import extras

    extras.need("controller")
    from hawser.controller.backup import save
    from hawser.controller.directory import Directory

    save(Directory(directory), file)


@app.command("restore")
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A backup.")],
    directory: _DirectoryArgument,
    database: Annotated[
        str | None,
        typer.Option("--database", metavar="URL", help="Another database than it was made from."),
    ] = None,
) -> None:
    """Make a controller from a backup."""
    from hawser.cli import extras

    extras.need("controller")
    from hawser.controller.backup import load

    load(file, directory, database)


@app.command("login")
def login(
    user: Annotated[str, typer.Argument(metavar="USER", help="Name of a user.")],
    url: remote.UrlOption = remote.URL,
    authority: remote.AuthorityOption = None,
    password_file: Annotated[
        Path | None, typer.Option("--password-file", metavar="FILE", help="Else it is asked for.")
    ] = None,
    new_password_file: Annotated[
        Path | None,
        typer.Option("--new-password-file", metavar="FILE", help="Instead of a one-time password."),
    ] = None,
    code: Annotated[
        str | None,
        typer.Option("--code", metavar="CODE", help="Of the second factor, where there is one."),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait up to two minutes for one that is starting.")
    ] = False,
) -> None:
    """Begin a session and print its token, for HAWSER_KEY in the environment."""
    if wait:
        remote.wait(url, authority)
    client = remote.client_with(url, authority, None)
    password = _secret("Password", password_file)
    body = {"user": user, "password": password} | ({"code": code} if code else {})
    made = client.ask("POST", "/v1/login", body)
    if made["change_password"]:
        new = _secret("New password", new_password_file)
        session = remote.client_with(url, authority, made["token"])
        session.ask("PUT", "/v1/me/password", {"password": new})
        made = client.ask("POST", "/v1/login", {"user": user, "password": new})
    output.raw(f"{made['token']}\n")


@app.command("export")
def export(
    url: remote.UrlOption = remote.URL,
    authority: remote.AuthorityOption = None,
    file: options.OutputOption = None,
) -> None:
    """Write the network in force as a file, as `apply` takes it."""
    from ruamel.yaml import YAML

    network = _given(remote.client(url, authority).ask("GET", "/v1/network")["network"])
    writer = YAML()
    if file is None:
        writer.dump(network, sys.stdout)
    else:
        with files.writing(file) as opened:
            writer.dump(network, opened)


@app.command("apply")
def apply(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A network.")],
    url: remote.UrlOption = remote.URL,
    authority: remote.AuthorityOption = None,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why, for the history.")
    ] = "hawser controller apply",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only tell what would change.")
    ] = False,
    canary: history.CanaryOption = None,
    observe: history.ObserveOption = 10.0,
    wait: history.WaitOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """Put a network in force."""
    from hawser.spec.network_file import load_network
    from hawser.spec.site import document_of

    found = load_network(files.content(file), str(file))
    network = document_of(found)
    client = remote.client(url, authority)
    body = {"network": network, "reason": reason, **history.stages(canary, observe)}
    if dry_run:
        answer = client.ask("POST", "/v1/network/try", {"network": network})
    else:
        answer = client.ask("PUT", "/v1/network", body)
    if as_json:
        output.document(answer)
        return
    history.show_changes(answer["changes"])
    if dry_run:
        history.show_moves(answer)
    else:
        history.tell(client, answer, staged=canary is not None, wait=wait)


@app.command("token")
def token(
    branch: Annotated[str, typer.Argument(metavar="BRANCH", help="A branch of the network.")],
    url: remote.UrlOption = remote.URL,
    authority: remote.AuthorityOption = None,
    hours: Annotated[int, typer.Option("--hours", help="How long it can be used.")] = 24,
    manual: Annotated[
        bool, typer.Option("--manual", help="Let an operator approve the gateway that uses it.")
    ] = False,
    second: Annotated[
        bool, typer.Option("--second", help="For the second gateway of the branch.")
    ] = False,
) -> None:
    """Make a token with which the gateway of a branch joins, and print it."""
    approval = "manual" if manual else "automatic"
    body = {"branch": branch, "hours": hours, "approval": approval, "second": second}
    output.raw(f"{remote.client(url, authority).ask('POST', '/v1/tokens', body)['token']}\n")


@app.command("gateways")
def gateways(
    url: remote.UrlOption = remote.URL,
    authority: remote.AuthorityOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """List gateways: whether they are connected, and have the configuration they should have."""
    found = remote.client(url, authority).ask("GET", "/v1/gateways")
    if as_json:
        output.document(found)
        return
    columns = (
        "id ",
        "branch",
        "state",
        "connected",
        "configuration",
        "version ",
        "software",
        "clock ",
        "reaches",
        "detail",
    )
    rows = [
        (
            str(each["id"]),
            each["branch"],
            each["state"],
            "yes" if each["connected"] else "no",
            each["configuration"]["state"],
            str(each["configuration"]["applied_version"] or ""),
            each["software"] or "",
            "" if each["clock_offset_s"] is None else f"{each['clock_offset_s']:+.1f} s",
            ", ".join(name for name, up in each["peers"].items() if up),
            "; ".join(filter(None, (*each["warnings"], _detail(each)))),
        )
        for each in found
    ]
    output.show(output.table(columns, rows))


def _detail(gateway: dict[str, Any]) -> str | None:
    found: str | None = gateway["configuration"]["detail"] or gateway["reason"]
    return found


def _given(value: object) -> object:
    """Leave out what is not set."""
    if isinstance(value, dict):
        return {key: _given(each) for key, each in value.items() if each is not None}
    return value


def _secret(what: str, file: Path | None) -> str:
    if file is not None:
        return files.secret(file)
    entered: str = typer.prompt(what, hide_input=True, err=True)
    return entered
