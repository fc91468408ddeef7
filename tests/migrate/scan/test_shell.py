"""Makefiles and shell scripts: what nvcc is asked for, and behind which conditions."""

import time

import pytest

from fa3_matrix.migrate.finding import Finding
from fa3_matrix.migrate.rules import State
from fa3_matrix.migrate.scan import shell

from ..small_difference import DIFFERENCE, SAME_MAJOR, applied


def found(text: str, file: str = "build.sh") -> list[Finding]:
    return list(shell.find(file, text, DIFFERENCE))


def rows(text: str, file: str = "build.sh") -> list[tuple[int, str, str, str]]:
    return [(f.line, f.rule, f.name, str(f.state)) for f in found(text, file)]


@pytest.mark.parametrize(
    "path, head, accepted",
    [
        ("src/Makefile", b"", True),
        ("Makefile.am", b"", True),
        ("rules.mk", b"", True),
        ("run.sh", b"", True),
        ("configure", b"#!/usr/bin/env bash\n", True),
        ("tool", b"#!/bin/sh\n", True),
        ("tool", b"#!/usr/bin/env python3\n", False),
        ("a.cu", b"", False),
        ("README.md", b"", False),
    ],
)
def test_which_files_are_read(path: str, head: bytes, accepted: bool) -> None:
    assert shell.accepts(path, head) is accepted


@pytest.mark.parametrize(
    "line, name",
    [
        ("nvcc -arch=sm_70 -c a.cu", "sm_70"),
        ("nvcc -arch sm_70 -c a.cu", "sm_70"),
        ("nvcc --gpu-architecture=compute_52 a.cu", "sm_52"),
        ("nvcc -gencode arch=compute_60,code=sm_60 a.cu", "sm_60"),
        ("nvcc -gencode=arch=compute_60,code=[sm_60,compute_60] a.cu", "sm_60"),
        ('nvcc -gencode arch=compute_60,code=\\"sm_60,compute_60\\" a.cu', "sm_60"),
        ("nvcc --generate-code arch=compute_72,code=sm_72 a.cu", "sm_72"),
        ("nvcc --gpu-architecture compute_70 --gpu-code sm_75 a.cu", "sm_70"),
        ("SMS ?= 50 80", "sm_50"),
        ("CUDA_ARCH := sm_61", "sm_61"),
        ("export TORCH_CUDA_ARCH_LIST='7.0+PTX'", "sm_70"),
        ("TORCH_CUDA_ARCH_LIST=Volta make", "sm_70"),
        ("export TF_CUDA_COMPUTE_CAPABILITIES=5.2,8.0", "sm_52"),
        ("cmake -DCMAKE_CUDA_ARCHITECTURES=70-real .", "sm_70"),
        ("cmake -D CMAKE_CUDA_ARCHITECTURES:STRING='70;80' .", "sm_70"),
        ("export CUDAARCHS=53", "sm_53"),
    ],
)
def test_architectures_are_found_however_they_are_spelt(line: str, name: str) -> None:
    (one,) = [f for f in found(line) if f.rule == "ARCH-REMOVED"]
    assert (one.name, one.state, one.since) == (name, State.ACTIVE, "13.0")


@pytest.mark.parametrize(
    "line",
    [
        "nvcc -arch=sm_80 -c a.cu",
        "nvcc -arch=native -c a.cu",
        "nvcc -arch=sm_${CC} -c a.cu",
        "# nvcc -arch=sm_70",
        "echo done # -arch=sm_70",
        "SMS = 75 80 90",
        "export TORCH_CUDA_ARCH_LIST='7.5;8.0'",
        "MESSAGES=70",
        "python train.py --arch resnet_50 --size 70",
        "nvcc -arch=sm_35 -c a.cu",  # gone before the old toolkit
        "g++ -r -o a.o b.o",
        "ls -r",
        "echo sm_700 compute_7000",
    ],
)
def test_what_is_no_break(line: str) -> None:
    assert [f for f in found(line) if f.rule != "ARCH-DEFAULT"] == []


def test_options_over_several_lines_are_one_command() -> None:
    text = (
        "all:\n\tnvcc -O3 \\\n\t  -gencode arch=compute_70,code=sm_70 \\\n"
        "\t  -gencode arch=compute_80,code=sm_80 -c a.cu\n"
    )
    (one,) = found(text, "Makefile")
    assert (one.line, one.column) == (3, 4)
    assert "compute_70" not in applied(text, one.edits)
    assert "compute_80" in applied(text, one.edits)


def test_a_makefile_meets_the_new_meaning_of_r_only_behind_nvcc() -> None:
    text = "a: b\n\t$(NVCC) -r -o a b.o\nc: b\n\tld -r -o c b.o\n"
    assert rows(text, "Makefile") == [(2, "FLAG-CHANGED", "-r", "active")]


def test_dialects_are_latent_unless_cccl_is_spoken_of() -> None:
    assert rows("nvcc -arch=sm_80 -std=c++14 a.cu") == [(1, "DIALECT", "c++14", "latent")]
    assert rows("# thrust\nTHRUST=1 nvcc -arch=sm_80 -std=c++14 a.cu")[0][3] == "active"
    assert rows("nvcc -arch=sm_80 -std=c++17 a.cu") == []


def test_no_architecture_is_nvccs_default() -> None:
    assert rows("nvcc -c a.cu -o a.o") == [(1, "ARCH-DEFAULT", "-arch", "active")]
    assert rows("nvcc $FLAGS -c a.cu -o a.o") == []  # what FLAGS holds is not known


def test_intels_classic_compiler() -> None:
    assert rows("nvcc -arch=sm_80 -ccbin icpc a.cu")[0][1:3] == ("HOSTCC", "icc")
    assert rows("nvcc -arch=sm_80 -ccbin g++ a.cu") == []


@pytest.mark.parametrize(
    "text, states",
    [
        ('if [ "$CUDA_MAJOR" -lt 13 ]; then\nARCH=sm_70\nelse\nARCH=sm_60\nfi\nARCH=sm_52', "inactive active active"),
        ('if [[ "$CUDA_VERSION" == 12* ]]; then\nARCH=sm_70\nfi', "inactive"),
        ("if (( CUDA_VERSION >= 13000 )); then\nARCH=sm_70\nfi", "active"),
        ('if [ "$WITH_OLD" = 1 ]; then\nARCH=sm_70\nfi\nARCH=sm_60', "latent active"),
        ('if [ "$X" = 1 ]; then\nARCH=sm_70\nelif [ "$CUDA_MAJOR" -ge 13 ]; then\nARCH=sm_60\nelse\nARCH=sm_52\nfi',
         "latent latent inactive"),
        ('if [ -z "$ARCH" ]; then\nARCH=sm_70\nfi', "active"),
        ('case "$CUDA_VERSION" in\n12.*)\nARCH=sm_70\n;;\n13.*) ARCH=sm_60 ;;\n*)\nARCH=sm_52\n;;\nesac\nARCH=sm_50',
         "inactive active inactive active"),
        ('case "$HOST" in\na)\nARCH=sm_70\n;;\nesac', "latent"),
        ("[[ $CUDA_VERSION == 12* ]] && ARCH=sm_70", "inactive"),
        ("[[ $CUDA_VERSION == 13* ]] && ARCH=sm_70", "active"),
    ],
)  # fmt: skip
def test_conditions_of_shells(text: str, states: str) -> None:
    assert [str(f.state) for f in found(text)] == states.split()


@pytest.mark.parametrize(
    "text, states",
    [
        ("ifeq ($(CUDA_MAJOR),12)\nSMS = 70\nelse\nSMS = 60\nendif\nSMS = 52\n", "inactive active active"),
        ("ifneq ($(CUDA_MAJOR),12)\nSMS = 70\nendif\n", "active"),
        ("ifeq ($(shell expr $(CUDA_VERSION) \\>= 13),1)\nSMS = 70\nelse\nSMS = 60\nendif\n", "active inactive"),
        ("ifeq ($(HOST),arm)\nSMS = 70\nelse ifeq ($(CUDA_MAJOR),12)\nSMS = 60\nendif\n", "latent inactive"),
        ("ifndef SMS\nSMS = 70\nendif\n", "active"),
        ("ifdef OLD\nSMS = 70\nendif\n", "latent"),
        ("ifeq ($(SMS),)\nSMS = 70\nendif\n", "active"),
    ],
)  # fmt: skip
def test_conditions_of_make(text: str, states: str) -> None:
    assert [str(f.state) for f in found(text, "Makefile")] == states.split()


def test_libraries_packages_and_folders() -> None:
    text = (
        "g++ a.o -lnvToolsExt -L/usr/local/cuda-12.4/lib64\n"
        "ln -s libcudart.so.12.4.127 libcudart.so.12\n"
        "pip install nvidia-cuda-runtime-cu12==12.4.127 cupy-cuda12x --index-url https://example.org/whl/cu124\n"
        "apt-get install -y cuda-toolkit-12-4 libcudnn9-cuda-12\n"
        "conda install -c nvidia/label/cuda-12.4.1 cuda-version=12.4\n"
    )
    assert [(f.line, f.rule, f.construct) for f in found(text)] == [
        (1, "SONAME", "-lnvToolsExt"),
        (1, "SONAME", "-L/usr/local/cuda-12.4"),
        (2, "SONAME", "libcudart.so.12.4.127"),
        (2, "SONAME", "libcudart.so.12"),
        (3, "PY-WHEEL", "nvidia-cuda-runtime-cu12"),
        (3, "PY-WHEEL", "cupy-cuda12x"),
        (3, "PY-WHEEL", "cu124"),
        (4, "IMAGE", "cuda-toolkit-12-4"),
        (4, "IMAGE", "libcudnn9-cuda-12"),
        (5, "IMAGE", "nvidia/label/cuda-12.4.1"),
        (5, "IMAGE", "cuda-version=12.4"),
    ]
    edits = tuple(edit for f in found(text) for edit in f.edits)
    changed = applied(text, edits)
    assert "cuda-toolkit-13-3" in changed
    assert "libcudart.so.12.4.127 libcudart.so.13" in changed
    assert "nvidia-cuda-runtime-cu12==12.4.127 cupy-cuda13x" in changed  # a pin is not guessed


def test_carriage_returns_and_their_columns() -> None:
    (one,) = found("SMS = 80 70\r\n", "Makefile")
    assert (one.line, one.column, one.construct) == (1, 10, "80 70")
    assert applied("SMS = 80 70\r\n", one.edits) == "SMS = 80\r\n"


def test_within_a_major_nothing_is_renamed() -> None:
    text = "pip install nvidia-cublas-cu12 libcudart.so.12\nARCH=sm_70\napt install cuda-nvcc-12-4"
    assert [f.name for f in shell.find("a.sh", text, SAME_MAJOR)] == ["cuda-nvcc-12-4"]


@pytest.mark.parametrize(
    "text",
    ["if " * 30_000, "(" * 50_000, "ARCH=" + "7" * 100_000, "'\"" * 40_000, "a\\\n" * 20_000],
)
def test_time_does_not_explode(text: str) -> None:
    started = time.perf_counter()
    found(text)
    assert time.perf_counter() - started < 5
