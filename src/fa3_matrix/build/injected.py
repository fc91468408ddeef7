"""A cell with a fault put in, to prove that the gate sees it: `python -m fa3_matrix.build.injected slow-2% sm90-cu133`."""

import argparse
import sys

from fa3_matrix.build.sources import Replacement, build_changed
from fa3_matrix.errors import Fa3Error

_KERNELS = ("sm90/forward.cu.in", "splitkv/forward.cu.in", "sm80/forward.cu.in")

# Each thread waits at its end for a share of the time that it took, so that a launch takes that share longer. In local
# memory, which a volatile is kept in, the start costs the kernel no register.
_SLOWDOWN = """
struct Slowdown {{
  volatile long long begin;
  __device__ __forceinline__ Slowdown() : begin(clock64()) {{}}
  __device__ __forceinline__ ~Slowdown() {{
    const long long end = clock64(), longer = (end - begin) * {permille} / 1000;
    while (clock64() - end < longer) {{
    }}
  }}
}};
"""


def _slower(permille: int) -> list[Replacement]:
    return [
        Replacement(
            f"cpp/{file}",
            "#include <type_traits>\n",
            "#include <type_traits>\n" + _SLOWDOWN.format(permille=permille),
        )
        for file in _KERNELS
    ] + [
        Replacement(
            f"cpp/{file}",
            f"  fa3::{file.split('/')[0]}::forward<Traits>(params);\n",
            f"  const Slowdown slowdown;\n  fa3::{file.split('/')[0]}::forward<Traits>(params);\n",
        )
        for file in _KERNELS
    ]


def _waiver(table: str) -> Replacement:
    return Replacement(
        "ci/matrix.toml",
        "[suites.smoke]\n",
        f'{table}cells = ["*"]\nreason = "put in on purpose"\n\n[suites.smoke]\n',
    )


# A register cap: three CTAs an SM where one or two were asked for, so that the decode kernel's accumulators spill. The
# audit refuses such a build, so a waiver is put in, too.
_SPILL = [
    Replacement(
        "cpp/splitkv/forward.cu.in",
        "__launch_bounds__(Traits::kThreads, @FA3_MIN_BLOCKS@)",
        "__launch_bounds__(Traits::kThreads, 512 / Traits::kThreads + 1)",
    ),
    _waiver('[[spill_waivers]]\nvariants = ["*_splitkv"]\nmax_bytes = 100000\n'),
]

# A tile's first P V told at run time not to accumulate, in place of accumulators that are zero: 12.4 then serialises
# all wgmma (C7515), 13.3 does not. The audit refuses such a build, so a waiver is put in, too.
_CONSUMER, _WGMMA = "cpp/sm90/consumer.cuh", "cpp/ptx/wgmma.cuh"
_SERIALISED = [
    Replacement(
        _CONSUMER,
        "      ptx::wgmma_clear(o_);  // only now: no accumulator may be written while another wgmma runs\n",
        "      int accumulate = 0;\n",
    ),
    Replacement(
        _CONSUMER,
        "issue_pv(v);\n        pass_turn();",
        "issue_pv(v, accumulate);\n        accumulate = 1;\n        pass_turn();",
    ),
    Replacement(
        _CONSUMER, "issue_pv(v);\n      if (more)", "issue_pv(v, accumulate);\n      if (more)"
    ),
    Replacement(
        _CONSUMER,
        "issue_pv(const Descriptor<Traits>& v) {",
        "issue_pv(const Descriptor<Traits>& v, int accumulate) {",
    ),
    Replacement(_CONSUMER, "v.rows(step));", "v.rows(step), accumulate | step);"),
    Replacement(
        _WGMMA,
        "static void registers(float (&d)[N / 2], const uint32_t* a, uint64_t b) {",
        "static void registers(float (&d)[N / 2], const uint32_t* a, uint64_t b, int accumulate) {",
    ),
    Replacement(_WGMMA, "setp.eq.u32 p, 0, 0;", 'setp.ne.b32 p, " FA3_ACCUMULATE_##CHUNKS ", 0;'),
    Replacement(_WGMMA, '"l"(b), "n"(kTransB));', '"l"(b), "n"(kTransB), "r"(accumulate));'),
    *(
        Replacement(
            _WGMMA,
            f'#define FA3_TRANS_{chunks} "%{8 * chunks + 5}"',
            f'#define FA3_TRANS_{chunks} "%{8 * chunks + 5}"\n'
            f'#define FA3_ACCUMULATE_{chunks} "%{8 * chunks + 6}"',
        )
        for chunks in range(1, 17)
    ),
    _waiver('[[advisory_waivers]]\nvariants = ["fa3_fwd_sm90_*"]\ncodes = ["C7515"]\n'),
]

INJECTED: dict[str, list[Replacement]] = {
    "slow-1%": _slower(10),
    "slow-2%": _slower(20),
    "slow-5%": _slower(50),
    "spill": _SPILL,
    "serialised": _SERIALISED,
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m fa3_matrix.build.injected", description=__doc__
    )
    parser.add_argument("fault", choices=INJECTED)
    parser.add_argument("cell")
    options = parser.parse_args(arguments)
    try:
        build = build_changed(options.fault.rstrip("%"), options.cell, INJECTED[options.fault])
    except Fa3Error as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{build.folder}: {options.fault}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
