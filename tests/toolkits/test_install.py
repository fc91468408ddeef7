"""Installing a recipe: whole or not at all, once, resumable, verified."""

import dataclasses
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fa3_matrix.errors import ToolkitError
from fa3_matrix.toolkits._install import damaged, install, installed

from .conftest import Mirror, install_in_process, make_recipe, make_wheel, needs_apt

pytestmark = pytest.mark.usefixtures("cache")


def trees(cache: Path) -> list[str]:
    """Everything beside the locks and downloads, hidden leftovers included."""
    folder = cache / "trees"
    return sorted(os.listdir(folder)) if folder.exists() else []


@needs_apt
def test_assembles_wheel_and_debian_package(cache: Path, wheelhouse: Path, mirror: Mirror) -> None:
    recipe = make_recipe(make_wheel(wheelhouse), mirror.package)
    tree = install(recipe)

    assert installed(recipe) == tree
    assert tree.parent.parent == cache
    run = subprocess.run([tree / "bin/run"], capture_output=True, text=True, check=True)
    assert run.stdout == "data\n"
    tool = subprocess.run([tree / "bin/tool"], capture_output=True, text=True, check=True)
    assert tool.stdout == "ran\n"
    assert (tree / "include/tool.h").read_text() == "// data\n"
    assert not (tree / "include/__init__.py").exists()
    assert not list(tree.rglob("unwanted.txt"))
    assert (tree / "lib/link.a").read_text() == "!<arch>\n"
    assert damaged(tree) == []


def test_second_call_needs_no_source(wheelhouse: Path) -> None:
    recipe = make_recipe(make_wheel(wheelhouse))
    tree = install(recipe)
    shutil.rmtree(wheelhouse)
    assert install(recipe) == tree


def test_finished_download_serves_a_new_installation(wheelhouse: Path) -> None:
    recipe = make_recipe(make_wheel(wheelhouse))
    shutil.rmtree(install(recipe))
    shutil.rmtree(wheelhouse)
    assert (install(recipe) / "bin/run").exists()


def test_changed_recipe_does_not_reuse_the_tree(wheelhouse: Path) -> None:
    package = make_wheel(wheelhouse)
    first = install(make_recipe(package))
    second = install(make_recipe(package, files={"lib/empty.a": "other\n"}))
    assert first != second


def test_pip_refuses_a_wheel_with_another_hash(cache: Path, wheelhouse: Path) -> None:
    package = make_wheel(wheelhouse)
    make_wheel(wheelhouse, text="tampered")
    with pytest.raises(ToolkitError, match=r"hash mismatch.*tool-wheel==1\.0"):
        install(make_recipe(package))
    assert trees(cache) == []
    assert not list((cache / "downloads").rglob("*.whl"))


@needs_apt
def test_debian_package_with_another_hash_is_deleted(cache: Path, mirror: Mirror) -> None:
    package = dataclasses.replace(mirror.package, sha256="0" * 64)
    with pytest.raises(ToolkitError, match=r"hash mismatch: tool-deb=2\.0~1-3 arrived"):
        install(make_recipe(package))
    assert trees(cache) == []
    assert not list((cache / "downloads").rglob("*.deb"))


def test_damaged_download_is_fetched_again(cache: Path, wheelhouse: Path) -> None:
    recipe = make_recipe(make_wheel(wheelhouse))
    shutil.rmtree(install(recipe))
    (archive,) = (cache / "downloads").rglob("*.whl")
    archive.write_bytes(archive.read_bytes()[:-1])
    assert damaged(install(recipe)) == []


def test_missing_wheel_is_named(cache: Path, wheelhouse: Path) -> None:
    package = make_wheel(wheelhouse)
    (wheelhouse / package.file).unlink()
    with pytest.raises(ToolkitError, match=r"could not download tool-wheel==1\.0 with pip"):
        install(make_recipe(package))
    assert trees(cache) == []


def test_unreachable_index_asks_whether_offline(
    wheelhouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = make_wheel(wheelhouse)
    monkeypatch.setenv("PIP_NO_INDEX", "0")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    # Port 9 of this machine (discard): nothing listens there.
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    with pytest.raises(ToolkitError, match=r"tool-wheel==1\.0 with pip \(is this machine offline"):
        install(make_recipe(package))


@needs_apt
def test_unreachable_mirror_is_named(
    cache: Path, mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FA3_DEBIAN_MIRROR", "file:/no/such/mirror")
    with pytest.raises(ToolkitError, match=r"tool-deb=2\.0~1-3.*\n?.*file:/no/such/mirror"):
        install(make_recipe(mirror.package))
    assert trees(cache) == []


@needs_apt
def test_mirror_without_this_version_is_named(mirror: Mirror) -> None:
    package = dataclasses.replace(mirror.package, version="9")
    with pytest.raises(ToolkitError, match=r"could not download tool-deb=9 \(trixie/non-free\)"):
        install(make_recipe(package))


def test_layout_that_matches_nothing_is_an_error(cache: Path, wheelhouse: Path) -> None:
    package = dataclasses.replace(make_wheel(wheelhouse), layout={"elsewhere/": ""})
    with pytest.raises(ToolkitError, match="nothing in the archive matches"):
        install(make_recipe(package))
    assert trees(cache) == []


def test_other_machine_is_refused_before_any_download(cache: Path, wheelhouse: Path) -> None:
    recipe = make_recipe(make_wheel(wheelhouse), machine="riscv64")
    with pytest.raises(ToolkitError, match="on linux riscv64 only"):
        install(recipe)
    assert not (cache / "downloads").exists()


def test_disk_error_names_the_folder(cache: Path, wheelhouse: Path) -> None:
    cache.mkdir()
    (cache / "trees").write_text("a file where the folder should be")
    with pytest.raises(ToolkitError, match=r"could not be installed in .*trees.*FA3_CACHE_DIR"):
        install(make_recipe(make_wheel(wheelhouse)))


def test_cache_that_cannot_be_made_is_named(
    tmp_path: Path, wheelhouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("FA3_CACHE_DIR", str(tmp_path / "file/cache"))
    with pytest.raises(ToolkitError, match="set FA3_CACHE_DIR"):
        install(make_recipe(make_wheel(wheelhouse)))


def test_damage_is_found(wheelhouse: Path) -> None:
    tree = install(make_recipe(make_wheel(wheelhouse)))
    (tree / "include/tool.h").write_text("// changed\n")
    (tree / "bin/run").unlink()
    assert sorted(damaged(tree)) == ["bin/run", "include/tool.h"]


def test_two_processes_at_once_download_once(cache: Path, wheelhouse: Path) -> None:
    recipe = make_recipe(make_wheel(wheelhouse, "one"), make_wheel(wheelhouse, "two"))
    recipe = dataclasses.replace(
        recipe,
        packages=(
            recipe.packages[0],
            dataclasses.replace(recipe.packages[1], layout={"root/bin/": "two/"}),
        ),
    )
    running = [install_in_process(recipe) for _ in range(2)]
    results = [process.communicate(timeout=120) for process in running]
    assert [process.returncode for process in running] == [0, 0], results
    assert results[0][0] == results[1][0] == f"{installed(recipe)}\n"
    everything = results[0][1] + results[1][1]
    assert everything.count("download one==1.0") == 1
    assert everything.count("download two==1.0") == 1
    assert everything.count("waiting for another process") == 1
    assert trees(cache) == [recipe.folder]


@needs_apt
def test_after_a_kill_only_the_unfinished_download_is_repeated(
    cache: Path, wheelhouse: Path, mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = make_recipe(make_wheel(wheelhouse), mirror.package)
    with _stalling_server(mirror.folder) as url:
        monkeypatch.setenv("FA3_DEBIAN_MIRROR", url)
        first = install_in_process(recipe)
        half = mirror.package.bytes // 2
        deadline = time.monotonic() + 60
        while not any(p.stat().st_size >= half for p in cache.glob("downloads/*/incoming/*.deb")):
            assert time.monotonic() < deadline and first.poll() is None, first.communicate()
            time.sleep(0.05)
        os.killpg(first.pid, signal.SIGKILL)
        first.communicate()
        # What a process that is killed while unpacking leaves behind.
        (cache / "trees" / ".tool-leftover").mkdir(parents=True)
        assert installed(recipe) is None

        second = install_in_process(recipe)
        said = second.communicate(timeout=120)
    assert second.returncode == 0, said
    assert "download tool-wheel" not in said[1]
    assert "download tool-deb" in said[1]
    assert trees(cache) == [recipe.folder]
    assert damaged(cache / "trees" / recipe.folder) == []


@contextmanager
def _stalling_server(root: Path) -> Iterator[str]:
    """Serve `root` on the loopback; the first request for a .deb stalls half-way. Yields the URL."""
    stalled = threading.Event()
    closing = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = root / self.path.lstrip("/").replace("%7e", "~")
            if not path.is_file():
                self.send_error(404)
                return
            content = path.read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if path.suffix == ".deb" and not stalled.is_set():
                stalled.set()
                self.wfile.write(content[: len(content) // 2])
                self.wfile.flush()
                closing.wait(60)
            else:
                self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        closing.set()
        server.shutdown()
        thread.join()
        server.server_close()
