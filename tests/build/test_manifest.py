"""Manifests that are not what they should be, the tree's revision, and compile times that overlap."""

import json
import subprocess
from pathlib import Path

import pytest

from fa3_matrix.build import Manifest, git
from fa3_matrix.build.audit import Compiled, busy_seconds
from fa3_matrix.build.cubin import VariantInfo, read
from fa3_matrix.errors import AuditError, BuildError, Fa3Error


def test_a_manifest_of_another_shape_is_refused(tmp_path: Path):
    with pytest.raises(Fa3Error, match="no such file"):
        Manifest.read(tmp_path)
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({"schema": 1, "cell": "sm90-cu133"}))
    with pytest.raises(BuildError, match=r"not a manifest of this version .* build the cell again"):
        Manifest.read(tmp_path)
    path.write_text(json.dumps({"schema": 1, "cell": 90}))
    with pytest.raises(BuildError, match="expected str, found 90"):
        Manifest.read(tmp_path)


def test_only_a_cubin_is_a_cubin(tmp_path: Path):
    path = tmp_path / "x.cubin"
    path.write_text("text")
    with pytest.raises(AuditError, match="not a cubin"):
        read(path)
    with pytest.raises(AuditError, match="ELF machine is"):
        read(Path("/proc/self/exe").resolve())
    with pytest.raises(ValueError, match="36 bytes, expected 40"):
        VariantInfo.unpack(bytes(36))


def test_revision_is_of_a_checkout_alone(tmp_path: Path):
    assert git.revision(tmp_path) is None
    run = ["git", "-C", tmp_path, "-c", "user.name=n", "-c", "user.email=e@example.com"]
    subprocess.run([*run, "init", "-q"], check=True)
    (tmp_path / "file").write_text("one")
    subprocess.run([*run, "add", "file"], check=True)
    subprocess.run([*run, "commit", "-q", "-m", "one"], check=True)
    clean = git.revision(tmp_path)
    assert clean is not None
    assert len(clean.commit) == 40
    assert not clean.dirty
    (tmp_path / "file").write_text("two")
    assert git.revision(tmp_path) == git.Revision(clean.commit, dirty=True)
    # An unpacked archive inside somebody's checkout is not that checkout.
    (tmp_path / "inner").mkdir()
    assert git.revision(tmp_path / "inner") is None


def test_overlapping_compiles_count_once():
    def compile_of(started: float, seconds: float) -> Compiled:
        return Compiled(Path("x"), [], started, seconds, 0, "")

    assert (
        busy_seconds([compile_of(10, 4), compile_of(0, 3), compile_of(12, 1), compile_of(13, 5)])
        == 11
    )
