// Stands in for libtorch_cpu.so at link time, so that linking needs torch's headers only. It has that SONAME: at run
// time the loader takes the torch that is imported already. Empty on purpose; never installed.
