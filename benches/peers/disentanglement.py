"""DCI (one boosted classifier per concept on half of the rows) and R4 (boosted trees in both directions, every pair, five splits) with
scikit-learn. All fits of DCI, and 20 of the 500 of R4."""
import json
import time

import numpy as np
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

random = np.random.default_rng(0)
concepts = (random.random((5000, 5)) < 0.4).astype(int)
codes = (0.6 * concepts[:, np.arange(10) % 5] + random.random((5000, 10))).astype(np.float32)
began = time.perf_counter()
for concept in range(5):
    model = GradientBoostingClassifier().fit(codes[:2500], concepts[:2500, concept])
    model.score(codes[2500:], concepts[2500:, concept])
dci = time.perf_counter() - began
began = time.perf_counter()
for pair in range(10):
    order = random.permutation(5000)
    test, train = order[:1250], order[1250:]
    code, concept = codes[:, pair : pair + 1], concepts[:, pair % 5]
    GradientBoostingClassifier().fit(code[train], concept[train]).score(code[test], concept[test])
    GradientBoostingRegressor().fit(concept[train, None], code[train, 0]).score(concept[test, None], code[test, 0])
r4 = (time.perf_counter() - began) * 25
how = f"DCI {dci:.2f} s, R4 {r4:.1f} s (500 fits from 20)"
print(json.dumps({"seconds": dci + r4, "dci_seconds": dci, "r4_seconds": r4, "how": how}))
