"""Reading a cubin: its kernels, what each variant says of itself, and what its compiler was asked for."""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection, SymbolTableSection

from fa3_matrix.errors import AuditError

_STO_CUDA_ENTRY = 0x10  # in st_other of a __global__ function
_ST_OTHER_OFFSET = 5  # of Elf64_Sym
_TOOL_NOTE = ".note.nv.tkinfo"
_CUDA_NOTE = ".note.nv.cuinfo"
_TOOL_ARCH = re.compile(r"(?<!\S)-arch[ =](sm_\w+)|\0-arch[ =](sm_\w+)")


@dataclass(frozen=True)
class VariantInfo:
    """The ``<variant>_info`` object beside a kernel; mirrors ``fa3::VariantInfo`` of cpp/attention/variant_info.h."""

    abi_version: int
    head_dim: int
    block_m: int
    block_n: int
    threads: int
    dynamic_shared_bytes: int
    stages: int
    is_bf16: int

    @classmethod
    def unpack(cls, data: bytes) -> "VariantInfo":
        """Read the object's bytes (eight little-endian int32).

        Raises:
            ValueError: the size is another one: header and reader have drifted.
        """
        layout = struct.Struct("<8i")
        if len(data) != layout.size:
            raise ValueError(f"VariantInfo has {len(data)} bytes, expected {layout.size}")
        return cls(*layout.unpack(data))


@dataclass(frozen=True)
class Cubin:
    """A cubin's contents.

    ``machine`` is the SM number of the code, ``virtual_arch`` that of the PTX it came from (80 for a twin's 90),
    ``release`` the toolkit (``13.3``). ``requested_arch`` is ptxas' own ``-arch`` (``sm_100f``), the only place that
    tells the suffix ``f``, which cuobjdump's names drop; None from toolkits before 13, which do not note it.
    """

    machine: int
    kernels: tuple[str, ...]
    variants: dict[str, VariantInfo]
    requested_arch: str | None
    virtual_arch: int
    release: str


def _symbol_bytes(elf: ELFFile, symbol: object) -> bytes:
    section = elf.get_section(symbol["st_shndx"])  # type: ignore[index]
    start, size = symbol["st_value"], symbol["st_size"]  # type: ignore[index]
    return bytes(section.data()[start : start + size])


def _notes(elf: ELFFile, name: str) -> Iterator[bytes]:
    section = elf.get_section_by_name(name)
    if section is None:
        return
    if isinstance(section, NoteSection):
        for note in section.iter_notes():
            yield bytes(note["n_descdata"])


@dataclass(frozen=True)
class _Origin:
    machine: int
    virtual_arch: int
    requested_arch: str | None
    release: str


def _origin(elf: ELFFile) -> _Origin:
    """What was compiled for what by which release; cubin ABI 8 (13.x) says it in notes, ABI 7 (12.x) in the ELF header.

    Neither layout is documented; both were read off ``nvdisasm -json`` and cubins of known origin (see the tests).
    """
    flags = elf["e_flags"]
    if elf["e_ident"]["EI_ABIVERSION"] < 8:
        release = elf["e_version"]  # 0x7c = 124: 12.4
        number = release if isinstance(release, int) else 0
        return _Origin(flags & 0xFF, flags >> 16 & 0xFF, None, f"{number // 10}.{number % 10}")
    virtual, number = 0, 0
    for data in _notes(elf, _CUDA_NOTE):
        _, virtual, number, _ = struct.unpack_from(
            "<4H", data
        )  # layout version, virtual arch, 133: 13.3
    requested = None
    for data in _notes(elf, _TOOL_NOTE):
        # Strings separated by NUL behind a binary header; the last is ptxas' own command line.
        found = _TOOL_ARCH.search(data.decode("utf-8", "replace"))
        requested = found[1] or found[2] if found else None
    return _Origin(flags >> 8 & 0xFFFF, virtual, requested, f"{number // 10}.{number % 10}")


def read(path: Path) -> Cubin:
    """Read a cubin.

    Raises:
        AuditError: not a CUDA ELF file, or a ``_info`` object of another size.
    """
    with path.open("rb") as file:
        try:
            elf = ELFFile(file)
        except Exception as error:  # pyelftools raises several unrelated classes on malformed input
            raise AuditError(f"{path}: not a cubin ({error})") from error
        if elf["e_machine"] != "EM_CUDA":
            raise AuditError(f"{path}: ELF machine is {elf['e_machine']}, not CUDA")
        kernels: list[str] = []
        variants: dict[str, VariantInfo] = {}
        table = elf.get_section_by_name(".symtab")
        if isinstance(table, SymbolTableSection):
            # pyelftools names the low bits of st_other only; CUDA's entry bit has to be read raw.
            others = table.data()[_ST_OTHER_OFFSET :: table["sh_entsize"]]
            for symbol, other in zip(table.iter_symbols(), others, strict=True):
                if symbol.entry.st_info.type == "STT_FUNC" and other & _STO_CUDA_ENTRY:
                    kernels.append(symbol.name)
                elif symbol.entry.st_info.type == "STT_OBJECT" and symbol.name.endswith("_info"):
                    try:
                        info = VariantInfo.unpack(_symbol_bytes(elf, symbol))
                    except ValueError as error:
                        raise AuditError(f"{path}: {symbol.name}: {error}") from error
                    variants[symbol.name.removesuffix("_info")] = info
        origin = _origin(elf)
        return Cubin(
            machine=origin.machine,
            kernels=tuple(kernels),
            variants=variants,
            requested_arch=origin.requested_arch,
            virtual_arch=origin.virtual_arch,
            release=origin.release,
        )
