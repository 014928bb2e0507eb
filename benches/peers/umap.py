"""umap-learn on the directions of benches/src/bin/umap.rs, with trustworthiness from 2,048 points, as in ours."""
import json
import sys
import time

sys.path.pop(0)  # the directory of this file, which has the name of the package

import numpy as np
import umap

rows = next((int(text) for text in sys.argv[1:] if text.isdigit()), 32_000)
width, neighbours = 768, 15


def number(index):
    with np.errstate(over="ignore"):
        bits = (index + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((bits ^ (bits >> np.uint64(31))) >> np.uint64(40)).astype(np.float32) / np.float32(1 << 24) - np.float32(0.5)


def family(row, kind, families):
    return ((number(row + np.uint64(kind << 40)) + np.float32(0.5)) * np.float32(families)).astype(np.uint64)


def directions(rows):
    column, row = np.arange(width, dtype=np.uint64), np.arange(rows, dtype=np.uint64)
    wide, narrow = family(row, 1, 200), family(row, 2, 3000)
    out = np.empty((rows, width), np.float32)
    for i in range(rows):
        own = number((row[i] + np.uint64(10_000)) * np.uint64(width) + column)
        shared = number(wide[i] * np.uint64(width) + column)
        close = number((narrow[i] + np.uint64(1000)) * np.uint64(width) + column)
        out[i] = np.float32(0.45) * shared + np.float32(0.45) * close + own
    return out


def trustworthiness(x, y, k):
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    sample = np.random.default_rng(0).choice(len(x), min(2048, len(x)), replace=False)
    total = 0.0
    for row in sample:
        near = unit @ unit[row]
        near[row] = -np.inf
        distance = ((y - y[row]) ** 2).sum(axis=1)
        distance[row] = np.inf
        for other in np.argpartition(distance, k)[:k]:
            total += max(0, int((near > near[other]).sum()) + 1 - k)
    n = len(x)
    return 1 - 2 / (len(sample) * k * (2 * n - 3 * k - 1)) * total


def layout(x):
    return umap.UMAP(n_neighbors=neighbours, min_dist=0.1, n_epochs=200, metric="cosine", n_jobs=-1).fit_transform(x)


layout(directions(4500))  # compile before measuring
x = directions(rows)
seconds = np.inf
for _ in range(2):
    began = time.perf_counter()
    y = layout(x)
    seconds = min(seconds, time.perf_counter() - began)
value = trustworthiness(x, y, neighbours)
how = f"umap-learn {umap.__version__}, trustworthiness {value:.4f}"
print(json.dumps({"seconds": seconds, "trustworthiness": value, "how": how}))
