"""Reads a toolkit root into a `Model`: headers by libclang, libraries by their symbol tables, nvcc by asking it.

A root that has only headers gives a model without compiler; one without CCCL a model without CCCL.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fa3_matrix.errors import ToolkitError
from fa3_matrix.migrate._cccl import read_cccl
from fa3_matrix.migrate._declarations import Declarations, parse, spelled
from fa3_matrix.migrate._tree import Tree
from fa3_matrix.migrate.model import (
    Compiler,
    Enumerator,
    Field,
    Function,
    Library,
    Macro,
    Model,
    NamedType,
    Option,
    Record,
    Signature,
)
from fa3_matrix.toolkits import complete

# What the interop headers take from other people's: enough to read CUDA's own declarations.
_STAND_INS = """
typedef unsigned GLuint, GLenum; typedef int EGLint;
typedef void *EGLStreamKHR, *EGLImageKHR, *EGLSyncKHR, *EGLDisplay;
typedef unsigned VdpDevice, VdpVideoSurface, VdpOutputSurface, VdpStatus, VdpFuncId;
typedef VdpStatus VdpGetProcAddress(VdpDevice, VdpFuncId, void **);
#define __gl_h_
"""
_FOREIGN = ("GL/gl.h", "EGL/egl.h", "EGL/eglext.h", "vdpau/vdpau.h")
# The tile compiler's headers are for a compiler mode of their own; NVIDIA's C++ tile names are not CUDA C++.
_UNREADABLE = re.compile(r"^cuda_tile\.h$|\.hpp$|^cudart_platform\.h$")
_PRIVATE_NAME = re.compile(
    r"^_?_(nv|NV|internal|cuda|CUDA|cudart|dev|Dev|half_raw|nvfp|h[im]mma|bmma|mma|imma|dmma|wmma|"
    r"pipeline|mbarrier|device_(?!builtin)|Pragma|GNU|DRIVER|VECTOR|MATH|COMMON|SM_|DEVICE|CHANNEL|HOST|TEXTURE|SURFACE)"
    r"|^_[A-Z]"
)
_GUARD = re.compile(r"_H(PP)?_*$|_INCLUDED_*$|^__.*__$|^_")


def read(root: Path, components: Sequence[Path] = ()) -> Model:
    """Read a toolkit.

    Args:
        root: has ``include/cuda.h``.
        components: roots of parts that are shipped apart (NVRTC, the profiler's API).

    Raises:
        ToolkitError: the root is no toolkit, or its headers cannot be read.
    """
    tree = Tree(root, tuple(components))
    api = _Api(tree)
    return Model(
        cuda=tree.cuda,
        headers=tree.headers,
        functions=api.functions,
        records=api.records,
        types=api.types,
        enumerators=api.enumerators,
        macros=api.macros,
        host_compilers=host_compilers(tree.text("crt/host_config.h")),
        libraries=tuple(_libraries(tree)),
        compiler=_compiler(root / "bin" / "nvcc") if (root / "bin" / "nvcc").exists() else None,
        cccl=read_cccl(tree) if tree.has_cccl else None,
    )


class _Api:
    """Everything that the headers outside CCCL declare."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        headers = [
            header
            for header in tree.headers
            if not _UNREADABLE.search(header) and not tree.lacks(header)
        ]
        self._source = _STAND_INS + "".join(f"#include <{header}>\n" for header in headers)
        with TemporaryDirectory() as folder:
            for foreign in _FOREIGN:
                (Path(folder) / foreign).parent.mkdir(exist_ok=True)
                (Path(folder) / foreign).touch()
            self._arguments = [*tree.arguments, f"-I{folder}"]
            self._declarations = Declarations(
                parse(self._source, tree.clang_arguments + [f"-I{folder}"]), tree.own_header
            )
            self._expansions = self._expand()
        self._walk = [
            (name, header, cursor)
            for name, header, cursor in self._declarations.walk()
            if cursor.spelling and not _PRIVATE_NAME.search(cursor.spelling)
        ]

    def _of(self, *kinds: str) -> Iterator[tuple[str, str, Any]]:
        wanted = {getattr(self._declarations.kinds, kind) for kind in kinds}
        return (item for item in self._walk if item[2].kind in wanted)

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        declared: dict[str, list[tuple[str, Any]]] = {}
        for name, header, cursor in self._of("FUNCTION_DECL", "FUNCTION_TEMPLATE"):
            # std: overloads of mathematical functions for device code.
            if not name.startswith("std::") and not cursor.spelling.startswith("operator"):
                declared.setdefault(name, []).append((header, cursor))
        found = {name: self._function(name, cursors) for name, cursors in declared.items()}
        for macro, (header, expansion) in self._expansions.items():
            if expansion in found and macro not in found:
                target = found[expansion]
                found[macro] = Function(
                    macro, header, expansion, target.signatures, target.deprecated
                )
        return tuple(found[name] for name in sorted(found))

    def _function(self, name: str, cursors: list[tuple[str, Any]]) -> Function:
        signatures: dict[tuple[str, ...], Signature] = {}
        for _, cursor in cursors:
            signature = self._declarations.signature(cursor)
            known = signatures.get(signature.parameters)
            # A definition repeats its declaration without the defaults.
            if known is None or signature.required < known.required:
                signatures[signature.parameters] = signature
        messages = [self._declarations.deprecated(cursor) for _, cursor in cursors]
        linked = all(cursor.mangled_name == cursor.spelling for _, cursor in cursors[:1])
        symbol = name if linked and "::" not in name else None
        kept = all(message is None for message in messages[:1]) or None in messages
        return Function(
            name,
            cursors[0][0],
            symbol,
            tuple(signatures[key] for key in sorted(signatures)),
            None if kept else next(message for message in messages if message is not None),
        )

    @cached_property
    def types(self) -> tuple[NamedType, ...]:
        found: dict[str, NamedType] = {}
        keywords = {
            "TYPEDEF_DECL": "typedef",
            "TYPE_ALIAS_DECL": "using",
            "TYPE_ALIAS_TEMPLATE_DECL": "using",
            "CLASS_TEMPLATE": "class template",
            "CLASS_DECL": "class",
            "STRUCT_DECL": "struct",
            "UNION_DECL": "union",
            "ENUM_DECL": "enum",
        }
        for kind, keyword in keywords.items():
            for name, header, cursor in self._of(kind):
                if cursor.spelling.startswith("operator") or " " in cursor.spelling:
                    continue
                definition = (
                    spelled(cursor.underlying_typedef_type) if keyword == "typedef" else keyword
                )
                found.setdefault(
                    name,
                    NamedType(name, header, definition, self._declarations.deprecated(cursor)),
                )
        return tuple(found[name] for name in sorted(found))

    @cached_property
    def records(self) -> tuple[Record, ...]:
        aliases: dict[str, list[str]] = {}
        for name, _, cursor in self._of("TYPEDEF_DECL"):
            canonical = spelled(cursor.underlying_typedef_type.get_canonical())
            aliases.setdefault(canonical, []).append(name)
        found: dict[str, Record] = {}
        for tag, header, cursor in self._of("STRUCT_DECL", "UNION_DECL"):
            if cursor.is_definition() and "::" not in tag and " " not in tag:
                name = min([*aliases.get(tag, []), tag], key=lambda text: (len(text), text))
                for record in self._record(name, header, cursor):
                    found.setdefault(record.name, record)
        return tuple(found[name] for name in sorted(found))

    def _record(self, name: str, header: str, cursor: Any) -> Iterator[Record]:
        fields: list[Field] = []
        for member, owner in self._members(cursor):
            offset = owner.type.get_offset(member.spelling)
            fields.append(Field(member.spelling, spelled(member.type), max(offset, 0) // 8))
            declaration = member.type.get_declaration()
            if "unnamed" in member.type.spelling and declaration.is_definition():
                yield from self._record(f"{name}::{member.spelling}", header, declaration)
        size, align = cursor.type.get_size(), cursor.type.get_align()
        if size > 0:
            deprecated = self._declarations.deprecated(cursor)
            yield Record(name, header, size, align, tuple(fields), deprecated)

    def _members(self, cursor: Any) -> Iterator[tuple[Any, Any]]:
        """Members and the record whose layout has them, through members of unnamed structs and unions."""
        kinds = self._declarations.kinds
        for child in cursor.get_children():
            public = child.access_specifier.name not in ("PRIVATE", "PROTECTED")
            if child.kind == kinds.FIELD_DECL and child.spelling and public:
                yield child, cursor
            elif child.kind in (kinds.STRUCT_DECL, kinds.UNION_DECL) and self._unnamed(child):
                for member, _ in self._members(child):
                    yield member, cursor

    def _unnamed(self, cursor: Any) -> bool:
        return bool(self._declarations.is_anonymous_record(cursor))

    @cached_property
    def enumerators(self) -> tuple[Enumerator, ...]:
        found: dict[str, Enumerator] = {}
        for name, header, cursor in self._of("ENUM_DECL"):
            namespace = name.rpartition("::")[0]
            prefix = f"{namespace}::" if namespace else ""
            enum = "" if " " in cursor.spelling else name
            if cursor.is_scoped_enum():
                prefix = f"{name}::"
            for child in cursor.get_children():
                if child.kind == self._declarations.kinds.ENUM_CONSTANT_DECL:
                    constant = prefix + child.spelling
                    found[constant] = Enumerator(
                        constant,
                        header,
                        enum,
                        child.enum_value,
                        self._declarations.deprecated(child),
                    )
        return tuple(found[name] for name in sorted(found))

    @cached_property
    def macros(self) -> tuple[Macro, ...]:
        functions = {function.name for function in self.functions}
        found = {
            name: Macro(name, header, expansion)
            for name, (header, expansion) in self._expansions.items()
            if name not in functions and not (_GUARD.search(name) and not expansion)
        }
        return tuple(found[name] for name in sorted(found))

    def _expand(self) -> dict[str, tuple[str, str | None]]:
        """Name -> header and what the macro comes to; None for one that takes arguments."""
        found: dict[str, tuple[str, str | None]] = {}
        for name, header, cursor in self._declarations.macros():
            if not name.startswith("_"):
                takes_arguments = self._declarations.is_function_like(cursor)
                found[name] = (header, None if takes_arguments else "")
        asked = [name for name, (_, expansion) in found.items() if expansion is not None]
        source = self._source + "".join(f'FA3_MACRO "{name}" {name}\n' for name in asked)
        text = self._tree.preprocess(source, self._arguments)
        for name, expansion in re.findall(r'^FA3_MACRO "(\w+)"(.*)$', text, re.MULTILINE):
            found[name] = (found[name][0], " ".join(expansion.split()))
        return found


def host_compilers(text: str) -> dict[str, str]:
    """What ``crt/host_config.h`` accepts: compiler -> range, in the compiler's own numbers; "none": refused."""
    patterns: dict[str, Sequence[tuple[str, str]]] = {
        "gcc": [(r"#if __GNUC__ > (\d+)", "<= {}")],
        "clang": [(r"#if \(__clang_major__ >= (\d+)\)", "< {}")],
        "msvc": [(r"#if _MSC_VER < (\d+) \|\| _MSC_VER >= (\d+)", ">= {}, < {}")],
        "icc": [
            (r"#error -- unsupported ICC configuration! Only (ICC .*?) on Linux", "{}"),
            (r"#error -- ICC is not supported", "none"),
        ],
    }
    found: dict[str, str] = {}
    for name, alternatives in patterns.items():
        for pattern, form in alternatives:
            if match := re.search(pattern, text):
                found[name] = form.format(*match.groups())
                break
        else:
            raise ToolkitError(f"crt/host_config.h states no range for {name} in a known form")
    return found


def _libraries(tree: Tree) -> Iterable[Library]:
    from elftools.elf.elffile import ELFFile

    seen: set[str] = set()
    for path in tree.libraries:
        with path.open("rb") as file:
            elf = ELFFile(file)
            dynamic, symbols = (
                elf.get_section_by_name(".dynamic"),
                elf.get_section_by_name(".dynsym"),
            )
            sonames = [tag.soname for tag in dynamic.iter_tags() if tag.entry.d_tag == "DT_SONAME"]
            if not sonames or sonames[0] in seen:
                continue
            seen.add(sonames[0])
            exported = {
                symbol.name
                for symbol in symbols.iter_symbols()
                if symbol["st_shndx"] != "SHN_UNDEF" and symbol["st_info"]["type"] == "STT_FUNC"
            }
            name = sonames[0].partition(".so")[0]
            yield Library(name, sonames[0], tuple(sorted(exported)))


def _compiler(nvcc: Path) -> Compiler:
    def ask(*arguments: str) -> str:
        done = complete(nvcc, *arguments)
        return done.stdout + done.stderr  # plans are printed to the latter

    usage = ask("--help")
    options = re.findall(r"^(--[\w-]+)[^\n(]*(?:\((-[\w-]+)\))?[ \t]*$", usage, re.MULTILINE)
    with TemporaryDirectory() as folder:
        source = Path(folder) / "defaults.cu"
        source.write_text("template <class T> __global__ void kernel(T) {}\n")
        plan = ask("--dryrun", "--ptx", "-o", "/dev/null", str(source))
        cubin_plan = ask("--dryrun", "--cubin", "-o", "/dev/null", str(source))
        ptx = Path(folder) / "defaults.ptx"
        ask("--ptx", "-o", str(ptx), str(source))
        isa = _match(r"^\.version (\d+\.\d+)", ptx.read_text(), "PTX .version")
    return Compiler(
        release=_match(r"\bV(\d+\.\d+\.\d+)", ask("--version"), "nvcc --version"),
        options=tuple(sorted({Option(long, short or None) for long, short in options}, key=str)),
        virtual=tuple(ask("--list-gpu-arch").split()),
        real=tuple(ask("--list-gpu-code").split()),
        default_arch=_match(r"ptxas .*-arch=(sm_\d+)", cubin_plan, "--dryrun's ptxas line"),
        default_dialect=_match(r"--(c\+\+\d\d)", plan, "--dryrun's cicc line"),
        ptx_isa=isa,
        internal_stubs="--static-host-stub" in plan,
        hidden_entities="--device-hidden-visibility" in plan,
    )


def _match(pattern: str, text: str, source: str) -> str:
    found = re.search(pattern, text, re.MULTILINE)
    if found is None:
        raise ToolkitError(f"{source} has no match for {pattern!r}")
    return found.group(1)
