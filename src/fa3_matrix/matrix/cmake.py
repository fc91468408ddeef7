"""What CMake needs to know of a cell, as ``set()`` commands that it includes."""

from dataclasses import asdict

from fa3_matrix.matrix.model import Cell, Matrix, Twin, Variant


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
        lines += [f'set({v.name}_{key} "{value}")' for key, value in facts(v).items()]
    return "\n".join(lines) + "\n"


def facts(variant: Variant) -> dict[str, str]:
    """What describes a variant, as C++ and CMake both read it; keys: the template's names without ``FA3_``."""
    values: dict[str, object] = {
        "KERNEL": variant.kernel,
        "DTYPE": variant.dtype,
        "HEAD_DIM": variant.head_dim,
        "BLOCK_M": variant.block_m,
        "BLOCK_N": variant.block_n,
        "STAGES": variant.stages,
        **{key.upper(): value for key, value in asdict(variant.options).items()},
    }
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in values.items()
    }
