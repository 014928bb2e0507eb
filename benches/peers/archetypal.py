"""One step of overcomplete's relaxed archetypal dictionary, with the size of benches/src/bin/archetypal.rs."""
import json
import resource
import time

import torch

from turns import BATCH, KEEP, WIDTH, batches, without

without("overcomplete")
from overcomplete.sae import TopKSAE, train_sae  # noqa: E402
from overcomplete.sae.archetypal_dictionary import RelaxedArchetypalDictionary  # noqa: E402

latents, candidates, steps = 32_000, 4_000, 3
data = torch.cat(batches(-(-candidates // BATCH)))
model = TopKSAE(WIDTH, latents, KEEP)
model.dictionary = RelaxedArchetypalDictionary(WIDTH, latents, data[:candidates], delta=1.0)
adam = torch.optim.Adam(model.parameters(), lr=1e-3)


def error(rows, reconstruction, *_):
    return (rows - reconstruction).square().mean()


best = float("inf")
for step in range(steps):
    rows = data[step * BATCH : (step + 1) * BATCH]
    began = time.perf_counter()
    train_sae(model, [rows], error, adam, nb_epochs=1, clip_grad=1.0, monitoring=0)
    best = min(best, time.perf_counter() - began)
gigabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
how = f"overcomplete 0.3.0 on PyTorch {torch.__version__}, peak memory {gigabytes:.2f} GB"
print(json.dumps({"seconds": best, "how": how}))
