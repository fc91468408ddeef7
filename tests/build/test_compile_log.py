"""The launcher with real compilers, and what is read from ptxas."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fa3_matrix.build import compile_log, flags, ptxas
from fa3_matrix.errors import AuditError

LAUNCHER = [sys.executable, compile_log.__file__, "--"]


def test_keeps_what_a_compile_cost_and_said(tmp_path: Path):
    source, output = tmp_path / "a.cpp", tmp_path / "a.o"
    source.write_text("#warning look here\nint main() { return 0; }\n")
    command = ["g++", "-c", str(source), "-o", str(output)]
    done = subprocess.run([*LAUNCHER, *command], capture_output=True, text=True, check=True)
    assert "look here" in done.stderr
    record = json.loads(compile_log.log_path(output).read_text())
    assert record["command"] == command
    assert "look here" in record["stderr"]
    assert 0 < record["seconds"] < 60
    assert record["peak_bytes"] > 2**23


def test_a_failed_compile_leaves_no_log(tmp_path: Path):
    source, output = tmp_path / "a.cpp", tmp_path / "a.o"
    source.write_text("int main() { return nothing; }\n")
    compile_log.log_path(output).write_text("{}")
    done = subprocess.run(
        [*LAUNCHER, "g++", "-c", source, "-o", output], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "nothing" in done.stderr
    assert not compile_log.log_path(output).exists()
    usage = subprocess.run(LAUNCHER[:2], capture_output=True, text=True, check=False)
    assert usage.returncode == 2


def test_hides_the_environment_from_the_compiler(tmp_path: Path):
    (tmp_path / "hidden.h").write_text("")
    source = tmp_path / "a.cpp"
    source.write_text('#include "hidden.h"\n')
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "hidden.h").rename(tmp_path / "elsewhere" / "hidden.h")
    environment = os.environ | {"CPATH": str(tmp_path / "elsewhere")}
    command = ["g++", "-c", source, "-o", tmp_path / "a.o"]
    assert subprocess.run(command, env=environment, check=False).returncode == 0
    done = subprocess.run([*LAUNCHER, *command], env=environment, capture_output=True, check=False)
    assert done.returncode == 1


# As printed by ptxas of 13.3, with a function that was not inlined.
_LOG = """\
ptxas info    : (C7517) wgmma.wait_group is injected in around line 69 by compiler in function 'one'
ptxas info    : 32 bytes gmem
ptxas info    : Compiling entry function 'one' for 'sm_90a'
ptxas info    : Function properties for helper
    16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads
ptxas info    : Function properties for one
    32 bytes stack frame, 0 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 168 registers, used 3 barriers, 32 bytes cumulative stack size, 512 bytes smem
ptxas info    : Compile time = 10.5 ms
"""


def test_reads_statistics_and_advisories():
    statistics = ptxas.parse(_LOG)
    assert statistics.kernels == (ptxas.Usage("one", "sm_90a", 168, 3, 512, 32, 8, 16),)
    assert [advisory.code for advisory in statistics.advisories] == ["C7517"]
    assert compile_log.visible(_LOG) == _LOG.splitlines(keepends=True)[0]
    with pytest.raises(ValueError, match="no register count for 'one'"):
        ptxas.parse("\n".join(_LOG.splitlines()[:5]))


def test_flags_that_the_build_forbids():
    good = ["nvcc", "--generate-code=arch=compute_90a,code=[sm_90a]", "-O3"]
    flags.check(good, "arch=compute_90a,code=sm_90a")
    for word in ("-arch=sm_90a", "-use_fast_math", "-rdc=true"):
        with pytest.raises(AuditError, match=f"was given '{word}'"):
            flags.check([*good, word], "arch=compute_90a,code=sm_90a")
    with pytest.raises(AuditError, match="expected exactly"):
        flags.check(
            [*good, "-gencode=arch=compute_90,code=compute_90"], "arch=compute_90a,code=sm_90a"
        )
    with pytest.raises(AuditError, match="no target"):
        flags.check(["nvcc", "-O3"], "arch=compute_90a,code=sm_90a")
