"""Writes the golden values of DISTS: the classes of DISTS_pytorch 0.1 on the small VGG16 of `networks/vgg16_features`.

Needs torch, torchvision, safetensors and DISTS_pytorch: python make.py
"""

import json
import pathlib

import numpy as np
import torch
from DISTS_pytorch.DISTS_pt import DISTS, L2pooling
from safetensors.numpy import load_file, save_file
from torch import nn

here = pathlib.Path(__file__).parent
weights = load_file(here.parent.parent / "networks" / "vgg16_features" / "model.safetensors")
layout = [64, 64, "M", 128, 128, "M", 256, 256, 256, "M", 512, 512, 512, "M", 512, 512, 512, "M"]

modules = []
for part in layout:
    index = len(modules)
    if part == "M":
        modules.append(None)
        continue
    weight = torch.tensor(weights[f"features.{index}.weight"])
    conv = nn.Conv2d(weight.shape[1], weight.shape[0], 3, padding=1)
    conv.weight.data, conv.bias.data = weight, torch.tensor(weights[f"features.{index}.bias"])
    modules += [conv, nn.ReLU()]

# The constructor downloads VGG16 and fixes its widths; the methods do not care.
model = DISTS.__new__(DISTS)
nn.Module.__init__(model)
borders, widths = [0, 4, 9, 16, 23, 30], []
for stage, (start, end) in enumerate(zip(borders, borders[1:]), 1):
    parts = modules[start:end]
    if parts[0] is None:
        parts[0] = L2pooling(channels=widths[-1])
    widths.append(parts[-2].weight.shape[0])
    setattr(model, f"stage{stage}", nn.Sequential(*parts))
model.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(1, -1, 1, 1))
model.register_buffer("std", torch.tensor([0.229, 0.224, 0.225]).view(1, -1, 1, 1))
model.chns = [3, *widths]
random = np.random.default_rng(616)
draw = lambda: random.uniform(0, 0.2, (1, sum(model.chns), 1, 1)).astype(np.float32)
heads = {"alpha": draw(), "beta": draw()}
model.alpha, model.beta = (nn.Parameter(torch.tensor(heads[name])) for name in ("alpha", "beta"))

images = random.uniform(0, 1, (3, 3, 37, 34)).astype(np.float32)
images[1] = np.clip(images[0] + random.normal(0, 0.05, images[0].shape), 0, 1)
pairs = [[0, 1], [0, 2], [1, 2], [2, 2]]
# In double precision: one minus a sum near one loses digits.
model, x = model.double(), torch.tensor(images).double()
distances = [model(x[a : a + 1], x[b : b + 1]).item() for a, b in pairs]
np.save(here / "images.npy", images)
save_file(heads, here / "heads.safetensors")
(here / "expected.json").write_text(json.dumps({"pairs": pairs, "distance": distances}, indent=1) + "\n")
print(distances)
