"""What CMake needs to know of a cell, as ``set()`` commands that it includes."""

from dataclasses import asdict

from fa3_matrix.matrix.model import Cell, Matrix, Twin


def snippet(matrix: Matrix, cell: Cell | Twin) -> str:
    """Return the .cmake text of one cell or twin.

    ``FA3_TARGET`` is the entry for ``CUDA_ARCHITECTURES``; ``FA3_GENCODE`` is the same request in
    nvcc's words and the only right one for a twin, whose virtual architecture is its cell's.
    ``<variant>_*`` describe each variant: what every kernel has, then the options of its own.
    """
    variables: dict[str, object] = {
        "FA3_CELL": cell.name,
        "FA3_TWIN_OF": cell.twin_of or "",
        "FA3_ARCH": cell.arch.name,
        "FA3_TOOLKIT": cell.toolkit.version,
        "FA3_TARGET": cell.target.cmake_architecture,
        "FA3_CODE": cell.target,
        "FA3_GENCODE": cell.gencode,
        "FA3_FORM": cell.target.form,
        "FA3_ASSEMBLE": cell.assemble or "",
    }
    variants = matrix.variants(cell.arch.name)
    lines = [f'set({name} "{value}")' for name, value in variables.items()]
    lines += ["set(FA3_VARIANTS", *(f"  {v.name}" for v in variants), ")"]
    for v in variants:
        facts: dict[str, object] = {
            "KERNEL": v.kernel,
            "DTYPE": v.dtype,
            "HEAD_DIM": v.head_dim,
            "BLOCK_M": v.block_m,
            "BLOCK_N": v.block_n,
            "STAGES": v.stages,
            **{key.upper(): value for key, value in asdict(v.options).items()},
        }
        lines += [f'set({v.name}_{key} "{_text(value)}")' for key, value in facts.items()]
    return "\n".join(lines) + "\n"


def _text(value: object) -> str:
    """As C++ and CMake both read it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
