"""A variant's source as the build writes it (cmake/fa3_variant_sources.cmake), for tests that compile it themselves."""

import re

from fa3_matrix.matrix import Variant, cmake

_ELEMENTS = {"bf16": "Bf16", "fp16": "Fp16"}


def expand(template: str, variant: Variant) -> str:
    """`template` is the text of a ``forward.cu.in``; it may name no fact that the variant lacks."""
    facts = {
        "VARIANT": variant.name,
        "ELEMENT": _ELEMENTS[variant.dtype],
        **cmake.facts(variant),
    }
    return re.sub(r"@FA3_(\w+)@", lambda found: facts[found[1]], template)
