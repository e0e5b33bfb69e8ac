"""Tags, notes, archives and removal of runs; queries over several."""

from __future__ import annotations

import gzip
import hashlib
import io
import itertools
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import synthetic
from hawser.store import Bundle, BundleError, RunInfo, RunWriter, notes, run_id, runs
from hawser.store.archive import archive, restore
from hawser.store.prune import prunable, remove
from hawser.store.query import query

NOW = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run has an id of its own."""
    numbers = itertools.count(1)
    monkeypatch.setattr(
        synthetic, "run_id", lambda workflow, at, _token: run_id(workflow, at, next(numbers))
    )


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return synthetic.write(tmp_path / "runs", synthetic.quickstart(2))


def test_a_run_has_tags_and_notes(run: Path) -> None:
    assert notes.read(run) == notes.Notes()
    notes.tag(run, add=["new", "fast"])
    notes.tag(run, add=["fast"], remove=["new", "never-there"])
    notes.note(run, " all cables checked\n", NOW)
    (listed,) = runs(run.parent)
    assert listed.tags == ("fast",)
    assert [(note.text, note.at) for note in listed.notes] == [("all cables checked", NOW)]


def test_tags_of_several_processes_are_all_kept(run: Path) -> None:
    """One process reads, another one too, and both write: the first one's tag was lost."""
    program = """
import sys
from pathlib import Path
from hawser.store import notes
sys.stdin.readline()
for number in range(25):
    notes.tag(Path(sys.argv[1]), add=[f"{sys.argv[2]}{number}"])
"""
    pipe = subprocess.PIPE
    writers = [
        subprocess.Popen([sys.executable, "-c", program, run, name], stdin=pipe, text=True)
        for name in "abc"
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.close()
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    assert set(notes.read(run).tags) == {f"{name}{n}" for name in "abc" for n in range(25)}


@pytest.mark.parametrize("tag", ["", "Fast", "a b", "-x", "x" * 41, "a/b", "ü"])
def test_what_is_no_tag_is_refused_and_nothing_written(run: Path, tag: str) -> None:
    with pytest.raises(ValidationError):
        notes.tag(run, add=[tag])
    assert not (run / notes.NOTES).exists()


def test_damaged_notes_are_told_with_their_place(run: Path) -> None:
    (run / notes.NOTES).write_text('{"tags": 7}')
    with pytest.raises(BundleError, match=r"notes\.json: tags"):
        notes.read(run)
    (listed,) = runs(run.parent)
    assert listed.state == "damaged"


def info(number: int, days: float, **changes: object) -> RunInfo:
    fields: dict[str, object] = {
        "run": f"r{number}",
        "path": Path(f"r{number}"),
        "workflow": "w",
        "state": "done",
        "started": NOW - timedelta(days=days),
    }
    return RunInfo.model_validate(fields | changes)


def pruned(*listed: RunInfo, **criteria: object) -> list[str]:
    return [one.run for one in prunable(listed, NOW, **criteria)]  # type: ignore[arg-type]


def test_every_criterion_must_be_met() -> None:
    listed = [info(1, 1), info(2, 20), info(3, 40, state="failed"), info(4, 50)]
    assert pruned(*listed, days=30) == ["r3", "r4"]
    assert pruned(*listed, keep=1) == ["r2", "r3", "r4"]
    assert pruned(*listed, days=30, states=["failed"]) == ["r3"]
    assert pruned(*listed, keep=3, days=10) == ["r4"]


def test_the_newest_of_each_workflow_are_kept() -> None:
    listed = [info(1, 1), info(2, 2, workflow="x"), info(3, 3), info(4, 4, workflow="x")]
    assert pruned(*listed, keep=1) == ["r3", "r4"]


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "running"},
        {"state": "damaged"},
        {"tags": ("baseline",)},
        {"notes": ({"at": NOW, "text": "x"},)},
    ],
)
def test_what_somebody_may_need_is_kept(changes: dict[str, object]) -> None:
    assert pruned(info(1, 100, **changes), days=1) == []


def test_a_run_is_removed_whole(run: Path) -> None:
    remove(run)
    assert list(run.parent.iterdir()) == []


def test_a_run_that_is_being_written_is_not_removed(run: Path) -> None:
    writer = RunWriter.resume(run)
    try:
        with pytest.raises(BundleError, match="writing"):
            remove(run)
        with pytest.raises(BundleError, match="being written"):
            archive(Bundle.open(run), run.parent / "x.tar.gz")
    finally:
        writer.close()
    assert run.exists()


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file() and not file.name.startswith(".")
    }


def test_an_archive_gives_the_same_run_back(run: Path, tmp_path: Path) -> None:
    notes.tag(run, add=["kept"])
    file = tmp_path / "x.tar.gz"
    digest = archive(Bundle.open(run), file)
    assert digest == hashlib.sha256(file.read_bytes()).hexdigest()
    bundle = restore(file, tmp_path / "elsewhere")
    assert bundle.path == tmp_path / "elsewhere" / run.name
    assert content(bundle.path) == content(run)
    assert bundle.problems() == ()


def test_the_same_run_gives_the_same_archive(run: Path, tmp_path: Path) -> None:
    one, other = (tmp_path / name for name in ("1.tar.gz", "2.tar.gz"))
    assert archive(Bundle.open(run), one) == archive(Bundle.open(run), other)


def test_other_tools_can_check_it(run: Path, tmp_path: Path) -> None:
    """tar and sha256sum."""
    file = tmp_path / "x.tar.gz"
    archive(Bundle.open(run), file)
    subprocess.run(["tar", "xzf", str(file), "-C", str(tmp_path)], check=True)
    command = ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"]
    subprocess.run(command, cwd=tmp_path / run.name, check=True)


def test_nothing_is_overwritten(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "x.tar.gz"
    archive(Bundle.open(run), file)
    with pytest.raises(BundleError, match="exists already"):
        archive(Bundle.open(run), file)
    with pytest.raises(BundleError, match="exists already"):
        restore(file, run.parent)


def packed(members: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    stream = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=stream, mode="wb", mtime=0) as gz,
        tarfile.open(fileobj=gz, mode="w") as tar,
    ):
        for member, data in members:
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return stream.getvalue()


RUN = "quickstart-20260105T120000-0001"
SUM = hashlib.sha256(b"x").hexdigest()


def member(name: str, data: bytes, kind: bytes = tarfile.REGTYPE) -> tuple[tarfile.TarInfo, bytes]:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, "/etc/passwd"
    return made, data


def hostile() -> Iterator[tuple[str, bytes]]:
    sums = member(f"{RUN}/SHA256SUMS", f"{SUM}  a\n".encode())
    yield "no gzip", b"hello"
    yield "empty", b""
    yield "no members", packed([])
    yield "no sums first", packed([member(f"{RUN}/a", b"x"), sums])
    yield "sums are a link", packed([member(f"{RUN}/SHA256SUMS", b"", tarfile.SYMTYPE)])
    yield "sums are damaged", packed([member(f"{RUN}/SHA256SUMS", b"nonsense")])
    yield "sums are no text", packed([member(f"{RUN}/SHA256SUMS", b"\xff\xfe")])
    yield "no run", packed([member("../../x/SHA256SUMS", b"")])
    yield "no id", packed([member("etc/SHA256SUMS", b"")])
    yield "checksum", packed([sums, member(f"{RUN}/a", b"y")])
    yield "a file more", packed([sums, member(f"{RUN}/a", b"x"), member(f"{RUN}/b", b"x")])
    yield "a file twice", packed([sums, member(f"{RUN}/a", b"x"), member(f"{RUN}/a", b"x")])
    yield "a file less", packed([sums])
    up = member(f"{RUN}/SHA256SUMS", f"{SUM}  ../../evil\n".encode())
    yield "out of the folder", packed([up, member(f"{RUN}/../../evil", b"x")])
    absolute = member(f"{RUN}/SHA256SUMS", f"{SUM}  /tmp/evil\n".encode())
    yield "absolute", packed([absolute, member(f"{RUN}//tmp/evil", b"x")])
    yield "a link", packed([sums, member(f"{RUN}/a", b"", tarfile.SYMTYPE)])
    yield "a device", packed([sums, member(f"{RUN}/a", b"", tarfile.CHRTYPE)])
    yield "no run inside", packed([sums, member(f"{RUN}/a", b"x")])
    whole = packed([sums, member(f"{RUN}/a", b"x")])
    yield "cut off", whole[: len(whole) // 2]


@pytest.mark.parametrize("data", [pytest.param(data, id=why) for why, data in hostile()])
def test_what_is_no_whole_archive_of_a_run_leaves_nothing(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "in" / "x.tar.gz"
    file.parent.mkdir()
    file.write_bytes(data)
    with pytest.raises(BundleError):
        restore(file, tmp_path / "runs")
    left = [path for path in tmp_path.rglob("*") if path.is_file() and path != file]
    assert left == []


def test_a_run_in_the_folder_of_another_one_is_refused(run: Path, tmp_path: Path) -> None:
    """All sums are right, but the folder would not have the name that the run says of itself."""
    contents = {
        path.relative_to(run).as_posix(): path.read_bytes()
        for path in sorted(run.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }
    sums = "".join(f"{hashlib.sha256(data).hexdigest()}  {n}\n" for n, data in contents.items())
    other = "quickstart-20200101T000000-beef"
    file = tmp_path / "x.tar.gz"
    members = [member(f"{other}/{name}", data) for name, data in contents.items()]
    file.write_bytes(packed([member(f"{other}/SHA256SUMS", sums.encode()), *members]))
    with pytest.raises(BundleError, match=f"found the run {run.name}, expected {other}"):
        restore(file, tmp_path / "restored")
    assert [path for path in (tmp_path / "restored").rglob("*") if path.is_file()] == []


@pytest.fixture(scope="module")
def archived(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """A run and its archive."""
    folder = tmp_path_factory.mktemp("archived")
    run = synthetic.write(folder / "runs", synthetic.quickstart(1))
    archive(Bundle.open(run), folder / "x.tar.gz")
    return run, (folder / "x.tar.gz").read_bytes()


@given(at=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_no_change_of_an_archive_goes_unnoticed(
    archived: tuple[Path, bytes], at: float, flip: int
) -> None:
    """Every byte is under a checksum, or makes no difference to what is in it."""
    run, original = archived
    changed = bytearray(original)
    changed[int(at * len(original))] ^= flip
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "x.tar.gz"
        file.write_bytes(bytes(changed))
        try:
            restored = restore(file, Path(folder) / "runs")
        except BundleError:
            assert not list(Path(folder).glob("runs/*"))
        else:
            assert content(restored.path) == content(run)


def test_all_runs_can_be_asked_together(tmp_path: Path) -> None:
    """Runs of different workflows have different axes: what one lacks is null."""
    one = synthetic.write(tmp_path, synthetic.quickstart(2))
    other = synthetic.write(tmp_path, synthetic.table1(1))
    notes.tag(one, add=["baseline"])
    bundles = [Bundle.open(one), Bundle.open(other)]
    sql = """select run, count(distinct v_transport) t, count(distinct v_scheme) s
             from samples group by 1 order by 1"""
    assert query(bundles, sql).rows == ((other.name, 0, 5), (one.name, 3, 0))
    sql = """select r.run, r.tags, count(*) n from runs r join trials t using (run)
             where list_contains(r.tags, 'baseline') and r.valid group by all"""
    assert query(bundles, sql).records() == [{"run": one.name, "tags": ["baseline"], "n": 6}]


def test_an_archive_of_the_results_gives_the_same_report(run: Path, tmp_path: Path) -> None:
    whole = Bundle.open(run)
    file = tmp_path / "x.tar.gz"
    archive(whole, file, only_results=True)
    bundle = restore(file, tmp_path / "elsewhere")
    assert file.stat().st_size < 0.5 * sum(map(len, content(run).values()))
    assert (bundle.manifest, bundle.workflow) == (whole.manifest, whole.workflow)
    for kept, trial in zip(bundle.trials, whole.trials, strict=True):
        summaries = [each for each in trial.samples() if each.kind == "summary"]
        assert kept.record == trial.record
        measured = [each for each in summaries if each.measurement != "passive"]
        assert [each for each in kept.samples() if each.measurement != "passive"] == measured
    names = {Path(name).name for name in content(bundle.path)}
    assert names <= {
        "SHA256SUMS",
        "manifest.json",
        "resolved.json",
        "workflow.yaml",
        "trial.json",
        "samples.jsonl",
    }
