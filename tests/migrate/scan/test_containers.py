"""Dockerfiles and CI files: images, packages, inputs."""

import pytest

from fa3_matrix.migrate.finding import Finding
from fa3_matrix.migrate.scan import containers

from ..small_difference import DIFFERENCE, SAME_MAJOR, applied


def found(text: str, file: str = "Dockerfile") -> list[Finding]:
    return list(containers.find(file, text, DIFFERENCE))


@pytest.mark.parametrize(
    "path, head, accepted",
    [
        ("Dockerfile", b"", True),
        ("docker/Dockerfile.cuda", b"", True),
        ("cuda.dockerfile", b"", True),
        ("Containerfile", b"", True),
        (".github/workflows/ci.yml", b"", True),
        (".gitlab-ci.yml", b"", True),
        ("environment.yml", b"", False),
        ("meta.yaml", b"", False),
        ("image.def", b"Bootstrap: docker\n", True),
        ("exports.def", b"EXPORTS\n", False),
        (".devcontainer/devcontainer.json", b"", True),
        ("package.json", b"", False),
    ],
)
def test_which_files_are_read(path: str, head: bytes, accepted: bool) -> None:
    assert containers.accepts(path, head) is accepted


@pytest.mark.parametrize(
    "line, after",
    [
        ("FROM nvidia/cuda:12.4.1-devel-ubuntu22.04 AS x", "FROM nvidia/cuda:13.3.0-devel-ubuntu22.04 AS x"),
        ("FROM nvcr.io/nvidia/cuda:12.4.1-runtime-ubuntu22.04", "FROM nvcr.io/nvidia/cuda:13.3.0-runtime-ubuntu22.04"),
        ("FROM --platform=linux/amd64 nvidia/cuda:12.2.0-base-ubuntu22.04",
         "FROM --platform=linux/amd64 nvidia/cuda:13.3.0-base-ubuntu22.04"),
        ("FROM nvidia/cuda:12.4.1-cudnn8-devel-ubuntu20.04", None),
        ("FROM pytorch/pytorch:2.4.0-cuda12.4-cudnn9-devel", None),
        ("image: registry.example.org:5000/nvidia/cuda:12.4.1-devel", None),
        ("RUN apt-get install -y cuda-nvcc-12-4", "RUN apt-get install -y cuda-nvcc-13-3"),
        ("ARG CUDA_VERSION=12.4.1", None),
        ("ENV CUDA_VERSION 12.4.1", None),
        ("          cuda-version: '12.4'", None),
        ("  cuda: [12.4.1]", None),
    ],
)  # fmt: skip
def test_images_packages_and_settings_of_an_older_toolkit(line: str, after: str | None) -> None:
    (one,) = found(line)
    assert one.rule == "IMAGE"
    # What the new image is called is only known of CUDA's own, on systems that it still comes for.
    assert applied(line, one.edits) == (after or line)


@pytest.mark.parametrize(
    "line",
    [
        "FROM nvidia/cuda:13.3.0-devel-ubuntu22.04",
        "FROM nvidia/cuda:${CUDA_VERSION}-devel",
        "FROM ubuntu:22.04",
        "# FROM nvidia/cuda:12.4.1-devel",
        "FROM pytorch/pytorch:2.4.0-cpu",
        "FROM pytorch/pytorch:2.9.0-cuda13.0-cudnn9-devel",
        "  cuda: ['12.4.1', '13.0.2']",  # serves both
        "  python-version: '3.12'",
        "RUN apt-get install -y cuda-drivers",
        "ENV CUDA_HOME /usr/local/cuda",
        "  uses: Jimver/cuda-toolkit@v0.2.16",
    ],
)
def test_what_is_no_break(line: str) -> None:
    assert found(line) == []


def test_commands_of_a_step_are_read_as_a_shell_reads_them() -> None:
    text = (
        "jobs:\n  a:\n    container: nvidia/cuda:12.4.1-devel-ubuntu22.04\n    steps:\n      - run: |\n"
        "          if [ $CUDA_MAJOR -lt 13 ]; then\n            export TORCH_CUDA_ARCH_LIST='7.0;8.0'\n          fi\n"
        "          nvcc -arch=sm_70 a.cu\n"
    )
    assert [(f.line, f.rule, str(f.state)) for f in found(text, ".github/workflows/ci.yml")] == [
        (3, "IMAGE", "active"),
        (7, "ARCH-REMOVED", "inactive"),
        (9, "ARCH-REMOVED", "active"),
    ]


@pytest.mark.parametrize(
    "file, text, states",
    [
        ("cuda124.Dockerfile", "FROM nvidia/cuda:12.4.1-devel", "latent"),
        (".devcontainer/cu129/Dockerfile", "RUN apt install cuda-nvcc-12-9", "latent"),
        (
            "ci.yml",
            "image: nvidia/cuda:12.4.1-devel\nimage: nvidia/cuda:13.0.0-devel\n",
            "inactive",
        ),
        ("ci.yml", "- cuda: '12.4'\n  os: x\n- cuda: '13.0'\n", "inactive"),
        ("ci.yml", "- cuda: '12.4'\n- cuda: '12.6'\n", "active active"),
        ("Dockerfile", "FROM nvidia/cuda:12.4.1-devel\nFROM nvidia/cuda:13.0.0-devel\n", "active"),
    ],
)
def test_what_is_kept_for_the_old_toolkit(file: str, text: str, states: str) -> None:
    assert [str(f.state) for f in found(text, file)] == states.split()


def test_within_a_major_only_the_old_release_is_old() -> None:
    text = "FROM nvidia/cuda:12.4.1-devel\nFROM nvidia/cuda:12.6.1-devel\n"
    assert [f.line for f in containers.find("Dockerfile", text, SAME_MAJOR)] == [1]
