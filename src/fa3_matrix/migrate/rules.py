"""Rule ids: the taxonomy of breaks. Ids are stable: suppressions, baselines and reports of others name them."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """What a finding does to its user. The values are stable."""

    BREAK = "break"  # does not compile, link or load any more
    SILENT = "silent"  # compiles, and means something else
    DEPRECATED = "deprecated"  # compiles with a warning, and will break
    INFO = "info"


class State(StrEnum):
    """Whether the preprocessor lets the new toolkit's compiler see the construct."""

    ACTIVE = "active"
    INACTIVE = "inactive"  # guarded by the toolkit's version: migrated already
    LATENT = "latent"  # behind a macro of the project, whose value is not known


class Proof(StrEnum):
    """What a finding rests on, weakest first."""

    DOCUMENTATION = "documentation"
    HEADERS = "headers"  # the difference of both toolkits' headers
    WITNESS = "witness"  # and a minimal program that both compilers were given
    COMPILED = "compiled"  # this very file was given to both compilers
    LINKED = "linked"


@dataclass(frozen=True)
class Rule:
    """A kind of break. ``title``: a noun phrase; ``help``: what happened, and what to write instead; Markdown."""

    id: str
    title: str
    severity: Severity
    help: str


_RULES = (
    Rule(
        "FN-REMOVED",
        "function removed",
        Severity.BREAK,
        "The function is gone; call what replaced it.",
    ),
    Rule(
        "FN-SUFFIX",
        "versioned spelling removed",
        Severity.BREAK,
        "The plain name now has the signature of the `_vN` spelling.",
    ),
    Rule("FN-SIG", "signature changed", Severity.BREAK, "The function takes other arguments."),
    Rule(
        "FN-REMAP",
        "function means another symbol",
        Severity.SILENT,
        "The same call now reaches another version of the function.",
    ),
    Rule(
        "FIELD-REMOVED",
        "struct field removed",
        Severity.BREAK,
        "Query the value by its attribute or its new name.",
    ),
    Rule(
        "TYPE-REMOVED",
        "type removed",
        Severity.BREAK,
        "The type is gone with the functions that took it.",
    ),
    Rule("ENUM-REMOVED", "enum constant removed", Severity.BREAK, "The constant is gone."),
    Rule(
        "ENUM-SENTINEL",
        "enum count changed",
        Severity.SILENT,
        "Arrays of that many entries change size: do not mix objects of both toolkits.",
    ),
    Rule("MACRO-REMOVED", "macro removed", Severity.BREAK, "The macro is gone."),
    Rule(
        "ALIAS-REMOVED",
        "unversioned PFN alias removed",
        Severity.BREAK,
        "Name the version: `PFN_cuXxx_vNNNNN`.",
    ),
    Rule(
        "HDR-REMOVED",
        "header removed",
        Severity.BREAK,
        "What it declared is gone or declared elsewhere.",
    ),
    Rule(
        "HDR-MOVED",
        "header moved",
        Severity.BREAK,
        "nvcc finds it; a host compiler needs another -I.",
    ),
    Rule(
        "INCLUDE-TRANSITIVE",
        "header no longer brings in what is used",
        Severity.BREAK,
        "Include what is used.",
    ),
    Rule(
        "CCCL-REMOVED", "CCCL name removed", Severity.BREAK, "Thrust, CUB and libcu++ dropped it."
    ),
    Rule(
        "CCCL-SIG",
        "CCCL signature changed",
        Severity.BREAK,
        "Thrust, CUB or libcu++ take other arguments.",
    ),
    Rule("DIALECT", "C++ standard no longer supported", Severity.BREAK, "CCCL needs C++17."),
    Rule(
        "ARCH-REMOVED",
        "architecture no longer supported",
        Severity.BREAK,
        "nvcc has no such target any more.",
    ),
    Rule(
        "ARCH-DEFAULT",
        "default architecture changed",
        Severity.INFO,
        "Name the architectures that you build for.",
    ),
    Rule(
        "FLAG-CHANGED",
        "compiler option changed",
        Severity.BREAK,
        "nvcc's option is gone or means something else.",
    ),
    Rule(
        "LINK-STUB",
        "kernel stubs have internal linkage",
        Severity.BREAK,
        "Launch a kernel template from the unit that defines it, or give nvcc -static-global-template-stub=false.",
    ),
    Rule(
        "LINK-HIDDEN",
        "device entities are hidden",
        Severity.BREAK,
        "Export by a host function, or give nvcc -device-entity-has-hidden-visibility=false.",
    ),
    Rule(
        "ABI-LAYOUT",
        "struct layout changed",
        Severity.SILENT,
        "Do not mix objects of both toolkits, and regenerate bindings.",
    ),
    Rule(
        "SONAME",
        "library or target renamed",
        Severity.BREAK,
        "The library's file name carries another version.",
    ),
    Rule(
        "PY-IMPORT",
        "Python module moved",
        Severity.BREAK,
        "cuda-python's modules moved to `cuda.bindings`.",
    ),
    Rule(
        "PY-WHEEL",
        "wheel renamed",
        Severity.BREAK,
        "Wheels of CUDA 13 have no -cu12 suffix, and other folders.",
    ),
    Rule(
        "PTX-ISA",
        "PTX version or target not accepted",
        Severity.BREAK,
        "State a version and target that the toolkit and driver know.",
    ),
    Rule(
        "DEPRECATED",
        "deprecated",
        Severity.DEPRECATED,
        "It still compiles, with a warning: an error under -Werror.",
    ),
    Rule(
        "RUNTIME-BEHAVIOUR",
        "behaviour changed at run time",
        Severity.SILENT,
        "The call compiles and does something else.",
    ),
    Rule(
        "HOSTCC",
        "host compiler not supported",
        Severity.BREAK,
        "Use a host compiler in the new range.",
    ),
    Rule(
        "IMAGE",
        "container image or package name changed",
        Severity.BREAK,
        "Name an image or package of the new toolkit.",
    ),
)

RULES: dict[str, Rule] = {rule.id: rule for rule in _RULES}
