"""Machine interpretability score as released: a sort per unit, tasks of shuffled bins, and cosines of all pairs; for 64 units, scaled to 2,048."""
import json
import time

import numpy as np

images, units, wanted, width, tasks, explanations = 50_000, 64, 2048, 512, 20, 9
random = np.random.default_rng(0)
activations = random.random((images, units, 4), np.float32).sum(axis=2) - 2
embeddings = (random.random((images, width)) - 0.4).astype(np.float32)

embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
began = time.perf_counter()
np.random.seed(42)
scores = []
pool = tasks * explanations


def sides(order):
    """Explanations and queries of all tasks; `order` starts with the most extreme image."""
    bins = [list(order[start : start + tasks]) for start in range(0, pool + tasks, tasks)]
    for images_of_bin in bins:
        np.random.shuffle(images_of_bin)
    return np.array(bins[:explanations]).T, np.array(bins[explanations])


for unit in range(units):
    order = np.argsort(activations[:, unit], kind="stable")
    low, low_queries = sides(order)
    high, high_queries = sides(order[::-1])
    answers = []
    for task in range(tasks):
        def alike(query, group):
            return np.mean([embeddings[query] @ embeddings[image] for image in group])

        plus = alike(high_queries[task], high[task]) - alike(high_queries[task], low[task])
        minus = alike(low_queries[task], high[task]) - alike(low_queries[task], low[task])
        answers.append(1 / (1 + np.exp(-(plus - minus) / 0.16)))
    scores.append(np.mean(answers))
seconds = time.perf_counter() - began
scale = wanted / units
print(json.dumps({"seconds": seconds * scale, "how": f"{seconds:.1f} s for {units} units x {scale:.0f}"}))
