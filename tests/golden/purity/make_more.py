"""Numbers of scikit-learn that the other files of this folder do not have.

python make_more.py orders.json     R4's accuracies (code -> concept) of binary/ and multi/ with the training rows in several
                                    orders: an entry is [smallest, largest] number of test rows that are right.
python make_more.py leakage.json    mutual information by neighbours: a number with a class, and two numbers.

`r4_orders_1.8.json` and `r4_orders_1.9.json` are of scikit-learn 1.8.0 and 1.9.1, whose formulas of the gain of a split differ by
rounding; `leakage.json` is of 1.9.1."""
import json
import pathlib
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import sklearn
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.feature_selection._mutual_info import _compute_mi_cc, _compute_mi_cd

warnings.filterwarnings("ignore")
here = pathlib.Path(__file__).parent
ORDERS = 12


def entry(task):
    """Test rows that are right, for the rows in their order and in some others."""
    name, concept, code, split = task
    codes = np.load(here / name / "codes.npy").astype(float)
    labels = np.load(here / name / "labels.npy")
    test = np.array(json.loads((here / name / "metrics.json").read_text())["r4"]["test_idx"][split])
    train = np.setdiff1d(np.arange(len(codes)), test)
    random = np.random.default_rng(0)
    right = []
    for number in range(ORDERS):
        order = train if number == 0 else random.permutation(train)
        model = GradientBoostingClassifier().fit(codes[order, code : code + 1], labels[order, concept])
        right.append(int((model.predict(codes[test, code : code + 1]) == labels[test, concept]).sum()))
    return [min(right), max(right)], right[0]


def orders():
    out = {"scikit-learn": sklearn.__version__, "orders": ORDERS}
    for name in ["binary", "multi"]:
        expected = json.loads((here / name / "metrics.json").read_text())["r4"]
        known = np.array(expected["score_code_to_concept"])
        splits, rows = len(expected["test_idx"]), len(expected["test_idx"][0])
        concepts = np.load(here / name / "labels.npy").shape[1]
        tasks = [(name, c, k, s) for c in range(concepts) for k in range(5) for s in range(splits)]
        with ProcessPoolExecutor(2) as pool:
            found = list(pool.map(entry, tasks, chunksize=5))
        same = sum(abs(first / rows - value) < 1e-9 for (_, first), value in zip(found, known.ravel()))
        print(name, "equal to metrics.json:", same, "of", len(found), file=sys.stderr)
        print(name, "entries that depend on the order:", sum(low < high for (low, high), _ in found), file=sys.stderr)
        print(name, "largest range:", max(high - low for (low, high), _ in found), "of", rows, file=sys.stderr)
        out[name] = {"test_rows": rows, "right": [limits for limits, _ in found]}
    return out


def leakage():
    random = np.random.default_rng(20261)
    cases = [
        (
            [0.1, 0.4, 0.35, 0.8, 0.9, 0.55, 0.2, 0.7],
            [0.2, 0.5, 0.3, 0.75, 0.95, 0.4, 0.1, 0.85],
            [0, 0, 0, 1, 1, 1, 0, 1],
        )
    ]
    # Numbers on a grid, whose distances are tied, in classes of 1 to 8 rows; then numbers without ties.
    sizes = np.repeat(np.arange(8), np.arange(1, 9))
    cases.append(((random.integers(0, 40, 36) / 40), (random.integers(0, 40, 36) / 40), sizes))
    x = random.normal(size=300)
    cases.append((x, 0.6 * x + random.normal(size=300), (x + random.normal(size=300) > 0.3).astype(int)))
    cases.append((x, np.tanh(x), random.integers(0, 60, 300)))
    out = {"scikit-learn": sklearn.__version__, "cases": []}
    for x, y, classes in cases:
        x, y, classes = np.array(x, float), np.array(y, float), np.array(classes)
        out["cases"].append(
            {
                "x": x.tolist(),
                "y": y.tolist(),
                "classes": classes.tolist(),
                "numbers": float(_compute_mi_cc(x, y, 3)),
                "number_and_class": float(_compute_mi_cd(x, classes, 3)),
            }
        )
    return out


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1])
    made = leakage() if "leakage" in target.name else orders()
    target.write_text(json.dumps(made) + "\n")
