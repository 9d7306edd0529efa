"""A real PostgreSQL for tests: started, killed, paused and restarted like a process of ours.

`tests/support/install_postgres.sh` installs its programs. It listens on a free port of 127.0.0.1, or of another address
inside a network namespace, trusts everybody there but the user `guarded`, and syncs nothing. PostgreSQL refuses to run
as root; then it runs as an unprivileged user of the machine.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Self

import psutil
import psycopg

from tests.support.ports import free_port

INSTALL = "run tests/support/install_postgres.sh as root"
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 20.0
STARTS_MAX = 5
LOOPBACK = "127.0.0.1"
USERS = ("postgres", "nobody")
GUARDED = "guarded"
"""Who needs a password, once `guard` has made this user."""
INITDB_OPTIONS = ("-E", "UTF8", "--locale", "C", "--no-sync")
# What is committed outlives `kill`, as it would with syncs: the machine goes on.
SETTINGS = ("fsync=off", "autovacuum=off", "unix_socket_directories=", "max_connections=50")

# As PostgreSQL calls them where nothing else is said.
TLS_FILES = ("server.crt", "server.key")


class NoPostgres(Exception):
    """PostgreSQL can't be had here; the text says why."""


class Postgres:
    """One server with a database that is empty at first: `url`. More of them by `new_database`."""

    def __init__(
        self,
        folder: Path,
        *,
        host: str = LOOPBACK,
        within: Sequence[str] = (),
        certificate: tuple[Path, Path] | None = None,
        holds: Path | None = None,
    ) -> None:
        """`within` comes before the commands that run on `host`, such as `ip netns exec NAME`. With a certificate and
        its key the server takes TLS alone. It begins with a copy of what it `holds`, which `stopped_copy` returned."""
        self._host, self._within = host, within
        self._certificate, self._holds = certificate, holds
        self._programs = programs()
        self._user = _unprivileged_user()
        self._folder, self._is_our_own = _reachable(folder, self._user)
        self._data = self._folder / "postgres"
        self._process: subprocess.Popen[str] | None = None
        self._log: deque[str] = deque(maxlen=50)
        self._databases = count()
        self.port = free_port()

    @property
    def url(self) -> str:
        return self.url_of("postgres")

    def url_of(self, database: str, user: str = "ternmq") -> str:
        return f"postgresql://{user}@{self._host}:{self.port}/{database}"

    def new_database(self, template: str = "template1") -> str:
        """The name of a new database, made like `template`."""
        name = f"d{next(self._databases)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    def drop_database(self, name: str) -> None:
        """Also while somebody is connected to it."""
        self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def execute(self, statement: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement.encode())

    def guard(self, password: str) -> None:
        """Give the user `guarded` this password; it is made if it is not there."""
        self.execute(
            f"DO $$ BEGIN CREATE ROLE {GUARDED} LOGIN SUPERUSER; EXCEPTION WHEN duplicate_object THEN NULL; END $$"
        )
        self.execute(f"ALTER ROLE {GUARDED} PASSWORD '{password}'")

    def cut_guarded(self) -> int:
        """Cut all connections of that user, who has to connect anew; how many there were."""
        cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s"
        with psycopg.connect(self.url, autocommit=True) as connection:
            return len(connection.execute(cut, (GUARDED,)).fetchall())

    def __enter__(self) -> Self:
        try:
            self._initialize()
            self.start()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self.resume()
            self.stop()
        self._remove()

    def start(self) -> None:
        """Start it, or start it again after `stop` or `kill`: on the same port, with what was in it."""
        assert self._process is None
        for _ in range(STARTS_MAX):
            if self._has_started():
                return
        raise NoPostgres(f"PostgreSQL doesn't start: {' '.join(self._log)}")

    def stop(self) -> None:
        """Stop it in order; connections are cut."""
        process = self._running()
        process.send_signal(signal.SIGINT)
        process.wait(STOP_TIMEOUT_S)
        self._process = None

    def stopped_copy(self, folder: Path) -> Path:
        """Stop it, and return a copy of what it has, for others that begin with that."""
        self.stop()
        return _copied(self._data, folder)

    def kill(self) -> None:
        """As a machine dies: all its processes at once."""
        process = self._running()
        self._each(psutil.Process.kill)
        process.wait(STOP_TIMEOUT_S)
        self._process = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def pause(self) -> None:
        """Stop answering: connections stay open, and new ones are accepted by the kernel."""
        self._each(psutil.Process.suspend)

    def resume(self) -> None:
        self._each(psutil.Process.resume)

    def _running(self) -> "subprocess.Popen[str]":
        assert self._process is not None, "it isn't running"
        return self._process

    def _each(self, act: Callable[[psutil.Process], None]) -> None:
        """Do it to the processes that the server has, then to the server."""
        server = psutil.Process(self._running().pid)
        server.suspend()  # so that it begins no others meanwhile
        for each in server.children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # some live for one connection only
                act(each)
        act(server)

    def _initialize(self) -> None:
        if self._holds is not None:
            _copied(self._holds, self._folder)
        else:
            program = self._begin("initdb", "-D", str(self._data), "-U", "ternmq", "-A", "trust", *INITDB_OPTIONS)
            _, said = program.communicate(timeout=START_TIMEOUT_S)
            if program.returncode:
                raise NoPostgres(f"initdb failed: {said.strip()}")
        rules = self._data / "pg_hba.conf"
        if GUARDED not in rules.read_text():
            rules.write_text(f"host all {GUARDED} all scram-sha-256\n{rules.read_text()}")
        if self._host != LOOPBACK:
            with rules.open("a") as more:
                more.write("host all all samenet trust\n")
        if self._certificate is not None:
            (self._data / "pg_hba.conf").write_text("hostssl all all all trust\n")
            for path, name in zip(self._certificate, TLS_FILES, strict=True):
                self._own(path, self._data / name)

    def _own(self, path: Path, copy: Path) -> None:
        """PostgreSQL takes no key of somebody else's, and none that others may read."""
        shutil.copy(path, copy)
        copy.chmod(0o600)
        if self._user is not None:
            shutil.chown(copy, self._user)

    def _has_started(self) -> bool:
        address = ("-h", self._host, "-p", str(self.port))
        settings = (*SETTINGS, "ssl=on") if self._certificate is not None else SETTINGS
        options = [word for setting in settings for word in ("-c", setting)]
        self._process = process = self._begin("postgres", "-D", str(self._data), *address, *options)
        known = threading.Event()
        threading.Thread(target=self._read_log, args=(process, known), daemon=True).start()
        if not known.wait(START_TIMEOUT_S):
            process.kill()
        if process.poll() is None:
            return True
        self._process = None
        return False

    def _begin(self, program: str, *arguments: str) -> "subprocess.Popen[str]":
        command = [str(self._programs / program), *arguments]
        if self._user is not None:
            user = pwd.getpwnam(self._user)
            # Only root may enter a namespace. Popen itself would fork to change the user, which gRPC's threads in this
            # process may not survive.
            drop = ("setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups")
            command = [*self._within, *drop, *command]
        return subprocess.Popen(
            command,
            env=_environment(),
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def _read_log(self, process: "subprocess.Popen[str]", known: threading.Event) -> None:
        """Sets `known` when it serves, or has ended."""
        assert process.stderr is not None
        with process.stderr as lines:
            for line in lines:
                self._log.append(line.strip())
                if "ready to accept connections" in line:
                    known.set()
        process.wait()
        known.set()

    def _remove(self) -> None:
        shutil.rmtree(self._folder if self._is_our_own else self._data, ignore_errors=True)


def _copied(data: Path, folder: Path) -> Path:
    """A copy of the data in the folder, of the same user."""
    subprocess.run(("cp", "-a", "--reflink=auto", str(data), str(folder)), check=True)
    return folder / data.name


def programs() -> Path:
    """The folder of `initdb` and `postgres`, of the newest version that is installed."""
    # Debian keeps them off PATH, where wrappers of another kind may be.
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    if on_path is None or shutil.which("postgres") is None:
        raise NoPostgres(f"PostgreSQL's programs are not installed: {INSTALL}")
    return Path(on_path).resolve().parent


def _unprivileged_user() -> str | None:
    """Who PostgreSQL runs as; None for ourselves."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    for name in USERS:
        if name in known:
            return name
    raise NoPostgres(f"PostgreSQL can't run as root, and there is no user {' or '.join(USERS)}: {INSTALL}")


def _reachable(folder: Path, user: str | None) -> tuple[Path, bool]:
    """A folder of the user's, and whether it is one of our own instead: pytest's are closed to others."""
    if user is None:
        return folder, False
    own = Path(tempfile.mkdtemp(prefix="ternmq-postgres-"))
    shutil.chown(own, user)
    return own, True


def _environment() -> dict[str, str]:
    """Ours, without what would tell PostgreSQL of another server."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}
