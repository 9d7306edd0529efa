"""Makes the file system of an image: `python3 minimal_root.py FOLDER`.

The interpreter that runs this, its standard library, the shared libraries that they and /opt/ternmq need, certificates,
a shell and a few commands for diagnosis. No package manager, no compiler, no setuid files: there is
less to update, and less than half of what the image weighs that it is taken from.
"""

import compileall
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

USER = "ternmq:x:10001:10001::/var/lib/ternmq:/bin/sh"
COMMANDS = ("cat", "df", "du", "env", "head", "id", "ls", "sh", "sleep", "stat", "tail")
ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "nsswitch.conf", "os-release", "ssl/certs/ca-certificates.crt")
NOT_NEEDED = (
    *("__pycache__", "config-*", "dist-packages", "distutils", "ensurepip", "idlelib", "lib2to3", "pydoc_data"),
    *("_tkinter.*", "site-packages", "test", "tkinter", "turtle.py", "turtledemo"),
    "_pydecimal.py",  # stands in for the compiled _decimal, which is there
)
ENVIRONMENT = Path("/opt/ternmq")


def main(root: Path) -> None:
    link_merged_folders(root)
    stdlib = Path(sysconfig.get_path("stdlib"))
    copied = root / stdlib.relative_to("/")
    shutil.copytree(stdlib, copied, symlinks=True, ignore=shutil.ignore_patterns(*NOT_NEEDED))
    compileall.compile_dir(copied, stripdir=root, quiet=1)
    programs = [Path(sys.executable), *(Path(which(command)) for command in COMMANDS)]
    extensions = [*copied.rglob("*.so"), *ENVIRONMENT.rglob("*.so*")]
    etc = [path for path in (Path("/etc", name) for name in ETC) if path.exists()]
    for path in programs + shared_libraries(programs + extensions) + etc:
        copy(path, root)
    make_user(root)


def link_merged_folders(root: Path) -> None:
    """/bin and /lib are links into /usr, as in the image that this is taken from."""
    for name in ("bin", "lib", "lib64"):
        folder = Path("/", name)
        if folder.is_symlink():
            (root / folder.readlink()).mkdir(parents=True)
            (root / name).symlink_to(folder.readlink())


def shared_libraries(files: list[Path]) -> list[Path]:
    """Return the libraries that the loader would map for these files, except those that they contain."""
    # It ends with 1 if one of them is a static program.
    done = subprocess.run(["ldd", *files], capture_output=True, text=True, check=False)
    missing = [line.strip() for line in done.stdout.splitlines() if line.endswith("=> not found")]
    assert not missing, f"libraries are missing in this image: {missing}"
    found = {
        word for line in done.stdout.splitlines() for word in line.split() if word.startswith("/") and word[-1] != ":"
    }
    return sorted(Path(name) for name in found if not Path(name).is_relative_to(ENVIRONMENT))


def copy(path: Path, root: Path) -> None:
    """A file, and if it is a link, what it leads to; a folder whole."""
    place = path.parent.resolve() / path.name
    target = root / place.relative_to("/")
    if target.exists() or target.is_symlink():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if place.is_symlink():
        target.symlink_to(place.readlink())
        copy(place.parent / place.readlink(), root)
    elif place.is_dir():
        shutil.copytree(place, target, symlinks=True)
    else:
        shutil.copy2(place, target)


def which(command: str) -> str:
    found = shutil.which(command)
    assert found is not None, f"{command} is not in this image"
    return found


def make_user(root: Path) -> None:
    """So that `id` and Python know a name for the number that the images run as."""
    (root / "etc/passwd").write_text(f"root:x:0:0::/root:/bin/sh\n{USER}\n")
    (root / "etc/group").write_text("root:x:0:\nternmq:x:10001:\n")
    (root / "tmp").mkdir(mode=0o1777)
    (root / "tmp").chmod(0o1777)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
