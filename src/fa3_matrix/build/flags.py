"""Compiler command lines: told apart from paths, so that they can be recorded, compared and checked."""

from collections.abc import Mapping
from pathlib import Path

from fa3_matrix.errors import AuditError

# Options of a compile step that name a file of this one step.
_FILE_OPTIONS = frozenset({"-o", "-MF", "-MT", "-c", "-x"})
_GENCODE = ("--generate-code=", "-gencode=")
_FORBIDDEN = {
    "-arch": "it adds images that nobody asked for; the target belongs in CUDA_ARCHITECTURES",
    "--gpu-architecture": "it adds images that nobody asked for; the target belongs in CUDA_ARCHITECTURES",
    "-use_fast_math": "it changes results; fast operations are chosen one by one in cpp/ptx",
    "--use_fast_math": "it changes results; fast operations are chosen one by one in cpp/ptx",
    "-rdc=true": "nothing here links device code",
    "--relocatable-device-code=true": "nothing here links device code",
    "-dc": "nothing here links device code",
}


def normalise(command: list[str], places: Mapping[str, Path]) -> list[str]:
    """``command`` with each folder of ``places`` written as ``<name>``; longer folders win."""
    ordered = sorted(places.items(), key=lambda place: -len(str(place[1])))
    result = []
    for word in command:
        for name, folder in ordered:
            word = word.replace(str(folder), f"<{name}>")
        result.append(word)
    return result


def options(command: list[str]) -> list[str]:
    """The options of a compile command: without the compiler, its input and the files of this one step."""
    result: list[str] = []
    words = iter(command[1:])
    for word in words:
        if word in _FILE_OPTIONS:
            if word not in ("-c",):
                next(words, None)
        elif not word.endswith(".cu") and word != "-MD":
            result.append(word)
    return result


def check(command: list[str], generate_code: str) -> None:
    """Check that a compile asks for exactly one image, and for nothing that the build forbids.

    Args:
        command: the whole command line.
        generate_code: the one allowed value of ``-gencode``, such as ``arch=compute_90a,code=[sm_90a]``.

    Raises:
        AuditError: another ``-gencode``, ``-arch``, fast math or relocatable device code.
    """
    asked = [word.split("=", 1)[1] for word in command if word.startswith(_GENCODE)]
    plain = [value.replace("[", "").replace("]", "") for value in asked]
    if plain != [generate_code.replace("[", "").replace("]", "")]:
        raise AuditError(
            f"nvcc was asked for {asked or 'no target'}, expected exactly [{generate_code!r}]"
        )
    for word in command:
        for option in (word, word.split("=", 1)[0]):
            if option in _FORBIDDEN:
                raise AuditError(f"nvcc was given {word!r}: {_FORBIDDEN[option]}")
