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
_CODE = ".text."
_TOOL_NOTE = ".note.nv.tkinfo"
_CUDA_NOTE = ".note.nv.cuinfo"
_TOOL_ARCH = re.compile(r"(?:\s|\0)-arch[ =](sm_\w+)")


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
    tma_columns: int
    splits_keys: int

    @classmethod
    def unpack(cls, data: bytes) -> "VariantInfo":
        """Read the object's bytes (ten little-endian int32).

        Raises:
            ValueError: the size is another one: header and reader have drifted.
        """
        layout = struct.Struct("<10i")
        if len(data) != layout.size:
            raise ValueError(f"VariantInfo has {len(data)} bytes, expected {layout.size}")
        return cls(*layout.unpack(data))


@dataclass(frozen=True)
class Origin:
    """What a cubin was compiled for, and by which toolkit.

    Attributes:
        machine: SM number of the code.
        virtual_arch: SM number of the PTX that the code came from: 80 for a twin's 90.
        requested_arch: ptxas' own ``-arch`` (``sm_100f``), the only place that tells the suffix ``f``, which
            cuobjdump's names drop; None from toolkits before 13, which do not note it.
        release: the toolkit, such as ``13.3``.
    """

    machine: int
    virtual_arch: int
    requested_arch: str | None
    release: str


@dataclass(frozen=True)
class Cubin:
    """A cubin's entry functions, what each variant says of itself, and where it comes from.

    ``barriers``: named barriers of each function; empty from 13 on, where only ``ptxas -v`` says it (and 12 does not).
    """

    kernels: tuple[str, ...]
    variants: dict[str, VariantInfo]
    origin: Origin
    barriers: dict[str, int]


def _symbol_bytes(elf: ELFFile, symbol: object) -> bytes:
    section = elf.get_section(symbol["st_shndx"])  # type: ignore[index]
    start, size = symbol["st_value"], symbol["st_size"]  # type: ignore[index]
    return bytes(section.data()[start : start + size])


def _notes(elf: ELFFile, name: str) -> Iterator[bytes]:
    section = elf.get_section_by_name(name)
    if isinstance(section, NoteSection):
        for note in section.iter_notes():
            yield bytes(note["n_descdata"])


def _origin(elf: ELFFile) -> Origin:
    """Read the origin: cubin ABI 8 (13.x) says it in notes, ABI 7 (12.x) in the ELF header.

    Neither layout is documented; both were read off ``nvdisasm -json`` and cubins of known origin (see the tests).
    """
    flags = elf["e_flags"]
    if _is_abi_7(elf):
        return Origin(
            machine=flags & 0xFF,
            virtual_arch=flags >> 16 & 0xFF,
            requested_arch=None,
            release=_release(elf["e_version"]),
        )
    virtual, release = 0, 0
    for data in _notes(elf, _CUDA_NOTE):
        _layout, virtual, release = struct.unpack_from("<3H", data)
    requested = None
    for data in _notes(elf, _TOOL_NOTE):
        # Strings separated by NUL behind a binary header; the last is ptxas' own command line.
        found = _TOOL_ARCH.search(data.decode("utf-8", "replace"))
        requested = found[1] if found else None
    return Origin(
        machine=flags >> 8 & 0xFFFF,
        virtual_arch=virtual,
        requested_arch=requested,
        release=_release(release),
    )


def _barriers(elf: ELFFile) -> dict[str, int]:
    """Named barriers by function, which ABI 7 keeps in the flags of its code section."""
    if not _is_abi_7(elf):
        return {}
    return {
        section.name.removeprefix(_CODE): section["sh_flags"] >> 20 & 0x7F
        for section in elf.iter_sections()
        if section.name.startswith(_CODE)
    }


def _is_abi_7(elf: ELFFile) -> bool:
    return bool(elf["e_ident"]["EI_ABIVERSION"] < 8)


def _release(number: object) -> str:
    """124: 12.4. pyelftools gives a name instead of a number where e_version is ELF's own."""
    return f"{number // 10}.{number % 10}" if isinstance(number, int) else "unknown"


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
        return Cubin(tuple(kernels), variants, _origin(elf), _barriers(elf))
