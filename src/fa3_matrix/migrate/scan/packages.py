"""Packages and images that carry the toolkit's version in their names: wheels, apt, conda, containers."""

import re
from collections.abc import Callable, Iterator

from fa3_matrix.migrate.difference import Change, Remedy
from fa3_matrix.migrate.finding import Edit, Finding
from fa3_matrix.migrate.rules import State
from fa3_matrix.migrate.scan.source import Source, releases

_PIN = r"\s*(?:\[[^\]]*\]\s*)?(?:===?|~=|>=?|<=?|!=|@)"


def wheels(source: Source, start: int, end: int, state: State) -> Iterator[Finding]:
    """Wheels of the old major: ``nvidia-cublas-cu12``, ``cupy-cuda12x``, ``torch==2.4+cu124``, ``/whl/cu124``."""
    majors = releases(source.difference)
    if majors is None:
        return
    old, new = majors
    suffixed = re.compile(
        rf"(?<![\w.-])(?P<name>[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*?)(?P<dash>[-_])(?P<suffix>cu{old}|cuda{old}x)(?![\w-])"
        rf"(?P<pinned>{_PIN})?",
        re.IGNORECASE,
    )
    for match in suffixed.finditer(source.text, start, end):
        whole = f"{match['name']}{match['dash']}{match['suffix']}"
        change = source.change("PY-WHEEL", whole.lower().replace("_", "-"))
        renamed = _renamed(match, change, new)
        span = (match.start(), match.end("suffix"))
        yield source.finding(
            "PY-WHEEL",
            span,
            whole,
            f"{whole} is for CUDA {old}."
            + (f" For CUDA {new} it is {renamed}." if renamed else ""),
            change=change,
            remedy=Remedy(f"Require {renamed or 'the package'}, of a version for CUDA {new}."),
            state=_state(source, state, renamed or f"cu{new}"),
            # A pin states a version that the renamed package doesn't have.
            edits=(source.edit(*span, renamed),) if renamed and not match["pinned"] else (),
        )
    tagged = re.compile(rf"(?:(?<=whl/)|(?<=\+))cu{old}\d(?!\w)")
    for match in tagged.finditer(source.text, start, end):
        yield source.finding(
            "PY-WHEEL",
            match.span(),
            match[0],
            f"{match[0]} chooses wheels built by CUDA {old}.",
            remedy=Remedy(f"Take an index or build for CUDA {new}: cu{new}0 and later."),
            state=_state(source, state, f"cu{new}"),
        )
    pinned = re.compile(rf"(?<![\w.-])cuda-(?:python|bindings)\s*(?:===?|~=)\s*{old}(?!\d)")
    for match in pinned.finditer(source.text, start, end):
        yield source.finding(
            "PY-WHEEL",
            match.span(),
            "cuda-python",
            f"cuda-python {old} binds CUDA {old}.",
            remedy=Remedy(f"Require cuda-python {new}, whose modules are in cuda.bindings."),
            state=state,
        )


def _renamed(match: re.Match[str], change: Change | None, new: int) -> str | None:
    """The name of a wheel for the new major; None: NVIDIA's own have new names, and this one's isn't known."""
    if change and change.remedy and change.remedy.replacement:
        return change.remedy.replacement
    if match["name"].lower().startswith("nvidia"):
        return None
    suffix = f"cuda{new}x" if match["suffix"].lower().startswith("cuda") else f"cu{new}"
    return f"{match['name']}{match['dash']}{suffix}"


def _state(source: Source, state: State, successor: str) -> State:
    """A file that names the successor as well serves both toolkits by choice; see `_of_file` too."""
    named = re.compile(rf"(?<![\w-]){re.escape(successor)}(?![a-z-])", re.IGNORECASE)
    if state is State.ACTIVE and named.search(source.text):
        return State.INACTIVE
    return _of_file(source, state)


def _of_file(source: Source, state: State) -> State:
    """``requirements-cu12.txt``, ``cuda124.Dockerfile``: kept for the old toolkit, or forgotten."""
    majors = releases(source.difference)
    of_old = majors and re.search(rf"cu(?:da)?[-_]?{majors[0]}", source.file, re.IGNORECASE)
    return State.LATENT if of_old and state is State.ACTIVE else state


_WHEEL_FOLDER = re.compile(
    r"""(?<![\w-])nvidia(?P<gap>[/\\.]|["']\s*[,/]\s*["'])(?P<part>\w+)(?:(?P=gap)(?:lib|include|bin))?(?![\w-])"""
)


def folders(source: Source, start: int, end: int, state: State) -> Iterator[Finding]:
    """Folders of the wheels, ``nvidia/cuda_runtime/lib``: those that the new major puts elsewhere."""
    for match in _WHEEL_FOLDER.finditer(source.text, start, end):
        change = source.change("PY-WHEEL", f"nvidia/{match['part']}")
        if change and change.new:
            yield source.finding(
                "PY-WHEEL",
                match.span(),
                change.name,
                f"The wheels of CUDA {source.difference.new} put this into {change.new}.",
                change=change,
                state=_state(source, state, change.new.rpartition("/")[2]),
            )


_VERSIONED = re.compile(
    r"(?<![\w.-])(?P<name>(?:cuda|libcu[a-z]+|libnv[a-z]+|libnpp|nsight)(?:-[a-z]+)*)-(?P<version>\d+-\d+)(?![\w-])"
)
# Released apart from the toolkit: libcudnn9-cuda-12, libnccl2=2.21.5-1+cuda12.4
_BESIDE = re.compile(
    r"(?<![\w.-])(?P<name>lib(?:cudnn|nccl|cusparselt|cutensor)[\w-]*?)(?P<mark>-cuda-|=[\w.~-]+\+cuda)(?P<version>\d+(?:\.\d+)?)(?![\w.])"
)
_CONDA = re.compile(
    r"""(?<![\w.-])(?P<name>(?:nvidia::)?
    (?:cuda-version|cuda-toolkit|cudatoolkit|cuda-nvcc|cuda-cudart(?:-dev)?|cuda-libraries(?:-dev)?|cuda))
    (?:\s*={1,2}\s*|\s~=\s*|(?<!\bcuda)[ \t]+)(?P<version>\d+(?:\.\d+)*)
    | nvidia/label/cuda-(?P<label>\d+\.\d+(?:\.\d+)?)""",
    re.VERBOSE,
)


def system(source: Source, start: int, end: int, state: State) -> Iterator[Finding]:
    """Packages of apt, dnf and conda that name an older toolkit."""
    new = source.difference.new
    for match in _VERSIONED.finditer(source.text, start, end):
        if older(source, match["version"].replace("-", ".")):
            yield _package(source, match, match.span("version"), new.replace(".", "-"), state)
    for match in _BESIDE.finditer(source.text, start, end):
        if older(source, match["version"]):
            yield _package(source, match, None, new, state)
    for match in _CONDA.finditer(source.text, start, end):
        version = match["version"] or match["label"]
        if older(source, version):
            yield _package(source, match, None, new, state)


def _package(
    source: Source, match: re.Match[str], cut: tuple[int, int] | None, text: str, state: State
) -> Finding:
    name = " ".join(match[0].split())
    return source.finding(
        "IMAGE",
        match.span(),
        name,
        f"{name} is of an older toolkit than {source.difference.new}.",
        change=source.change("IMAGE", name, match.groupdict().get("name") or ""),
        remedy=Remedy(f"Name the package of CUDA {source.difference.new}."),
        state=_of_file(source, state),
        edits=(source.edit(*cut, text),) if cut else (),
    )


_IMAGE = re.compile(
    r"(?<![\w./-])(?P<image>(?:[\w.-]+(?::\d+)?/){0,4}?(?:nvidia/cuda|pytorch/pytorch|rapidsai/[\w-]+|gpuci/[\w-]+"
    r"|tensorflow/tensorflow|[\w.-]+/[\w.-]*cuda[\w.-]*)):(?P<tag>[\w][\w.-]*)"
)
_IN_TAG = re.compile(r"(?:^|cuda-?|cu)(?P<version>\d+\.\d+(?:\.\d+)?|(?<=cu)\d{3})(?![\d.])")
# The tags without a number of cuDNN's version began with CUDA 12.4; these systems still get images.
_KEPT = re.compile(
    r"-(?:base|runtime|devel|cudnn-devel|cudnn-runtime)-(?:ubuntu22\.04|ubuntu24\.04|rockylinux9)$"
)


def images(source: Source, start: int, end: int, state: State) -> Iterator[Finding]:
    """Container images of an older toolkit: ``nvidia/cuda:12.4.1-devel-ubuntu22.04``."""
    new = source.difference.new
    for match in _IMAGE.finditer(source.text, start, end):
        version = _tag_version(match)
        if version is None or not older(source, _dotted(version[0])):
            continue
        name = f"{match['image']}:{match['tag']}"
        change = source.change("IMAGE", name, match["image"])
        edits: tuple[Edit, ...] = ()
        if match["image"].endswith("nvidia/cuda") and _KEPT.search(match["tag"]):
            edits = (source.edit(*version[1], f"{new}.0"),)
        yield source.finding(
            "IMAGE",
            match.span(),
            name,
            f"The image holds CUDA {_dotted(version[0])}, not {new}.",
            change=change,
            remedy=Remedy(
                f"Take an image of CUDA {new}, such as nvidia/cuda:{new}.0-devel-ubuntu22.04."
            ),
            state=_of_list(source, state, _IMAGE, _version_of),
            edits=edits,
        )


def _version_of(match: re.Match[str]) -> str | None:
    found = _tag_version(match)
    return _dotted(found[0]) if found else None


def _of_list(
    source: Source,
    state: State,
    pattern: re.Pattern[str],
    version: Callable[[re.Match[str]], str | None],
) -> State:
    """In YAML and JSON, the jobs of one file: where others are of the new toolkit already, both are served."""
    if state is State.ACTIVE and source.file.endswith((".yml", ".yaml", ".json")):
        versions = filter(None, map(version, pattern.finditer(source.text)))
        if any(newer(source, given) for given in versions):
            return State.INACTIVE
    return _of_file(source, state)


def _tag_version(match: re.Match[str]) -> tuple[str, tuple[int, int]] | None:
    start = match.start("tag")
    found = _IN_TAG.search(match["tag"])
    # pytorch/pytorch:2.4.0-cuda12.4: the first number is not the toolkit's unless the image is CUDA's own.
    if found and found.start() == 0 and not re.search(r"cuda[\w.-]*$", match["image"]):
        found = _IN_TAG.search(match["tag"], 1)
    if found is None:
        return None
    return found["version"], (start + found.start("version"), start + found.end("version"))


def _dotted(version: str) -> str:
    return version if "." in version else f"{version[:2]}.{version[2:]}"


_SETTING = re.compile(
    r"""(?<![\w./-])(?P<env>ENV\s+)?(?P<name>(?:[A-Z]+_)?CUDA_?(?:TOOLKIT_?)?(?:VER|VERSION)(?:_MAJOR|_SHORT)?|cuda(?:[-_](?:toolkit|version|ver))*|cudaVersion)
    ["']?(?:\s*[:=]\s*|(?(env)\s+|(?!)))["'\[]?\s*["']?(?P<version>\d+\.\d+(?:\.\d+)?|(?<=["'\s=:])\d{2})(?![\w.])["']?""",
    re.VERBOSE,
)


def settings(source: Source, start: int, end: int, state: State) -> Iterator[Finding]:
    """Settings of the toolkit's version: ``cuda-version: 12.4``, ``ARG CUDA_VERSION=12.4.1``.

    One that lists the new major beside the old one serves both: nothing is said of it.
    """
    new = source.difference.new
    for match in _SETTING.finditer(source.text, start, end):
        line = source.text[match.start() :].split("\n", 1)[0]
        listed = re.findall(r"\d+(?:\.\d+)+", line)
        if not older(source, match["version"]) or any(not older(source, v) for v in listed):
            continue
        yield source.finding(
            "IMAGE",
            match.span(),
            match["name"],
            f"{match['name']} asks for CUDA {match['version']}, not {new}.",
            remedy=Remedy(f"Ask for {new}, or for both while both are supported."),
            state=_of_list(source, state, _SETTING, lambda match: match["version"]),
            confidence="medium",
        )


def newer(source: Source, version: str) -> bool:
    """Whether ``version`` is of the new toolkit's major, or later."""
    return int(version.split(".")[0]) >= int(source.difference.new.split(".")[0])


def older(source: Source, version: str) -> bool:
    """Whether ``version`` is of a toolkit that is left behind."""
    given = [int(part) for part in version.split(".")]
    old = [int(part) for part in source.difference.old.split(".")]
    majors = releases(source.difference)
    if majors:
        # 2 and 23 are versions of something else.
        return 9 <= given[0] < majors[1]
    return given[:2] == old
