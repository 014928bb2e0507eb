"""Monosemanticity by its definition, pair by pair in blocks of 100 rows, on 2,000 rows; scaled by the number of pairs."""
import json
import time

import numpy as np

rows, latents, width, wanted = 2000, 4096, 768, 50_000
random = np.random.default_rng(0)
codes = np.zeros((rows, latents), np.float32)
for row in codes:
    row[random.choice(latents, 32, replace=False)] = random.random(32) + 0.1
embeddings = (random.random((rows, width)) - 0.4).astype(np.float32)

began = time.perf_counter()
low, high = codes.min(0), codes.max(0)
with np.errstate(invalid="ignore"):
    a = (codes - low) / (high - low)
unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
weighted = np.zeros(latents)
weight = np.zeros(latents)
for first in range(0, rows, 100):
    block = slice(first, first + 100)
    for i in range(first, min(first + 100, rows)):
        pairs = a[i] * a[i + 1:]
        weighted += (unit[i + 1:] @ unit[i]) @ pairs
        weight += pairs.sum(0)
seconds = time.perf_counter() - began
scale = (wanted * (wanted - 1)) / (rows * (rows - 1))
print(json.dumps({"seconds": seconds * scale, "how": f"{seconds:.1f} s on {rows:,} rows x {scale:.0f} times the pairs"}))
