"""The sums, counts, strongest rows and co-occurrences of benches/src/bin/blindspots.rs with NumPy and SciPy, in processor
time; on a quarter of its tokens, times four."""
import json
import time

import numpy as np
import scipy
import scipy.sparse as sparse

latents, active, rows, times, keep = 32_000, 5, 1_000_000, 4, 10
together_rows, concepts = 256, 24  # tokens per image, and concepts per image


def tokens(seed):
    random = np.random.default_rng(seed)
    images = -(-rows // together_rows)
    below = np.where(random.random((images, concepts)) < 0.5, latents // 10, latents)
    image = (random.random((images, concepts)) * below).astype(np.int32)
    positions = random.random((rows, concepts), dtype=np.float32).argpartition(active, axis=1)[:, :active]
    columns = np.sort(np.take_along_axis(image[np.arange(rows) // together_rows], positions, axis=1), axis=1)
    values = (0.1 + random.random((rows, active))).astype(np.float32)
    codes = sparse.csr_matrix((values.ravel(), columns.ravel(), np.arange(rows + 1) * active), shape=(rows, latents))
    codes.sum_duplicates()
    return codes


def sums(codes):
    squares = codes.copy()
    squares.data = squares.data**2
    fires = np.bincount(codes.indices, minlength=latents)
    return fires, codes.sum(0, dtype=np.float64), squares.sum(0, dtype=np.float64)


def strongest(codes):
    by_latent = codes.tocsc()
    top = np.full((latents, keep), -1)
    for latent in range(latents):
        part = slice(by_latent.indptr[latent], by_latent.indptr[latent + 1])
        best = np.argsort(-by_latent.data[part], kind="stable")[:keep]
        top[latent, : len(best)] = by_latent.indices[part][best]
    return top


def together(codes):
    return (codes.T @ codes).tocsr()


real, made = tokens(1), tokens(2)
began = time.process_time()
found = [(sums(codes), strongest(codes)) for codes in (real, made)]
products = real.multiply(made).sum(0)
a, b = together(real), together(made)
only_made, only_real = ((b != 0).astype(np.int8) - (a != 0).astype(np.int8)).tocsr(), a.nnz
seconds = time.process_time() - began
how = f"NumPy {np.__version__} and SciPy {scipy.__version__}; {seconds:.1f} s for a quarter of the tokens x {times}, without halves and groups"
print(json.dumps({"seconds": seconds * times, "how": how}))
