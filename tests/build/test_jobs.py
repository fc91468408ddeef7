"""Job counts from files as the kernel lays them out."""

from pathlib import Path

from fa3_matrix.build import jobs

GIB = 1024**3


def test_cores_and_memory_follow_the_cgroup(tmp_path: Path):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:       33554432 kB\nMemAvailable:   25165824 kB\n")
    assert jobs.available_bytes(tmp_path, meminfo) == 24 * GIB
    assert jobs.cores(tmp_path) >= 1
    (tmp_path / "memory.max").write_text(f"{8 * GIB}\n")
    (tmp_path / "memory.current").write_text(f"{3 * GIB}\n")
    (tmp_path / "cpu.max").write_text("100000 100000\n")
    assert jobs.available_bytes(tmp_path, meminfo) == 5 * GIB
    assert jobs.cores(tmp_path) == 1
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert jobs.available_bytes(tmp_path, meminfo) == 24 * GIB


def test_a_heavy_compiler_lowers_the_count(monkeypatch):
    monkeypatch.setattr(jobs, "cores", lambda: 16)
    monkeypatch.setattr(jobs, "available_bytes", lambda: 8 * GIB)
    assert jobs.job_count(2 * GIB) == 3
    assert jobs.job_count(100 * GIB) == 1
    assert jobs.job_count() == 15
