"""Restores a data directory from a backup: every file is copied and is what the manifest says, or nothing appears.

The copy is written beside its place, as `<name>.partial`, and renamed when all of it is durable.
"""

import shutil
from pathlib import Path, PurePosixPath

from ternmq_broker.store.disk.overlay import open_overlay
from ternmq_broker.store.log import durable_watermarks
from ternmq_broker.store_tools.durable_copies import ShortFile, copy_file, sync_folder
from ternmq_broker.store_tools.manifest import DATA, BackupManifest, read_manifest
from ternmq_broker.store_tools.progress import Progress, ProgressSteps, no_progress
from ternmq_common.errors import StartupError
from ternmq_common.process.private_files import create_file, create_folder


def restore_backup(backup: Path, directory: Path, progress: Progress = no_progress) -> BackupManifest:
    """Copy the backup to a data directory that does not exist, or is empty. StartupError, OSError."""
    manifest = read_manifest(backup)
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise StartupError(f"{directory} is not empty; a backup is restored to a folder that is, or is not there")
    partial = directory.with_name(f"{directory.name}.partial")
    if partial.exists():
        raise StartupError(f"{partial} is there, of a restore that was interrupted; remove it")
    create_folder(partial)
    try:
        _copy_files(manifest, backup / DATA, partial, ProgressSteps(progress, manifest.size_bytes))
        # A backup has no such file, and a start would report it missing.
        create_file(partial / "store" / durable_watermarks.NAME).close()
    except StartupError:
        shutil.rmtree(partial)
        raise
    partial.rename(directory)
    sync_folder(directory.parent)
    return manifest


def _copy_files(manifest: BackupManifest, source: Path, target: Path, stepping: ProgressSteps) -> None:
    folders = {target}
    for name, (size, digest) in manifest.files.items():
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            raise StartupError(f"the backup names a file outside of it: {name}")
        place = target / path
        create_folder(place.parent)
        folders |= {parent for parent in place.parents if parent.is_relative_to(target)}
        _copy_file(source / path, size, digest, place, stepping)
    for folder in folders:
        sync_folder(folder)
    stepping.finish_steps()


def _copy_file(source: Path, size: int, digest: str, place: Path, stepping: ProgressSteps) -> None:
    try:
        with open_overlay(source) as file:
            if file.size != size:
                raise StartupError(f"the backup is damaged: {source} has {file.size} bytes instead of {size}")
            found = copy_file(file, size, place, stepping.add_bytes)
    except (FileNotFoundError, ShortFile):
        raise StartupError(f"the backup is damaged: {source} is missing, or cut off") from None
    if found != digest:
        raise StartupError(f"the backup is damaged: {source} does not have the bytes that were backed up")
