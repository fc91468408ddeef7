"""A CUDA toolkit's API as data: what its headers declare, what its libraries export, what its compiler takes.

Names are as source code spells them: macros that rename functions are resolved (``cuCtxCreate``, and
not only the ``cuCtxCreate_v2`` it stands for), inline namespaces are left out
(``cub::DeviceReduce``), members of anonymous unions belong to the struct that holds the union.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Signature:
    """One overload.

    Args:
        result: type, as spelled in the header.
        parameters: their types, as spelled.
        required: how many of them have no default.
        generic: positions (from 0) of the parameters whose type depends on a template parameter.
        variadic: takes any number more.
    """

    result: str
    parameters: tuple[str, ...]
    required: int
    generic: tuple[int, ...] = ()
    variadic: bool = False

    @property
    def arities(self) -> range:
        """Numbers of arguments that a call may have, as far as they are declared."""
        return range(self.required, len(self.parameters) + 1)


@dataclass(frozen=True)
class Function:
    """A function by its source-level name, with its C++ overloads.

    ``symbol``: what the linker sees; None in C++. ``deprecated``: the message (may be empty), where
    every overload is.
    """

    name: str
    header: str
    symbol: str | None
    signatures: tuple[Signature, ...]
    deprecated: str | None = None

    @property
    def arities(self) -> tuple[int, ...]:
        """Numbers of arguments that calls may have in C++; in C the largest of an overload counts."""
        return tuple(sorted({n for signature in self.signatures for n in signature.arities}))


@dataclass(frozen=True)
class Field:
    """A member of a struct or union; ``offset`` in bytes from its start."""

    name: str
    type: str
    offset: int


@dataclass(frozen=True)
class Record:
    """A C struct or union with its layout on 64-bit Linux; ``size`` and ``align`` in bytes.

    A member that is an unnamed struct is a record of its own: ``cudaResourceDesc::res``.
    """

    name: str
    header: str
    size: int
    align: int
    fields: tuple[Field, ...]
    deprecated: str | None = None


@dataclass(frozen=True)
class NamedType:
    """A typedef, alias, enum or C++ class; ``definition``: what it stands for, or its keyword."""

    name: str
    header: str
    definition: str
    deprecated: str | None = None


@dataclass(frozen=True)
class Enumerator:
    """An enum constant; ``enum``: the name of its enum, empty for an unnamed one."""

    name: str
    header: str
    enum: str
    value: int
    deprecated: str | None = None


@dataclass(frozen=True)
class Macro:
    """A macro; ``expansion``: what a use of an object-like one comes to, None for a function-like one."""

    name: str
    header: str
    expansion: str | None


@dataclass(frozen=True)
class CcclName:
    """A name of Thrust, CUB or libcu++.

    Args:
        name: ``cub::DeviceReduce``, or a member of a class template's interface ``cub::DeviceReduce::Sum``.
        kind: "type" | "function" | "variable" | "namespace" | "concept" | "using" (brought in from elsewhere).
        declared_in: headers, internal ones too; forward declarations count only where there is no definition.
        template_parameters: fewest and most that may be given (None: any number); None: not a template.
        signatures: of a function.
    """

    name: str
    kind: str
    declared_in: tuple[str, ...]
    template_parameters: tuple[int, int | None] | None = None
    signatures: tuple[Signature, ...] = ()
    deprecated: str | None = None


@dataclass(frozen=True)
class Cccl:
    """Thrust, CUB and libcu++; shipped with a toolkit, and versioned apart.

    Args:
        version: "2.3.2".
        include: folder that holds them, relative to the root; nvcc always searches it.
        host_folders: those of thrust, cub, cuda, nv that a host compiler finds beside cuda.h.
        headers: public headers, as they are included.
        internals: names of namespaces of implementation details (`thrust::detail`), or that are reserved. Code that
            extends the libraries uses them all the same. Empty: they were not read.
        internal_headers: headers that are not public.
        closures: public header -> headers that including it reads, under nvcc.
    """

    version: str
    include: str
    host_folders: tuple[str, ...]
    headers: tuple[str, ...]
    names: tuple[CcclName, ...]
    macros: tuple[Macro, ...]
    closures: Mapping[str, tuple[str, ...]]
    internals: tuple[CcclName, ...] = ()
    internal_headers: tuple[str, ...] = ()

    def visible_from(self, name: CcclName) -> frozenset[str]:
        """Public headers that each suffice to use the name."""
        declared = set(name.declared_in)
        return frozenset(
            header
            for header, closure in self.closures.items()
            if header in declared or not declared.isdisjoint(closure)
        )


@dataclass(frozen=True)
class Option:
    """A compiler option: long and short spelling."""

    long: str
    short: str | None


@dataclass(frozen=True)
class Compiler:
    """nvcc: what it takes, and what it does when it is not told.

    Args:
        release: "12.4.131".
        virtual, real: what ``--list-gpu-arch`` and ``--list-gpu-code`` list.
        default_arch: "sm_52".
        ptx_isa: version of the PTX it writes: "8.4".
        internal_stubs: host stubs of kernel templates have internal linkage by default.
        hidden_entities: kernels and device variables have hidden visibility by default.
        default_dialect: "c++17".
    """

    release: str
    options: tuple[Option, ...]
    virtual: tuple[str, ...]
    real: tuple[str, ...]
    default_arch: str
    default_dialect: str
    ptx_isa: str
    internal_stubs: bool
    hidden_entities: bool


@dataclass(frozen=True)
class Library:
    """A shared library; ``symbols``: functions it exports, without versions."""

    name: str
    soname: str
    symbols: tuple[str, ...]


@dataclass(frozen=True)
class Model:
    """One toolkit.

    Args:
        cuda: "12.4"; from ``CUDA_VERSION``.
        headers: public ones outside CCCL, as they are included.
        host_compilers: name -> the versions that ``crt/host_config.h`` accepts, in its own numbers.
        compiler: None where only headers were at hand.
        cccl: None where it was not at hand.
    """

    cuda: str
    headers: tuple[str, ...]
    functions: tuple[Function, ...]
    records: tuple[Record, ...]
    types: tuple[NamedType, ...]
    enumerators: tuple[Enumerator, ...]
    macros: tuple[Macro, ...]
    host_compilers: Mapping[str, str]
    libraries: tuple[Library, ...]
    compiler: Compiler | None
    cccl: Cccl | None

    @cached_property
    def function(self) -> Mapping[str, Function]:
        """Functions by name."""
        return {function.name: function for function in self.functions}

    @cached_property
    def record(self) -> Mapping[str, Record]:
        """Structs and unions by name."""
        return {record.name: record for record in self.records}

    @cached_property
    def type(self) -> Mapping[str, NamedType]:
        """Other types by name."""
        return {named.name: named for named in self.types}

    @cached_property
    def enumerator(self) -> Mapping[str, Enumerator]:
        """Enum constants by name."""
        return {constant.name: constant for constant in self.enumerators}

    @cached_property
    def macro(self) -> Mapping[str, Macro]:
        """Macros by name."""
        return {macro.name: macro for macro in self.macros}
