# corpus: guarded
# documented: https://docs.nvidia.com/cuda/cuda-runtime-api/version-mixing-rules.html
import ctypes


def load():
    for name in ("libcudart.so.13", "libcudart.so.12"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            pass
    return None
