"""Sparse probing, SCR and TPP as the released program does them, on dense codes: one class, one couple and one set of
latents of each kind are measured and multiplied by how many there are. Every sample is one token here, while the released
program encodes 128 tokens per sample."""
import json

import torch
from sklearn.linear_model import LogisticRegression

from released import Clock, Dictionary, classes, encode_all, probe

ROWS, CLASSES, COUPLES = 20_000, 5, 4
SIZES, COUNTS = [1, 2, 5, 10, 20, 50, 100], [2, 5, 10, 20, 50, 100, 500]
rows, own = classes(ROWS, CLASSES)
dictionary, clock = Dictionary(), Clock()
codes = encode_all(dictionary, rows)

# 2,000 positives and as many negatives to train on, 500 and 500 to test on.
positives, negatives = torch.where(own == 0)[0], torch.where(own != 0)[0]
train = torch.cat([positives[:2000], negatives[:2000]])
test = torch.cat([positives[2000:2500], negatives[2000:2500]])
truth, answers = own[train] == 0, own[test] == 0


def small(space):
    trained, tested = space[train], space[test]
    difference = (trained[truth].mean(0) - trained[~truth].mean(0)).abs()
    order = difference.argsort(descending=True)
    for size in SIZES:
        chosen = order[:size]
        model = LogisticRegression(max_iter=1000).fit(trained[:, chosen].numpy(), truth.numpy())
        model.score(tested[:, chosen].numpy(), answers.numpy())


def whole(space):
    probe(space[train], truth, space[test], answers, batch=250, epochs=100, rate=1e-2, absolute=0, patience=10)


def dense():
    found, _ = probe(rows[train], truth, rows[test], answers, batch=16, epochs=20, rate=1e-3, absolute=1e-3, patience=20)
    return found


def effects(weight):
    difference = codes[train][truth].mean(0) - codes[train][~truth].mean(0)
    return difference * (dictionary.decoder @ weight[0])


def ablate(where, order, count, weight, intercept):
    """Encodes and decodes again, in batches of 125 samples."""
    for at in range(0, len(where), 125):
        x = rows[where[at : at + 125]]
        f = dictionary.encode(x)
        error = x - dictionary.decode(f)
        f[:, order[:count]] = 0
        _ = ((dictionary.decode(f) + error) @ weight[0] + intercept) > 0


clock.measure("probes on a few latents of a class", CLASSES, lambda: small(codes))
clock.measure("on a few channels", CLASSES, lambda: small(rows))
clock.measure("probe on all latents", CLASSES, lambda: whole(codes))
clock.measure("on all channels", CLASSES, lambda: whole(rows))
# SCR trains three probes per couple that are used (the released program six), TPP one per class.
weight, intercept = clock.measure("probe of SCR and TPP", 3 * COUPLES + CLASSES, dense)
order = clock.measure("ranking of latents", 2 * COUPLES + CLASSES, lambda: effects(weight).argsort(descending=True))
clock.measure("SCR without a set of latents", 2 * COUPLES * len(COUNTS), lambda: ablate(test, order, 20, weight, intercept))
everywhere = torch.arange(500 * CLASSES)
clock.measure("TPP without a set", CLASSES * len(COUNTS), lambda: ablate(everywhere, order, 20, weight, intercept))
print(json.dumps({"seconds": clock.total, "how": "PyTorch and scikit-learn; " + ", ".join(clock.parts)}))
