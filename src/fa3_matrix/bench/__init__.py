"""Problems, references, device timing and peers: what runs on a GPU, and how its results are judged and written.

``python -m fa3_matrix.bench --help`` lists the commands; results' schema is in `fa3_matrix.bench.results`.
"""

# Samples of an arm on a problem, where nothing else is asked for.
ROUNDS = 15
