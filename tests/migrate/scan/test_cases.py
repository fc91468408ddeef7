"""Inputs whose verdicts come from both toolkits' compilers, against the difference that ships."""

import pytest

from fa3_matrix.migrate.difference import Difference
from fa3_matrix.migrate.finding import Finding
from fa3_matrix.migrate.rules import Severity, State
from fa3_matrix.migrate.scan import cxx
from fa3_matrix.migrate.store import load_difference

# (name of the file, verdict, code). Those about options of nvcc alone are in the tests of other scanners.
CASES = [
    (
        "F01_clockRate.cu",
        "break",
        "#include <cuda_runtime.h>\nint f(cudaDeviceProp p){ return p.clockRate; }",
    ),
    (
        "F03_computeMode.cu",
        "break",
        "#include <cuda_runtime.h>\nint f(cudaDeviceProp p){ return p.computeMode; }",
    ),
    (
        "F04_deviceOverlap.cu",
        "break",
        "#include <cuda_runtime.h>\nint f(cudaDeviceProp p){ return p.deviceOverlap; }",
    ),
    (
        "F06_maxTexture1DLinear.cu",
        "break",
        "#include <cuda_runtime.h>\nint f(cudaDeviceProp p){ return p.maxTexture1DLinear; }",
    ),
    (
        "N01_clockRate_other.cu",
        "clean",
        "#include <cuda_runtime.h>\n"
        "struct Prop{int clockRate;}; int f(Prop p){return p.clockRate;}",
    ),
    (
        "N02_clockRate_guard.cu",
        "clean",
        "#include <cuda_runtime.h>\n"
        "int f(cudaDeviceProp p){\n"
        "#if CUDART_VERSION < 13000\n"
        " return p.clockRate;\n"
        "#else\n"
        " return 0;\n"
        "#endif\n"
        "}",
    ),
    (
        "N03_comment.cu",
        "clean",
        '#include <cuda_runtime.h>\n// p.clockRate is gone\nconst char*m="p.clockRate";',
    ),
    (
        "N04_attr.cu",
        "clean",
        "#include <cuda_runtime.h>\n"
        "int f(){int v; cudaDeviceGetAttribute(&v,cudaDevAttrClockRate,0); return v;}",
    ),
    (
        "R01_threadsync.cu",
        "break",
        "#include <cuda_runtime.h>\nvoid f(){ cudaThreadSynchronize(); }",
    ),
    (
        "R03_coopmulti.cu",
        "break",
        "#include <cuda_runtime.h>\n"
        "void f(cudaLaunchParams*p){ cudaLaunchCooperativeKernelMultiDevice(p,1,0); }",
    ),
    (
        "R05_nvvm.cpp",
        "break",
        "#include <nvrtc.h>\nvoid f(nvrtcProgram p,char*c){ nvrtcGetNVVM(p,c); }",
    ),
    (
        "R06_v2suffix.cu",
        "break",
        "#include <cuda_runtime.h>\nvoid f(cudaDeviceProp*p){ cudaGetDeviceProperties_v2(p,0); }",
    ),
    (
        "R07_multigrid.cu",
        "break",
        "#include <cooperative_groups.h>\n"
        "namespace cg=cooperative_groups;\n"
        "__global__ void k(){ cg::this_multi_grid().sync(); }",
    ),
    (
        "R11_pfn.cpp",
        "break",
        "#include <cudaTypedefs.h>\nPFN_cuTensorMapEncodeTiled g;",
    ),
    (
        "N05_pfn_versioned.cpp",
        "clean",
        "#include <cudaTypedefs.h>\nPFN_cuTensorMapEncodeTiled_v12000 g;",
    ),
    (
        "S01_prefetch.cu",
        "break",
        "#include <cuda_runtime.h>\nvoid f(void*p){ cudaMemPrefetchAsync(p,4,0,0); }",
    ),
    (
        "S02_advise.cu",
        "break",
        "#include <cuda_runtime.h>\n"
        "void f(void*p){ cudaMemAdvise(p,4,cudaMemAdviseSetReadMostly,0); }",
    ),
    (
        "S03_cuCtxCreate.cpp",
        "break",
        "#include <cuda.h>\nvoid f(CUcontext*c,CUdevice d){ cuCtxCreate(c,0,d); }",
    ),
    (
        "S04_graphAddDep.cu",
        "break",
        "#include <cuda_runtime.h>\n"
        "void f(cudaGraph_t g,cudaGraphNode_t*a,cudaGraphNode_t*b){ "
        "cudaGraphAddDependencies(g,a,b,1); }",
    ),
    (
        "S06_capinfo6.cu",
        "break",
        "#include <cuda_runtime.h>\n"
        "void f(cudaStream_t s){ cudaStreamCaptureStatus st; unsigned long long id; cudaGraph_t "
        "g; const cudaGraphNode_t*d; size_t n; cudaStreamGetCaptureInfo(s,&st,&id,&g,&d,&n); }",
    ),
    (
        "S07_capinfo3.cu",
        "clean",
        "#include <cuda_runtime.h>\n"
        "void f(cudaStream_t s){ cudaStreamCaptureStatus st; unsigned long long id; "
        "cudaStreamGetCaptureInfo(s,&st,&id); }",
    ),
    (
        "S14_prefetch_hip_like.cu",
        "clean",
        "#include <cuda_runtime.h>\n"
        "struct X{void cudaMemPrefetchAsync(void*,size_t,int,int){}};void f(X x,void*p){ "
        "x.cudaMemPrefetchAsync(p,4,0,0); }",
    ),
    (
        "S15_memLocInit.cu",
        "clean",
        "#include <cuda_runtime.h>\n"
        "cudaMemLocation f(){ cudaMemLocation l{cudaMemLocationTypeDevice,0}; l.id=0; return l; }",
    ),
    (
        "S16_enum.cu",
        "break",
        "#include <cuda_runtime.h>\n"
        "int f(){int v; cudaDeviceGetAttribute(&v,cudaDevAttrCooperativeMultiDeviceLaunch,0); "
        "return v;}",
    ),
    (
        "T01_double4.cu",
        "warn",
        "#include <cuda_runtime.h>\ndouble4 f(){ return make_double4(1,2,3,4); }",
    ),
    (
        "H01_texfetch.cu",
        "break",
        "#include <texture_fetch_functions.h>\nint x;",
    ),
    (
        "H04_thrust_host_only.cpp",
        "break",
        "#include <thrust/complex.h>\nthrust::complex<float> z;",
    ),
    (
        "C01_unary_function.cu",
        "break",
        "#include <thrust/functional.h>\n"
        "struct F: thrust::unary_function<int,int>{ __host__ __device__ int operator()(int "
        "x)const{return x;} };",
    ),
    (
        "C05_cub_Sum.cu",
        "break",
        "#include <cub/cub.cuh>\ncub::Sum g;",
    ),
    (
        "C07_cub_TII.cu",
        "break",
        "#include <cub/cub.cuh>\n"
        "struct O{__host__ __device__ float operator()(int x)const{return x;}};\n"
        "cub::TransformInputIterator<float,O,int*> g((int*)0,O{});",
    ),
    (
        "C18_debug_sync.cu",
        "break",
        "#include <cub/cub.cuh>\n"
        "void f(){ size_t n=0; "
        "cub::DeviceReduce::Sum((void*)0,n,(int*)0,(int*)0,10,(cudaStream_t)0,true); }",
    ),
    (
        "C20_cub_DeviceReduce_nosum.cu",
        "clean",
        "#include <cub/cub.cuh>\n"
        "void f(){ size_t n=0; cub::DeviceReduce::Sum((void*)0,n,(int*)0,(int*)0,10); }",
    ),
    (
        "L01_friend.cu",
        "warn",
        "template<class T> __global__ void kt(T*);\nvoid f(int*p){ kt<int><<<1,1>>>(p); }",
    ),
]


@pytest.fixture(scope="module")
def difference() -> Difference:
    return load_difference("12.4", "13.3")


def _open(findings: list[Finding]) -> set[Severity]:
    return {
        f.severity
        for f in findings
        if f.state is not State.INACTIVE and f.severity is not Severity.INFO
    }


@pytest.mark.parametrize("file, verdict, code", CASES, ids=[case[0] for case in CASES])
def test_says_what_the_compilers_say(
    difference: Difference, file: str, verdict: str, code: str
) -> None:
    found = _open(list(cxx.find(file, code, difference)))
    if verdict == "break":
        assert Severity.BREAK in found
    elif verdict == "clean":
        assert not found
    else:  # nvcc warns; of a kernel template's stub the linker will say more
        assert found
