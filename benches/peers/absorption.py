"""The latent selection of the released absorption program: a sparse probe for 26 classes on codes that are encoded again in
every epoch, then scikit-learn probes on one to ten latents per class, each on codes that are encoded again. One epoch and
two of the 260 probes are measured and multiplied. The probe on activations and the fractions are not counted."""
import json

import torch
from sklearn.linear_model import LogisticRegression

from released import LATENTS, Clock, Dictionary, classes, encode_all

CLASSES, EPOCHS, MOST, TRAINED = 26, 50, 10, 16_000
rows, own = classes(TRAINED, CLASSES)
truth = torch.nn.functional.one_hot(own, CLASSES).float()
dictionary, clock = Dictionary(), Clock()
layer = torch.nn.Linear(LATENTS, CLASSES)
adam = torch.optim.Adam(layer.parameters(), lr=1e-2, weight_decay=1e-6)
weights = (1 - truth).sum(0) / truth.sum(0)


@torch.enable_grad()
def epoch():
    loss_of = torch.nn.BCEWithLogitsLoss(pos_weight=weights)
    order = torch.randperm(TRAINED)
    for start in range(0, TRAINED, 4096):
        chosen = order[start : start + 4096]
        with torch.no_grad():
            codes = encode_all(dictionary, rows[chosen])
        loss = loss_of(layer(codes), truth[chosen]) + 0.01 * layer.weight.abs().sum(1).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()


def sparse_probe(label, k):
    codes = encode_all(dictionary, rows)
    chosen = layer.weight[label].topk(k).indices
    LogisticRegression(class_weight="balanced", max_iter=500).fit(codes[:, chosen].numpy(), (own == label).numpy())


clock.measure("epoch of the sparse probe", EPOCHS, epoch)
clock.measure("probe on one latent", CLASSES * MOST // 2, lambda: sparse_probe(0, 1))
clock.measure("probe on ten latents", CLASSES * MOST // 2, lambda: sparse_probe(1, 10))
print(json.dumps({"seconds": clock.total, "how": "PyTorch and scikit-learn; " + ", ".join(clock.parts)}))
