"""Other implementations of attention that builds are compared with: each optional, each with its version.

They are imported when asked for: the registry needs neither torch nor a GPU.
"""

import importlib
import importlib.metadata
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from fa3_matrix.bench.problems import Problem

if TYPE_CHECKING:
    import torch

    from fa3_matrix.bench.inputs import Inputs

    # Enqueues the work once; (out, lse), or None for an lse that the implementation does not hand out.
    Call = Callable[[], tuple[torch.Tensor, torch.Tensor | None]]


class Peer(ABC):
    """One implementation beside ours.

    `name` is its arm's, `title` what a reader knows it by.
    """

    name: str
    title: str

    @property
    @abstractmethod
    def version(self) -> str:
        """Of what is installed; empty when `missing`."""

    @property
    @abstractmethod
    def missing(self) -> str:
        """Why it cannot be called here at all, in one sentence; empty when it can."""

    def why_not(self, problem: Problem) -> str:
        """Why it cannot be compared on `problem`; empty when it can.

        That it computes the same does not mean that it has a kernel for it: its call may still refuse.
        """
        return self.missing or self._differs(problem)

    @abstractmethod
    def prepare(self, problem: Problem, inputs: "Inputs") -> "Call":
        """The call to time; what it needs besides the work itself is done here. Copies no tensor."""

    @abstractmethod
    def _differs(self, problem: Problem) -> str: ...


class TorchSdpa(Peer):
    """``torch.nn.functional.scaled_dot_product_attention`` held to one backend."""

    def __init__(self, name: str, title: str, backend: str) -> None:
        self.name = name
        self.title = title
        self._backend = backend

    @cached_property
    def version(self) -> str:
        """torch's, which holds the kernels; of cuDNN its own."""
        import torch

        if self._backend != "CUDNN_ATTENTION":
            return str(torch.__version__)
        number = torch.backends.cudnn.version()
        # 91900 is 9.19.0; torch >= 2.10 comes with no cuDNN before 9, which counted otherwise.
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}" if number else ""

    @property
    def missing(self) -> str:
        return "" if self.version else "this torch has no cuDNN"

    def _differs(self, problem: Problem) -> str:
        if problem.is_cache:
            return "takes no KV cache"
        if problem.is_varlen:
            return "takes no packed sequences"
        if problem.window != (-1, -1):
            return "has no window"
        if problem.softcap:
            return "has no softcap"
        if problem.causal and problem.seqlen_q not in (1, problem.seqlen_k):
            return "is_causal is aligned to the top left: another mask when seqlen_q != seqlen_k"
        return ""

    def prepare(self, problem: Problem, inputs: "Inputs") -> "Call":
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel

        backend = SDPBackend.__members__[self._backend]
        attend = partial(
            torch.nn.functional.scaled_dot_product_attention,
            *(tensor.transpose(1, 2) for tensor in (inputs.q, inputs.k, inputs.v)),
            # One query, which is the last, sees every key: bottom-right causal masks nothing.
            is_causal=problem.causal and problem.seqlen_q > 1,
            scale=problem.softmax_scale,
            enable_gqa=problem.heads_q != problem.heads_k,
        )

        def call() -> tuple[torch.Tensor, None]:
            with sdpa_kernel(backend):
                return attend().transpose(1, 2), None

        return call


class FlashAttention3(Peer):
    """FlashAttention-3's forward pass, from the package tokenspeed-fa3."""

    name = "flash_attn_3"
    title = "FlashAttention-3 (tokenspeed-fa3)"
    _PACKAGE = "tokenspeed-fa3"
    _MODULE = "flash_attn_interface"

    @cached_property
    def _found(self) -> tuple[Any, str]:
        """The module and an empty string, or None and why there is none."""
        try:
            return importlib.import_module(self._MODULE), ""
        except ModuleNotFoundError as error:
            if error.name == self._MODULE:
                return None, f"not installed: pip install {self._PACKAGE}"
            return None, f"{self._MODULE} cannot be imported: {error}"
        except Exception as error:
            # Its extension may fail to load in any way: another torch, no CUDA, another machine.
            return None, f"{self._MODULE} cannot be imported: {error}"

    @cached_property
    def version(self) -> str:
        if self.missing:
            return ""
        try:
            return importlib.metadata.version(self._PACKAGE)
        except importlib.metadata.PackageNotFoundError:
            # Another package, or a checkout on the path, provides the module.
            return "unknown"

    @property
    def missing(self) -> str:
        return self._found[1]

    def _differs(self, problem: Problem) -> str:  # noqa: ARG002 (the base class's)
        # Its features are ours, and a build of it that lacks one refuses the call.
        return ""

    def prepare(self, problem: Problem, inputs: "Inputs") -> "Call":
        from fa3_matrix.bench.calls import interface_call  # needs torch

        module, _ = self._found
        attend = interface_call(module, problem, inputs)
        # Queries at the end of longer keys are its KV cache's case: only there it splits keys by default.
        if not problem.is_cache and not problem.is_varlen and problem.seqlen_q < problem.seqlen_k:
            attend = partial(module.flash_attn_with_kvcache, *attend.args, **attend.keywords)
        return lambda: (attend(), None)


PEERS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        TorchSdpa("sdpa_flash", "torch SDPA, FlashAttention-2", "FLASH_ATTENTION"),
        TorchSdpa("sdpa_cudnn", "torch SDPA, cuDNN", "CUDNN_ATTENTION"),
        FlashAttention3(),
    )
}
