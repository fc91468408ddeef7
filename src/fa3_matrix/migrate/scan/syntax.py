"""Parsed C++ and CUDA: from an offset to the syntax around it. tree-sitter is imported when first needed."""

import time
from functools import cache
from typing import TYPE_CHECKING

from fa3_matrix.errors import Fa3Error

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Parser

_CHUNK = 1 << 16
# Text that is no C++ (data with a .h name) makes the parser search for a meaning: it reads 10 MB/s of
# code, but 0.2 MB/s of noise. What it has not read by then is left out.
PARSE_SECONDS = 10.0


@cache
def language() -> "Language":
    """The grammar of CUDA C++. Raises `Fa3Error` where it is not installed."""
    try:
        import tree_sitter_cuda
        from tree_sitter import Language
    except ImportError as error:
        raise Fa3Error(
            f"scanning C++ needs {error.name}; install fa3-matrix with the extra `migrate`"
        ) from error
    return Language(tree_sitter_cuda.language())


@cache
def _parser() -> "Parser":
    from tree_sitter import Parser

    return Parser(language())


class Syntax:
    """The tree of ``data``, which stands at offset ``shift`` of its file; ``complete``: all of it was read."""

    def __init__(self, data: bytes, shift: int = 0) -> None:
        deadline = time.monotonic() + PARSE_SECONDS

        def read(offset: int, _point: object) -> bytes:
            late = offset >= _CHUNK and time.monotonic() > deadline
            return b"" if late else data[offset : offset + _CHUNK]

        self.data = data
        self.shift = shift
        tree = _parser().parse(read)
        self.root: Node = tree.root_node
        self.complete = self.root.end_byte >= len(data.rstrip())

    def path(self, offset: int) -> list["Node"]:
        """Nodes from the root to the leaf that holds ``offset`` of the file; ends early where none does."""
        position = offset - self.shift
        cursor = self.root.walk()
        nodes = [self.root]
        while cursor.goto_first_child_for_byte(position) is not None:
            node = cursor.node
            if node is None or not node.start_byte <= position < node.end_byte:
                break
            nodes.append(node)
        return nodes

    def text(self, node: "Node") -> str:
        """What ``node`` spans; strings and comments are blanks in it."""
        return self.data[node.start_byte : node.end_byte].decode("ascii")

    def span(self, node: "Node") -> tuple[int, int]:
        """Offsets of ``node`` in the file."""
        return node.start_byte + self.shift, node.end_byte + self.shift


def arguments_of(call: "Node") -> list["Node"] | None:
    """Arguments of a call expression, or None if it has no list of them."""
    inner = call.child_by_field_name("arguments")
    if inner is None or inner.type != "argument_list":
        return None
    return [child for child in inner.named_children if child.type != "comment"]
