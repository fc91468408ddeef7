"""Occupancy against NVIDIA's own calculator, cuda_occupancy.h, compiled as plain C++."""

import random
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from fa3_matrix import toolkits
from fa3_matrix.build.occupancy import LIMITS, limits, occupancy

_CALCULATOR = r"""
#include <cstdio>
#include <cuda_runtime_api.h>
#include <cuda_occupancy.h>

// Input: major minor max_shared_per_cta shared_per_sm threads registers shared barriers. Output: CTAs per SM.
int main() {
  int major, minor, threads, registers, barriers;
  size_t per_cta, per_sm, shared;
  while (scanf("%d %d %zu %zu %d %d %zu %d", &major, &minor, &per_cta, &per_sm, &threads, &registers, &shared,
               &barriers) == 8) {
    cudaOccDeviceProp device;
    device.computeMajor = major;
    device.computeMinor = minor;
    device.maxThreadsPerBlock = 1024;
    device.maxThreadsPerMultiprocessor = 2048;
    device.regsPerBlock = device.regsPerMultiprocessor = 65536;
    device.warpSize = 32;
    device.sharedMemPerBlock = 48 * 1024;
    device.sharedMemPerBlockOptin = per_cta;
    device.sharedMemPerMultiprocessor = per_sm;
    device.reservedSharedMemPerBlock = 1024;
    device.numSms = 1;
    cudaOccFuncAttributes kernel;
    kernel.maxThreadsPerBlock = 1024;
    kernel.numRegs = registers;
    kernel.sharedSizeBytes = 0;
    kernel.partitionedGCConfig = PARTITIONED_GC_OFF;
    kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    kernel.maxDynamicSharedSizeBytes = shared;
    kernel.numBlockBarriers = barriers;
    cudaOccDeviceState state;
    state.carveoutConfig = 100;
    cudaOccResult result;
    cudaOccError error = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, threads, shared);
    if (error != CUDA_OCC_SUCCESS) return 1;
    printf("%d\n", result.activeBlocksPerMultiprocessor);
  }
}
"""


@dataclass(frozen=True)
class Case:
    capability: tuple[int, int]
    threads: int
    registers: int
    shared_bytes: int
    barriers: int


def _cases(count: int) -> list[Case]:
    chance = random.Random(133)
    cases = []
    for _ in range(count):
        capability = chance.choice(list(LIMITS))
        threads = chance.choice([32, 64, 96, 128, 160, 256, 384, 512, 1024])
        cases.append(
            Case(
                capability,
                threads,
                chance.randint(16, min(255, 65536 // threads)),
                chance.choice(
                    [
                        0,
                        chance.randint(0, 4096),
                        chance.randint(0, LIMITS[capability].shared_bytes_per_cta),
                    ]
                ),
                chance.choice([0, 1, 4, 8, 16]),
            )
        )
    return cases


@pytest.mark.toolkit
def test_agrees_with_cuda_occupancy_h(tmp_path: Path):
    source, program = tmp_path / "calculator.cpp", tmp_path / "calculator"
    source.write_text(_CALCULATOR)
    include = toolkits.find("13.3").include
    subprocess.run(["g++", "-std=c++17", "-isystem", include, "-o", program, source], check=True)
    cases = _cases(4000)
    lines = []
    for case in cases:
        sm = LIMITS[case.capability]
        row = (*case.capability, sm.shared_bytes_per_cta, sm.shared_bytes)
        lines.append(
            " ".join(
                map(str, (*row, case.threads, case.registers, case.shared_bytes, case.barriers))
            )
        )
    done = subprocess.run(
        [program], input="\n".join(lines), capture_output=True, text=True, check=True
    )
    theirs = [int(line) for line in done.stdout.split()]
    ours = [
        occupancy(
            case.capability,
            threads=case.threads,
            registers=case.registers,
            shared_bytes=case.shared_bytes,
            barriers=case.barriers,
        ).ctas_per_sm
        for case in cases
    ]
    different = [(case, a, b) for case, a, b in zip(cases, ours, theirs, strict=True) if a != b]
    assert different == []


def test_names_the_limiting_resource():
    def limit(**changed: int) -> str:
        usual = {"threads": 128, "registers": 32, "shared_bytes": 0, "barriers": 1}
        return occupancy((9, 0), **usual | changed).limit

    assert limit() == "warps and registers"
    assert limit(registers=255) == "registers"
    assert limit(shared_bytes=100 * 1024) == "shared memory"
    assert limit(threads=32) == "CTAs"
    assert limit(barriers=16) == "barriers"
    assert occupancy((8, 0), threads=128, registers=32, shared_bytes=164 * 1024).ctas_per_sm == 0


def test_an_unknown_capability_is_not_guessed():
    with pytest.raises(KeyError, match=r"12\.0 has no row .*known: 8\.0, 9\.0, 10\.0"):
        limits((12, 0))
