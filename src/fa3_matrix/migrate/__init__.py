"""What breaks in source code from one CUDA toolkit to another: computed, found in a tree, proved by both compilers."""
