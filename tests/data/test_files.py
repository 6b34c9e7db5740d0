"""Atomic writes, and the temporary files of killed processes."""

import io
import os
import signal
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from molattn.data import files, locks
from molattn.data.datasets.archives import _read_limited, read_archive_member
from molattn.data.files import atomic_write, remove_temporary_files, write_text
from molattn.data.paths import file_suffix
from molattn.errors import InputError
from tests.data.windows import use_windows_locks


def killed_while_writing(path: Path) -> None:
    """A process that has written half."""
    child = os.fork()
    if child == 0:
        with atomic_write(path) as file:
            file.write(b"half")
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)


def test_temporary_files_of_a_killed_process_are_removed_by_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "a[1].csv"
    write_text(path, "old")
    for _ in range(3):
        killed_while_writing(path)
    assert path.read_text() == "old"
    left = list(tmp_path.glob(".*.tmp"))
    assert len(left) == 1  # each cleaned up after the one before
    others = [tmp_path / ".b.csv.0123abcd.tmp", tmp_path / ".a[1].csv.mine.tmp", tmp_path / ".xa[1].csv.0123abcd.tmp"]
    for other in others:
        other.touch()
    write_text(path, "new")
    assert sorted(tmp_path.iterdir()) == sorted([path, *others])
    assert path.read_text() == "new"
    remove_temporary_files(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([path, others[1]])


def test_temporary_files_of_a_running_process_stay(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    with atomic_write(path) as first:
        first.write(b"first")
        with atomic_write(path) as second:
            second.write(b"second")
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


def test_temporary_files_of_killed_processes_are_removed_on_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_windows_locks(monkeypatch)
    path = tmp_path / "a.csv"
    (tmp_path / ".a.csv.0123abcd.tmp").touch()
    with atomic_write(path) as file:
        file.write(b"first")
        write_text(path, "second")
    assert list(tmp_path.iterdir()) == [path] and path.read_text() == "first"


@pytest.mark.parametrize(
    ("name", "suffix"),
    [("a.CSV", ".csv"), ("a.csv.gz", ".csv"), ("a.b.GZ", ".b"), ("a.gz", ""), ("a", ""), ("a.b.c", ".c")],
)
def test_file_suffix(name: str, suffix: str) -> None:
    assert file_suffix(Path(name)) == suffix


def archives(folder: Path, members: dict[str, bytes]) -> list[Path]:
    """The same files in archives of every kind."""
    paths = [folder / name for name in ("a.zip", "a.ZIP", "a.tar", "a.tar.gz", "a.tar.xz")]
    for path in paths:
        if path.suffix.lower() == ".zip":
            with zipfile.ZipFile(path, "w") as archive:
                for name, data in members.items():
                    archive.writestr(name, data)
        else:
            with tarfile.open(path, "w:" + path.suffix[1:].replace("tar", "")) as archive:
                for name, data in members.items():
                    entry = tarfile.TarInfo(name)
                    entry.size = len(data)
                    archive.addfile(entry, io.BytesIO(data))
                link = tarfile.TarInfo("link")
                link.type, link.linkname = tarfile.SYMTYPE, "x/a.csv"
                archive.addfile(link)
    return paths


def test_a_file_in_an_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_UNPACKED", 100)
    members = {"x/a.csv": b"a\n", "full": bytes(100), "over": bytes(101), "../b.csv": b"b\n"}
    for path in archives(tmp_path, members):
        assert read_archive_member(path, "x/a.csv") == b"a\n"
        assert read_archive_member(path, "../b.csv") == b"b\n"
        assert read_archive_member(path, "full") == bytes(100)
        with pytest.raises(InputError, match=f"{path.name} unpacks to more than 100 bytes: it is not read"):
            read_archive_member(path, "over")
        with pytest.raises(InputError, match=f"{path.name} has no 'a.csv' in it"):
            read_archive_member(path, "a.csv")
        if "tar" in path.name:
            with pytest.raises(InputError, match=f"{path.name}: 'link' in it is not a regular file"):
                read_archive_member(path, "link")
        path.write_bytes(path.read_bytes()[:20])
        with pytest.raises(
            InputError, match=rf"{path.name} is damaged, it cannot be unpacked \([^\n]+\): download it again$"
        ):
            read_archive_member(path, "x/a.csv")
        path.unlink()
        with pytest.raises(InputError, match=f"there is no file .*{path.name}"):
            read_archive_member(path, "x/a.csv")
    assert not list(tmp_path.iterdir())


def test_a_file_behind_a_password(tmp_path: Path) -> None:
    (path,) = [p for p in archives(tmp_path, {"a.csv": b"a\n"}) if p.name == "a.zip"]
    data = bytearray(path.read_bytes())
    for start in (b"PK\x03\x04", b"PK\x01\x02"):  # the flag of encryption, in both headers
        data[data.index(start) + (6 if start[2] == 3 else 8)] |= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"a.zip: 'a.csv' in it cannot be unpacked \(.*password"):
        read_archive_member(path, "a.csv")


def test_a_bomb_is_read_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class File:
        read_so_far = 0

        def read(self, size: int, /) -> bytes:
            self.read_so_far += size
            return bytes(size)

    monkeypatch.setattr(files, "MAX_UNPACKED", 4 * 2**20)
    bomb = File()
    with pytest.raises(InputError, match="unpacks to more than"):
        _read_limited(bomb, tmp_path)
    assert bomb.read_so_far == 5 * 2**20


def test_content_is_synced_before_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, seen = tmp_path / "a.csv", []
    path.write_text("old")

    def synced(number: int) -> None:
        seen.append((os.fstat(number).st_size, path.read_text(), len(list(tmp_path.iterdir()))))

    monkeypatch.setattr(files.os, "fsync", synced)
    write_text(path, "new, é")
    assert seen == [(7, "old", 2)]
    assert path.read_bytes() == "new, é".encode()
    with atomic_write(path, "w", encoding="utf-16") as file:
        file.write("x")
    assert path.read_text(encoding="utf-16") == "x"


def test_the_file_behind_a_link_is_replaced_and_others_may_read_it(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "a.csv").symlink_to(tmp_path / "there" / "b.csv")
    before = os.umask(0o022)
    try:
        write_text(tmp_path / "a.csv", "new")
    finally:
        os.umask(before)
    assert (tmp_path / "a.csv").is_symlink()
    assert (tmp_path / "there" / "b.csv").read_text() == "new"
    assert (tmp_path / "there" / "b.csv").stat().st_mode & 0o777 == 0o644


def half_written(path: Path, error: BaseException) -> None:
    with atomic_write(path) as file:
        file.write(b"half")
        raise error


def test_an_error_while_it_is_written_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for error in (ValueError("x"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            half_written(path, error)
        assert not list(tmp_path.iterdir())
    with pytest.raises(FileNotFoundError):
        write_text(tmp_path / "none" / "a.csv", "x")


def test_a_temporary_file_that_is_removed_as_stale_at_once_is_created_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Another process may remove it between its opening and its locking.
    real, removed = locks.fcntl.flock, []  # pyright: ignore[reportOptionalMemberAccess]

    def late(file: object, operation: int) -> None:
        if not removed:
            (left,) = tmp_path.glob(".*.tmp")
            left.unlink()
            removed.append(left)
        real(file, operation)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(locks.fcntl, "flock", late)
    write_text(tmp_path / "a.csv", "x")
    assert removed and [p.name for p in tmp_path.iterdir()] == ["a.csv"]


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError("no locks here")

    left = tmp_path / ".a.csv.0123abcd.tmp"
    left.touch()
    monkeypatch.setattr(locks.fcntl, "flock", refused)
    write_text(tmp_path / "a.csv", "x")
    assert (tmp_path / "a.csv").read_text() == "x"
    assert left.exists(), "who cannot tell whether it is written to leaves it alone"


def test_leftovers_are_removed_below_too(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    left = [tmp_path / ".a.0123abcd.tmp", tmp_path / "below" / ".b.csv.01234567.tmp"]
    kept = [tmp_path / ".a.0123abc.tmp", tmp_path / "below" / "b.01234567.tmp", tmp_path / ".01234567.tmp"]
    for path in (*left, *kept):
        path.touch()
    remove_temporary_files(tmp_path)
    assert all(path.exists() for path in kept) and not any(path.exists() for path in left)


@pytest.mark.parametrize("windows", [False, True])
def test_the_temporary_file_is_locked_until_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, windows: bool
) -> None:
    real, closed = os.replace, []
    if windows:
        use_windows_locks(monkeypatch)
    with atomic_write(tmp_path / "a.csv") as file:

        def replaced(source: Path, target: Path) -> None:
            closed.append(file.closed)
            real(source, target)

        monkeypatch.setattr(files.os, "replace", replaced)
    assert closed == [windows]


def test_a_temporary_file_of_another_process_is_not_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files.secrets, "token_hex", lambda _: "0123abcd")
    monkeypatch.setattr(files, "_remove_stale", lambda _: None)
    (tmp_path / ".a.csv.0123abcd.tmp").write_text("theirs")
    with pytest.raises(FileExistsError):
        write_text(tmp_path / "a.csv", "ours")
    assert (tmp_path / ".a.csv.0123abcd.tmp").read_text() == "theirs"


def test_an_interruption_after_the_rename_is_raised_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.replace

    def interrupted(source: Path, target: Path) -> None:
        real(source, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_text(tmp_path / "a.csv", "new")
    assert (tmp_path / "a.csv").read_text() == "new"


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664])
def test_the_permissions_of_the_old_file_are_kept(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "secret.csv"
    path.touch()
    path.chmod(mode)
    with atomic_write(path) as file:
        file.write(b"x")
        assert [stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()] == [mode, mode]
    assert path.read_bytes() == b"x" and stat.S_IMODE(path.stat().st_mode) == mode
