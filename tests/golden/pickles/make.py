"""Writes the files of this folder: torch checkpoints in the old format and in the zip format, and pickles of numpy arrays.

Needs torch and numpy. Every file has the tensors of expected.json, in its own number types and memory layouts.
"""

import json
import pickle
from collections import OrderedDict

import numpy as np
import torch

numbers = np.arange(24, dtype=np.float32).reshape(4, 6) / 8 - 1
tensors = OrderedDict(
    {
        "plain": torch.tensor(numbers),
        "transposed": torch.tensor(numbers).t(),
        "half": torch.tensor(numbers[:2]).half(),
        "brain": torch.tensor(numbers[2:]).bfloat16(),
        "double": torch.tensor(numbers[:, 1]).double(),
        "long": torch.tensor([[3, -4, 1 << 20]]),
        "single": torch.tensor(2.5),
    }
)
shared = torch.tensor(numbers)
tensors["shared.first"] = shared[:1]
tensors["shared.columns"] = shared[:, 2:4]
tensors["parameter"] = torch.nn.Parameter(torch.tensor(numbers[0]))
expected = {name: {"shape": list(t.shape), "values": t.detach().double().flatten().tolist()} for name, t in tensors.items()}
torch.save(tensors, "zip.pth")
torch.save(tensors, "old.pth", _use_new_zipfile_serialization=False)

arrays = {
    "net": {
        "kernel": numbers,
        "fortran": np.asfortranarray(numbers),
        "half": numbers.astype("<f2"),
        "double": numbers[::2].astype(">f8"),
        "bytes": np.array([0, 127, 128, 255], dtype=np.uint8),
        "empty": np.zeros((0, 3), dtype=np.float32),
        "single": np.array(2.5, dtype=np.float32),
    },
    "step": 7,
    "loss": np.float64(0.25),
}
for name, array in arrays["net"].items():
    expected[f"net.{name}"] = {"shape": list(array.shape), "values": array.astype(np.float64).flatten().tolist()}
for protocol in range(2, 6):
    with open(f"arrays{protocol}.pkl", "wb") as file:
        pickle.dump(arrays, file, protocol=protocol)
with open("expected.json", "w") as file:
    json.dump(expected, file, indent=1)
