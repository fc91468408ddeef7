"""Run time: finds the host library and builds, chooses kernels, registers the torch operators.

Importing this package imports neither torch nor CUDA; :func:`fa3_matrix.ops.operators.load` does the former.
"""
