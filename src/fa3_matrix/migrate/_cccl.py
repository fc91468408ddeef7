"""Reads Thrust, CUB and libcu++: their names, and what each public header brings in."""

import re
from collections.abc import Iterator
from typing import Any

from fa3_matrix.errors import ToolkitError
from fa3_matrix.migrate._declarations import Declarations, parse
from fa3_matrix.migrate._tree import Tree
from fa3_matrix.migrate.model import Cccl, CcclName, Macro, Signature

_LIBRARIES = ("thrust", "cub", "cuda")
_PUBLIC_MACRO = re.compile(
    r"^(THRUST|CUB|CCCL|LIBCUDACXX)_(?!.*(_H$|DETAIL|IMPL|MAGIC|_PP_|PP_|_CAT|_TEMP_|_TMP_|_WARNING|OPTIONAL_))"
)
# Declares std::string and the like without ever defining them.
_FORWARD_ONLY = "/iosfwd"
# Of these, members are part of the interface: cub::DeviceReduce is a struct of functions.
_MEMBERS_OF = re.compile(r"^cub::\w+$")


def read_cccl(tree: Tree) -> Cccl:
    """Read the CCCL that a toolkit ships; takes minutes, since each public header is preprocessed by itself."""
    closures = {header: tree.closure(header) for header in tree.cccl_headers}
    readable = {header: closure for header, closure in closures.items() if closure is not None}
    source = "".join(f"#include <{header}>\n" for header in readable)
    declarations = Declarations(parse(source, tree.clang_arguments), tree.cccl_header)
    names = _Names(declarations).all()
    return Cccl(
        version=_version(tree),
        include=tree.cccl_folder,
        host_folders=tree.host_folders,
        headers=tree.cccl_headers,
        names=names,
        macros=_macros(declarations, tree.defined(source)),
        closures=_declaring(readable, names),
        internals=_internals(declarations, {name.name for name in names}),
        internal_headers=tree.internal_cccl_headers,
    )


def _version(tree: Tree) -> str:
    text = (tree.root / tree.cccl_folder / "thrust" / "version.h").read_text(encoding="utf-8")
    found = re.search(r"#\s*define THRUST_VERSION (\d+)", text)
    if found is None:
        raise ToolkitError("thrust/version.h does not define THRUST_VERSION")
    number = int(found.group(1))
    return f"{number // 100000}.{number // 100 % 1000}.{number % 100}"


def _macros(declarations: Declarations, defined: frozenset[str]) -> tuple[Macro, ...]:
    """Those that are left when all headers were read: many are for one header, or for another compiler."""
    found: dict[str, Macro] = {}
    for name, header, cursor in declarations.macros():
        if _PUBLIC_MACRO.search(name) and name in defined:
            expansion = None if declarations.is_function_like(cursor) else ""
            found.setdefault(name, Macro(name, header, expansion))
    return tuple(found[name] for name in sorted(found))


def _declaring(
    closures: dict[str, tuple[str, ...]], names: tuple[CcclName, ...]
) -> dict[str, tuple[str, ...]]:
    """Closures without the headers that declare nothing public."""
    declaring = {header for name in names for header in name.declared_in}
    return {
        header: tuple(inner for inner in closure if inner in declaring)
        for header, closure in closures.items()
    }


def _kinds(declarations: Declarations) -> dict[Any, str]:
    """What a model calls a cursor's kind."""
    kinds = declarations.kinds
    return {
        kinds.CLASS_TEMPLATE: "type",
        kinds.CLASS_DECL: "type",
        kinds.STRUCT_DECL: "type",
        kinds.UNION_DECL: "type",
        kinds.ENUM_DECL: "type",
        kinds.TYPEDEF_DECL: "type",
        kinds.TYPE_ALIAS_DECL: "type",
        kinds.TYPE_ALIAS_TEMPLATE_DECL: "type",
        kinds.FUNCTION_DECL: "function",
        kinds.FUNCTION_TEMPLATE: "function",
        kinds.VAR_DECL: "variable",
        kinds.UNEXPOSED_DECL: "variable",
        kinds.NAMESPACE: "namespace",
        kinds.NAMESPACE_ALIAS: "namespace",
        kinds.USING_DECLARATION: "using",
        kinds.CONCEPT_DECL: "concept",
    }


# Declared for every compiler but clang, which reads the headers here.
_NOT_FOR_CLANG = ("cuda::std::__move_if_noexcept_result_t",)


def _internals(declarations: Declarations, public: set[str]) -> tuple[CcclName, ...]:
    """Names that are not ``public``."""
    kinds = _kinds(declarations)
    skipped = public.union(_NOT_FOR_CLANG)
    found: dict[str, tuple[str, set[str]]] = {}
    for name, header, cursor in declarations.walk(internals=True):
        own = name.rpartition("::")[2]
        kind = kinds.get(cursor.kind)
        named = own.isidentifier() and not own.startswith("operator")
        ours = name.partition("::")[0] in _LIBRARIES and not header.endswith(_FORWARD_ONLY)
        member = cursor.semantic_parent != cursor.lexical_parent  # defined outside of its class
        if kind and named and ours and not member and name not in skipped:
            found.setdefault(name, (kind, set()))[1].add(header)
    return tuple(
        CcclName(name, kind, tuple(sorted(headers)))
        for name, (kind, headers) in sorted(found.items())
    )


class _Names:
    """Gathers the declarations of each public name: templates, specialisations, overloads, forward declarations."""

    def __init__(self, declarations: Declarations) -> None:
        self._read = declarations
        kinds = declarations.kinds
        self._kinds = _kinds(declarations)
        self._templates = (kinds.CLASS_TEMPLATE, kinds.TYPE_ALIAS_TEMPLATE_DECL)
        self._found: dict[str, list[tuple[str, str, Any]]] = {}
        self._members: dict[str, list[tuple[str, Signature, str | None]]] = {}
        for name, header, cursor in declarations.walk():
            kind = self._kinds.get(cursor.kind)
            own = cursor.spelling or self._used(cursor)
            name = name if cursor.spelling else name + own
            public = own.isidentifier() and not own.startswith(("_", "operator"))
            if kind is None or not public or name.partition("::")[0] not in _LIBRARIES:
                continue
            if header.endswith(_FORWARD_ONLY):
                continue
            # A member that is defined outside of its class.
            if cursor.semantic_parent != cursor.lexical_parent:
                continue
            self._found.setdefault(name, []).append((kind, header, cursor))
            if kind == "type" and _MEMBERS_OF.search(name) and cursor.is_definition():
                self._add_members(name, header, cursor)

    def all(self) -> tuple[CcclName, ...]:
        """Sorted by name."""
        found = [self._name(name, entries) for name, entries in self._found.items()]
        for name, entries in self._members.items():
            signatures = tuple(dict.fromkeys(signature for _, signature, _ in entries))
            found.append(
                CcclName(
                    name,
                    "function",
                    tuple(sorted({header for header, _, _ in entries})),
                    signatures=signatures,
                    deprecated=_of_all([message for _, _, message in entries]),
                )
            )
        return tuple(sorted(found, key=lambda name: name.name))

    def _name(self, name: str, entries: list[tuple[str, str, Any]]) -> CcclName:
        kind = entries[0][0]
        definitions = [
            entry for entry in entries if entry[0] != "type" or entry[2].is_definition()
        ] or entries
        templates = [entry[2] for entry in entries if entry[2].kind in self._templates]
        parameters = [self._read.template_parameters(cursor) for cursor in templates]
        # Of several declarations, the one with defaults says how few arguments will do.
        fewest = min((few for few, _ in parameters), default=0)
        signatures = (
            tuple(dict.fromkeys(self._read.signature(cursor) for _, _, cursor in entries))
            if kind == "function"
            else ()
        )
        return CcclName(
            name,
            kind,
            tuple(sorted({header for _, header, _ in definitions})),
            (fewest, parameters[0][1]) if parameters else None,
            signatures,
            _of_all([self._read.deprecated(cursor) for _, _, cursor in entries]),
        )

    def _add_members(self, owner: str, header: str, cursor: Any) -> None:
        kinds = self._read.kinds
        outer = self._read.template_names(list(cursor.get_children()))
        for member in cursor.get_children():
            name = member.spelling
            function = member.kind in (kinds.CXX_METHOD, kinds.FUNCTION_TEMPLATE)
            constructor = name.partition("<")[0] == owner.rpartition("::")[2]
            if not function or constructor or name.startswith(("_", "operator")):
                continue
            if member.access_specifier.name == "PUBLIC":
                entry = (
                    header,
                    self._read.signature(member, outer),
                    self._read.deprecated(member),
                )
                self._members.setdefault(f"{owner}::{name}", []).append(entry)

    def _used(self, cursor: Any) -> str:
        """Name that a using declaration brings in."""
        if cursor.kind != self._read.kinds.USING_DECLARATION:
            return ""
        names = [child.spelling for child in _references(cursor)]
        return names[-1] if names else ""


def _references(cursor: Any) -> Iterator[Any]:
    return (child for child in cursor.get_children() if child.kind.is_reference())


def _of_all(messages: list[str | None]) -> str | None:
    """A name is deprecated when each of its declarations is."""
    if not messages or None in messages:
        return None
    return messages[0]
