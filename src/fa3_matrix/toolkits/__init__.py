"""CUDA toolkits: find, provision, probe."""
