"""Databases: SQLite, and a PostgreSQL of the test's where this machine has one."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from controller_sample import Api, Clock, Machine, controller, network
from sqlalchemy import inspect, text

from hawser.controller.backup import load, save
from hawser.controller.db import migrate
from hawser.controller.db.database import Database
from hawser.controller.db.notify import listen
from hawser.controller.db.tables import ApiKey, Table, User
from hawser.controller.directory import Directory, Settings, init, open_context
from hawser.controller.errors import DirectoryError, Invalid
from lab.controller.postgres import INITDB, Postgres


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    if request.param == "sqlite":
        return "sqlite:///controller.db"
    made: str = request.getfixturevalue("postgres").new()
    return made


@pytest.mark.usefixtures("_quick_passwords")
def test_everything_works_on_both(tmp_path: Path, url: str) -> None:
    clock = Clock()
    context = controller(tmp_path / "one", clock, url)
    api = Api(context).log_in()
    for branch in ("b1", "b2"):
        token = api.do("POST", "/v1/tokens", {"branch": branch})["token"]
        assert Machine().join(api, token).json()["state"] == "approved"
    first, second = (each["id"] for each in api.get("/v1/gateways"))
    api.do("POST", f"/v1/gateways/{first}/revoke", {"reason": "stolen"})
    patch = {"patch": {"mtu": 1400}, "reason": "because"}
    assert api.do("PATCH", "/v1/network", patch)["number"] == 2
    api.do("POST", "/v1/versions/1/restore", {"reason": "back"})
    assert api.get("/v1/audit/check")["broken"] is None
    assert api.get(f"/v1/gateways/{second}")["configuration"]["state"] == "offline"
    context.close()


@pytest.mark.usefixtures("_quick_passwords")
def test_changes_made_at_once_all_become_versions(tmp_path: Path, url: str) -> None:
    context = controller(tmp_path / "one", Clock(), url)
    api = Api(context).log_in()

    def change(thread: int) -> None:
        for number in range(5):
            mtu = 1300 + 10 * thread + number
            api.do("PATCH", "/v1/network", {"patch": {"mtu": mtu}, "reason": "at once"})

    threads = [threading.Thread(target=change, args=(each,)) for each in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    numbers = [each["number"] for each in api.get("/v1/versions?limit=200")]
    assert numbers == list(range(21, 0, -1))
    check = api.get("/v1/audit/check")
    assert check["broken"] is None
    context.close()


@pytest.mark.usefixtures("_quick_passwords")
def test_a_backup_is_restored_to_another_machine_and_database(
    tmp_path: Path, url: str, request: pytest.FixtureRequest
) -> None:
    clock, machine = Clock(), Machine()
    context = controller(tmp_path / "one", clock, url)
    api = Api(context).log_in()
    token = api.do("POST", "/v1/tokens", {"branch": "b1"})["token"]
    joined = machine.join(api, token).json()
    later = api.do("POST", "/v1/tokens", {"branch": "b2"})["token"]
    key = api.do("POST", "/v1/keys", {"purpose": "x", "permissions": ["read"]})["key"]
    before = (api.get("/v1/network"), api.get("/v1/gateways"), api.get("/v1/audit"))
    save(Directory(tmp_path / "one"), tmp_path / "backup")
    assert (tmp_path / "backup").stat().st_mode & 0o777 == 0o600
    assert b"PRIVATE KEY" not in (tmp_path / "backup").read_bytes()
    context.close()
    # What SQLite held goes to PostgreSQL, where there is one, and the other way round.
    other = "sqlite:///other.db"
    if url.startswith("sqlite") and INITDB is not None:
        other = request.getfixturevalue("postgres").new()
    load(tmp_path / "backup", tmp_path / "two", other)
    again = open_context(Directory(tmp_path / "two"), clock, lambda: None)
    api = Api(again)
    api.headers = {"Authorization": f"Bearer {key}"}
    assert (api.get("/v1/network"), api.get("/v1/gateways")) == before[:2]
    api.log_in()
    assert api.get("/v1/audit")[:-1] == before[2]
    assert api.get("/v1/audit/check")["broken"] is None
    assert machine.join(api, token).json()["certificate"] == joined["certificate"]
    assert Machine().join(api, later).json()["state"] == "approved"
    again.close()
    with pytest.raises(DirectoryError, match="empty or does not exist"):
        load(tmp_path / "backup", tmp_path / "two", None)


def test_migrations_make_the_tables_of_the_models(tmp_path: Path, url: str) -> None:
    database = Database(url.replace("controller.db", f"{tmp_path}/x.db"))
    assert migrate.revision(database) is None
    migrate.upgrade(database)
    migrate.upgrade(database)
    found = inspect(database.engine)
    assert set(found.get_table_names()) == {*Table.metadata.tables, "alembic_version"}
    for table in Table.metadata.sorted_tables:
        columns = {each["name"]: each["nullable"] for each in found.get_columns(table.name)}
        assert columns == {each.name: bool(each.nullable) for each in table.columns}, table.name
        indexes = {each["name"] for each in found.get_indexes(table.name)}
        assert indexes == {each.name for each in table.indexes}, table.name
    database.close()


def test_an_upgrade_keeps_what_is_there(tmp_path: Path, url: str) -> None:
    database = Database(url.replace("controller.db", f"{tmp_path}/x.db"))
    migrate.upgrade(database, "0001")
    with database.engine.begin() as connection:
        for table, values in (
            ("user_account", "'ann', 'x', false, 'admin', '2026-01-01'"),
            ("api_key", "'k', 'd', 'ann', 'p', '[\"read\"]', '2026-01-01', '2026-01-02'"),
        ):
            connection.execute(text(f"INSERT INTO {table} VALUES ({values})"))  # noqa: S608
    migrate.upgrade(database)
    with database.read() as session:
        ann, key = session.get_one(User, "ann"), session.get_one(ApiKey, "k")
        assert (ann.totp_active, ann.subject, key.permissions) == (False, None, ["read"])
    database.close()


def test_what_cannot_be_a_controller(tmp_path: Path) -> None:
    settings = Settings(database="sqlite:///controller.db")
    with pytest.raises(DirectoryError, match="no controller is here"):
        _ = Directory(tmp_path).settings
    with pytest.raises(DirectoryError, match="expected sqlite or postgresql"):
        init(tmp_path / "a", Settings(database="mysql://x/y"), network(), "admin", None)
    with pytest.raises(Invalid, match="12 to 256"):
        init(tmp_path / "b", settings, network(), "admin", "short")
    assert not (tmp_path / "b" / "controller.json").exists()
    made = init(tmp_path / "c", settings, network(), "admin", None)
    assert made is not None
    assert len(made) == 20
    with pytest.raises(DirectoryError, match="there is a controller already"):
        init(tmp_path / "c", settings, network(), "admin", None)
    (tmp_path / "c" / "sealing.key").write_bytes(bytes(32))
    with pytest.raises(DirectoryError, match="does not open with this key"):
        open_context(Directory(tmp_path / "c"), Clock(), lambda: None)


@pytest.mark.parametrize("content", [b"", b"x", b"\x1f\x8b\x08\x00" + bytes(20)])
def test_what_is_no_backup_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(DirectoryError, match="this is no backup"):
        load(tmp_path / "file", tmp_path / "new", None)
    assert not (tmp_path / "new").exists()


def test_changes_are_told_to_other_controllers_and_again_after_the_database_was_away(
    tmp_path: Path, postgres: Postgres
) -> None:
    url = postgres.new()
    writer, listener = Database(url), Database(url)
    told = threading.Event()
    end = threading.Event()

    async def work() -> None:
        task = asyncio.create_task(listen(listener, told.set))
        await asyncio.to_thread(end.wait)
        task.cancel()

    thread = threading.Thread(target=asyncio.run, args=(work(),))
    thread.start()
    try:
        assert told.wait(60), "it listens"
        for _ in range(2):
            told.clear()
            with writer.read() as session:
                session.execute(text("SELECT 1"))
            assert not told.wait(0.2), "nothing was changed"
            with writer.write() as session:
                session.execute(text("SELECT 1"))
                assert not told.wait(0.2), "it is not committed yet"
            assert told.wait(60)
            told.clear()
            postgres.stop()
            postgres.start()
            assert told.wait(60), "it listens again, and what was told meanwhile is lost"
    finally:
        end.set()
        thread.join()
        writer.close()
        listener.close()


def test_sqlite_has_one_controller(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'controller.db'}")
    asyncio.run(asyncio.wait_for(listen(database, lambda: None), 60))
    database.close()
