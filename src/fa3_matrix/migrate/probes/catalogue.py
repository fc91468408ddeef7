"""The probes: what each asks, what is documented of it, and where it lies."""

from dataclasses import dataclass
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
# Of a folder of compiled probes: which toolkits compiled them.
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Probe:
    """One program.

    Args:
        name: of its source in ``programs/``, and of the program.
        question: what it asks; Markdown.
        documented: what each toolkit's documentation answers, and url: where; Markdown.
    """

    name: str
    question: str
    documented: str
    url: str

    @property
    def source(self) -> Path:
        """Its source."""
        return PROGRAMS / f"{self.name}.cpp"


_RUNTIME = "https://docs.nvidia.com/cuda/cuda-runtime-api"
_DRIVER = "https://docs.nvidia.com/cuda/cuda-driver-api"

PROBES = (
    Probe(
        "free_waits",
        "Does `cudaFree` wait for pending work that does not use the memory?",
        "Not for memory of `cudaMallocAsync`, says either; for all other memory it may, says 13.3 alone. "
        "Neither promises that it does.",
        f"{_RUNTIME}/group__CUDART__MEMORY.html",
    ),
    Probe(
        "free_async_null_stream",
        "Does `cuMemFreeAsync` need a stream of one's own?",
        "No, says either: the null stream will do, and needs a current context "
        "(`CUDA_ERROR_INVALID_CONTEXT`).",
        f"{_DRIVER}/group__CUDA__MALLOC__ASYNC.html",
    ),
    Probe(
        "stream_priorities",
        "Which priorities may a stream have?",
        "Those that the device is asked for; others are clamped. Both say the same.",
        f"{_RUNTIME}/group__CUDART__STREAM.html",
    ),
    Probe(
        "foreign_stream",
        "What may be done with a stream of another context than the current one?",
        "An event of another context than the stream's is `CUDA_ERROR_INVALID_HANDLE` to `cuEventRecord`. "
        "Both say the same, and nothing of the rest.",
        f"{_DRIVER}/group__CUDA__EVENT.html",
    ),
    Probe(
        "event_elapsed_time",
        "What does `cuEventElapsedTime` return where an event is pending, or other work has failed?",
        "`CUDA_ERROR_NOT_READY` where one is pending, says either. Errors of pending work may go unreported, "
        "says 13.3.",
        f"{_DRIVER}/group__CUDA__EVENT.html",
    ),
    Probe(
        "device_uuid",
        "Whose UUID does `cuDeviceGetUuid` give?",
        "The device's in 12.4. In 13.3, in MIG mode, the instance's.",
        f"{_DRIVER}/group__CUDA__DEVICE.html",
    ),
    Probe(
        "device_properties",
        "What does the other toolkit's `cudaGetDeviceProperties` do to this one's struct?",
        "Structs belong to a major release of the run-time library, and must not be passed to another's.",
        f"{_RUNTIME}/version-mixing-rules.html",
    ),
    Probe(
        "load_runtime",
        "Under which names can the run-time library be loaded?",
        "Its name carries the major release: `libcudart.so.12`, `libcudart.so.13`.",
        f"{_RUNTIME}/version-mixing-rules.html",
    ),
    Probe(
        "graph_edges",
        "What do queries of a graph's edges return that leave no room for the edges' data?",
        "`cudaErrorLossyQuery` where an edge has data, of the functions that can be given room: those of the plain "
        "names in 13.3, those of the suffix `_v2` in 12.4.",
        f"{_RUNTIME}/group__CUDART__GRAPH.html",
    ),
)
