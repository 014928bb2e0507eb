"""Networks of the released OIS procedure: one hidden layer of 32 units, 25 epochs, batches of 512, 4,000 of 5,000 rows, then the
area under the ROC curve. scikit-learn's, which compile nothing and are faster than Keras' for this size."""
import json
import sys
import time
import warnings

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.neural_network import MLPClassifier

warnings.filterwarnings("ignore")
fits = int(sys.argv[1])
random = np.random.default_rng(0)
concepts = (random.random((5000, 20)) < 0.3).astype(int)
codes = (0.7 * concepts + 0.3 * random.random((5000, 20))).astype(np.float32)
times = []
for i in range(20):
    order = random.permutation(5000)
    train, test = order[1000:], order[:1000]
    x, y = codes[:, i : i + 1], concepts[:, (i + 7) % 20]
    began = time.perf_counter()
    network = MLPClassifier((32,), batch_size=512, max_iter=25, tol=0, n_iter_no_change=25, epsilon=1e-7, alpha=0)
    network.fit(x[train], y[train])
    roc_auc_score(y[test], network.predict_proba(x[test])[:, 1])
    times.append(time.perf_counter() - began)
each = float(np.median(times))
print(json.dumps({"seconds": each * fits, "how": f"{fits:,} scikit-learn networks x {each * 1e3:.1f} ms each (median of 20)"}))
