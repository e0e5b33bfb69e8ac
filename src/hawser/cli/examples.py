"""Examples at the end of the help of commands with subcommands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import typer
from rich.markup import escape

CONTROLLER: Mapping[str, Sequence[str]] = {
    "explain": (
        "hawser controller explain b1 b3",
        "hawser controller explain 10.1.0.2 10.3.0.2 5004 --protocol udp",
    ),
    "names": ("hawser controller names", "hawser controller names --json"),
    "whatif": (
        "hawser controller whatif --lost b3",
        "hawser controller whatif --traffic 2 --patch port.json",
    ),
    "paths": ("hawser controller paths", "hawser controller paths --changes --json"),
    "init": (
        "hawser controller init acme --network network.yaml --host 0.0.0.0",
        "hawser controller init acme --database postgresql://hawser@db.example/hawser",
    ),
    "start": ("hawser controller start acme",),
    "backup": ("hawser controller backup acme acme.backup",),
    "restore": ("hawser controller restore acme.backup acme",),
    "login": (
        "export HAWSER_CA=acme/ca.pem",
        "export HAWSER_KEY=$(hawser controller login admin)",
        "hawser controller login admin --code 123456",
        "hawser controller start acme & hawser controller login admin --wait",
    ),
    "export": ("hawser controller export -o network.yaml",),
    "apply": (
        "hawser controller apply network.yaml --dry-run",
        "hawser controller apply network.yaml --reason 'b2 has a second line'",
        "hawser controller apply network.yaml --canary b1,b2 --observe 60 --wait",
    ),
    "token": ("hawser controller token b1", "hawser controller token b1 --manual --hours 2"),
    "gateways": ("hawser controller gateways", "hawser controller gateways --json"),
    "versions": ("hawser controller versions",),
    "difference": ("hawser controller difference 7", "hawser controller difference 7 5"),
    "rollback": (
        "hawser controller rollback 5",
        "hawser controller rollback 5 --canary b1 --wait",
    ),
    "rollouts": ("hawser controller rollouts",),
    "finish": ("hawser controller finish 3",),
    "return": ("hawser controller return 3 --reason 'b1 is slow'",),
    "demo": ("hawser controller demo", "hawser controller demo --days 1 --api-port 9443"),
}
AUDIT: Mapping[str, Sequence[str]] = {
    "export": ("hawser controller audit export -o audit.jsonl",),
    "verify": (
        "hawser controller audit verify",
        "hawser controller audit verify audit.jsonl --hash HASH",
    ),
}
STATISTICS: Mapping[str, Sequence[str]] = {
    "paths": ("hawser controller statistics paths", "hawser controller statistics paths b1"),
    "matrix": ("hawser controller statistics matrix --seconds 600",),
    "series": ("hawser controller statistics series b1",),
    "history": (
        "hawser controller statistics history b1 path/b2/0/1/rtt",
        "hawser controller statistics history b1 port/wa/sent --last '7 d' --rows 168",
    ),
}
ALARMS: Mapping[str, Sequence[str]] = {
    "acknowledge": ("hawser controller alarms acknowledge 7 --note 'provider called'",),
    "silence": ("hawser controller alarms silence 'new line' --hours 2 --branches b1,b2",),
    "resume": ("hawser controller alarms resume 3",),
    "receivers": ("hawser controller alarms receivers",),
    "send": ("hawser controller alarms send noc noc.json",),
    "test": ("hawser controller alarms test noc",),
    "remove": ("hawser controller alarms remove noc",),
}
GATEWAY: Mapping[str, Sequence[str]] = {
    "join": ("hawser gateway join https://192.0.2.1:8443 TOKEN",),
    "run": ("hawser gateway run", "hawser gateway run --directory /srv/gateway"),
    "check": ("hawser gateway check",),
}
IDS: Mapping[str, Sequence[str]] = {
    "train": (
        "hawser ids train flows.csv --labels labels.csv -o tree.json",
        "hawser ids train flows.csv --labels labels.csv --kind forest --share 0.2 -o forest.json",
        "hawser ids train history/ --labels UNSW-NB15_1.csv --labels UNSW-NB15_2.csv -o unsw.json",
    ),
    "evaluate": (
        "hawser ids evaluate flows.csv --labels labels.csv --model tree.json",
        "hawser ids evaluate flows.csv --labels labels.csv --model tree.json --unseen --json",
        "hawser ids evaluate flows.csv --labels labels.csv --model tree.json --replay",
    ),
    "explain": (
        "hawser ids explain flows.csv --model tree.json",
        "hawser ids explain flows.csv --model tree.json --record 17 --json",
    ),
    "export": (
        "hawser ids export tree.json --threshold 0.9 -o strict.json",
        "hawser ids export tree.json --format rules",
    ),
    "drift": ("hawser ids drift flows.csv --model tree.json",),
    "merge": ("hawser ids merge streams/store/records",),
    "ship": (
        "hawser ids ship /run/hawser/records --sensor branch1",
        "hawser ids ship records/ --sensor b2 --brokers kafka1:9092,kafka2:9092 --status b2.json",
        "hawser ids ship records/ --sensor b2 --brokers kafka1:9093 --access kafka.toml",
    ),
    "verdicts": (
        "hawser ids verdicts /run/hawser/ids.sock --sensor branch1 --place /var/lib/hawser/place",
        "hawser ids verdicts ids.sock --sensor b2 --place b2.place --brokers kafka1:9092",
    ),
}
CLUSTER: Mapping[str, Sequence[str]] = {
    "start": ("hawser ids cluster start streams/ --model tree.json",),
    "stop": ("hawser ids cluster stop streams/",),
    "status": ("hawser ids cluster status streams/ --json",),
}


def epilog(examples: Sequence[str]) -> str:
    """Give the end of a command's help."""
    lines = "\n".join(f"  {example}" for example in examples)
    return f"Examples:\n{escape(lines)}"


def add_to(app: typer.Typer, examples: Mapping[str, Sequence[str]]) -> None:
    """Add examples to all commands of a group."""
    for command in app.registered_commands:
        command.epilog = epilog(examples[command.name or ""])
