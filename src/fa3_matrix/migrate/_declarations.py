"""What a translation unit declares, read by libclang."""

import ctypes
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from fa3_matrix.errors import ToolkitError
from fa3_matrix.migrate.model import Signature

# Clang has no host-device overloads outside its own CUDA mode: <cmath>'s constexpr functions meet CUDA's plain
# declarations of the same names. The declarations are read all the same.
_HARMLESS = re.compile("non-constexpr declaration of")
# CCCL is written for newer compilers than libclang 18: a few declarations of its internals are beyond it.
_FEW = 5
# Namespaces of implementation details, in every library of the toolkit.
_INTERNAL = re.compile(
    r"^_|^details?$|^internal$|^impl$|_detail$|^detail_|^core$|^unimplemented$|^fallback$"
)

Cursor = Any


def parse(source: str, arguments: Sequence[str]) -> Any:
    """Parse C++; function bodies are skipped, macros are kept.

    Raises:
        ToolkitError: libclang is missing, or the headers have so many errors that declarations are hidden.
    """
    try:
        import clang.cindex as clang  # type: ignore[import-untyped]
    except ImportError as error:
        raise ToolkitError(
            "reading headers needs libclang: pip install 'fa3-matrix[migrate]'"
        ) from error
    options = clang.TranslationUnit
    unit = clang.Index.create().parse(
        "read.cpp",
        args=list(arguments),
        unsaved_files=[("read.cpp", source)],
        options=options.PARSE_SKIP_FUNCTION_BODIES | options.PARSE_DETAILED_PROCESSING_RECORD,
    )
    errors = [
        diagnostic
        for diagnostic in unit.diagnostics
        if diagnostic.severity >= clang.Diagnostic.Error
        and not _HARMLESS.search(diagnostic.spelling)
    ]
    fatal = [error for error in errors if error.severity >= clang.Diagnostic.Fatal]
    if fatal or len(errors) > _FEW:
        raise ToolkitError(f"{len(errors)} errors in the headers, first: {(fatal or errors)[0]}")
    return unit


class Declarations:
    """Walks a translation unit, naming each declaration as source code would."""

    def __init__(self, unit: Any, header: Callable[[str], str | None]) -> None:
        """``header``: path of a file -> how it is included; None: not of interest."""
        import clang.cindex as clang

        self._unit = unit
        self._header = header
        self.kinds = clang.CursorKind
        self._deprecated = clang.AvailabilityKind.DEPRECATED
        self._library = clang.conf.lib
        for ask in (
            self._library.clang_Cursor_isInlineNamespace,
            self._library.clang_Cursor_isAnonymousRecordDecl,
            self._library.clang_Cursor_isMacroFunctionLike,
        ):
            ask.argtypes = [clang.Cursor]
        self._library.clang_getCursorPlatformAvailability.argtypes = [
            clang.Cursor,
            ctypes.POINTER(ctypes.c_int),
            ctypes.POINTER(clang._CXString),
            ctypes.POINTER(ctypes.c_int),
            ctypes.POINTER(clang._CXString),
            ctypes.c_void_p,
            ctypes.c_int,
        ]
        self._string = clang._CXString
        self._headers: dict[str, str | None] = {}

    def header_of(self, cursor: Cursor) -> str | None:
        """How the file that holds the declaration is included."""
        file = cursor.location.file
        if file is None:
            return None
        name = file.name
        if name not in self._headers:
            self._headers[name] = self._header(str(Path(name)))
        return self._headers[name]

    def macros(self) -> Iterator[tuple[str, str, Cursor]]:
        """Name, header and cursor of each macro."""
        for cursor in self._unit.cursor.get_children():
            if cursor.kind == self.kinds.MACRO_DEFINITION and (header := self.header_of(cursor)):
                yield cursor.spelling, header, cursor

    def walk(self, *, internals: bool = False) -> Iterator[tuple[str, str, Cursor]]:
        """Qualified name, header and cursor of each declaration of a namespace; of internal ones if asked."""
        yield from self._walk(self._unit.cursor, "", internals)

    def _walk(
        self, parent: Cursor, prefix: str, internals: bool
    ) -> Iterator[tuple[str, str, Cursor]]:
        kinds = self.kinds
        children = list(parent.get_children())
        # `namespace v1 {...} using namespace v1;` is how some headers spell an inline namespace.
        opened = {
            reference.spelling
            for cursor in children
            if cursor.kind == kinds.USING_DIRECTIVE
            for reference in cursor.get_children()
        }
        for cursor in children:
            kind = cursor.kind
            if kind.is_preprocessing():
                continue
            header = self.header_of(cursor)
            if header is None:
                continue
            # A variable template has no kind of its own: it is an unexposed declaration with a name.
            if kind in (kinds.LINKAGE_SPEC, kinds.UNEXPOSED_DECL) and not cursor.spelling:
                yield from self._walk(cursor, prefix, internals)
                continue
            name = cursor.spelling
            if kind == kinds.NAMESPACE:
                inline = self._library.clang_Cursor_isInlineNamespace(cursor)
                if inline or (prefix and name in opened):
                    yield from self._walk(cursor, prefix, internals)
                elif name and (internals or not _INTERNAL.search(name)):
                    yield prefix + name, header, cursor
                    yield from self._walk(cursor, f"{prefix}{name}::", internals)
                continue
            yield prefix + name, header, cursor

    def is_anonymous_record(self, cursor: Cursor) -> bool:
        """Whether a record's members belong to the record around it."""
        return bool(self._library.clang_Cursor_isAnonymousRecordDecl(cursor))

    def is_function_like(self, cursor: Cursor) -> bool:
        """Whether a macro takes arguments."""
        return bool(self._library.clang_Cursor_isMacroFunctionLike(cursor))

    def deprecated(self, cursor: Cursor) -> str | None:
        """Message of the deprecation (may be empty); None: it is not deprecated."""
        if cursor.availability != self._deprecated:
            return None
        always, unavailable = ctypes.c_int(), ctypes.c_int()
        message, other = self._string(), self._string()
        self._library.clang_getCursorPlatformAvailability(
            cursor,
            ctypes.byref(always),
            ctypes.byref(message),
            ctypes.byref(unavailable),
            ctypes.byref(other),
            None,
            0,
        )
        text = self._library.clang_getCString(message)
        return text if isinstance(text, str) else (text or b"").decode()

    def signature(
        self, cursor: Cursor, class_parameters: frozenset[str] = frozenset()
    ) -> Signature:
        """Of a function, a method or a template of one."""
        kinds = self.kinds
        children = list(cursor.get_children())
        generic_names = class_parameters | self.template_names(children)
        parameters = [child for child in children if child.kind == kinds.PARM_DECL]
        types = tuple(spelled(parameter.type) for parameter in parameters)
        required = sum(not _has_default(parameter) for parameter in parameters)
        packs = any("..." in type_ for type_ in types)
        generic = tuple(
            position
            for position, type_ in enumerate(types)
            if not generic_names.isdisjoint(re.findall(r"\w+", type_))
        )
        variadic = packs or (
            cursor.kind == kinds.FUNCTION_DECL and cursor.type.spelling.endswith("...)")
        )
        return Signature(spelled(cursor.result_type), types, required - packs, generic, variadic)

    def template_names(self, children: Sequence[Cursor]) -> frozenset[str]:
        """Names of the template parameters among a declaration's children."""
        return frozenset(child.spelling for child in children if self._is_template_parameter(child))

    def template_parameters(self, cursor: Cursor) -> tuple[int, int | None]:
        """Fewest and most template arguments; None: any number."""
        parameters = [c for c in cursor.get_children() if self._is_template_parameter(c)]
        tokens = [[token.spelling for token in parameter.get_tokens()] for parameter in parameters]
        pack = any("..." in texts for texts in tokens)
        required = sum("=" not in texts and "..." not in texts for texts in tokens)
        return required, None if pack else len(parameters)

    def _is_template_parameter(self, cursor: Cursor) -> bool:
        kinds = self.kinds
        return cursor.kind in (
            kinds.TEMPLATE_TYPE_PARAMETER,
            kinds.TEMPLATE_NON_TYPE_PARAMETER,
            kinds.TEMPLATE_TEMPLATE_PARAMETER,
        )


def spelled(type_: Any) -> str:
    """A type as the header spells it, without elaborations that C needs and C++ doesn't."""
    text = re.sub(r"\b(struct|union|enum) (?=\w)", "", type_.spelling)
    return re.sub(r"\((unnamed|anonymous)[^)]*\)", "<unnamed>", text)


def _has_default(parameter: Cursor) -> bool:
    import clang.cindex as clang

    arrays = (clang.TypeKind.CONSTANTARRAY, clang.TypeKind.INCOMPLETEARRAY)
    if parameter.type.kind in arrays:
        return False
    return any(child.kind.is_expression() for child in parameter.get_children())
