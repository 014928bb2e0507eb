"""Creates a 4 GB array if it does not exist, then copies it through memory maps and sums it, block by block."""
import json
import os
import sys
import time

import numpy as np

source, target = sys.argv[1], sys.argv[2]
rows, width = 1_300_000, 768
if not os.path.exists(source):
    array = np.lib.format.open_memmap(source, mode="w+", dtype=np.float32, shape=(rows, width))
    random = np.random.default_rng(0)
    for first in range(0, rows, 50_000):
        block = array[first:first + 50_000]
        block[:] = random.standard_normal(block.shape, dtype=np.float32)
    array.flush()
if len(sys.argv) > 3:
    began = time.perf_counter()
    array = np.load(source, mmap_mode="r")
    copy = np.lib.format.open_memmap(target, mode="w+", dtype=np.float32, shape=array.shape)
    for first in range(0, rows, 50_000):
        copy[first:first + 50_000] = array[first:first + 50_000]
    copy.flush()
    total = sum(float(copy[first:first + 50_000].sum(dtype=np.float64)) for first in range(0, rows, 50_000))
    print(json.dumps({"seconds": time.perf_counter() - began, "how": "np.load(mmap_mode) to open_memmap, then a sum", "sum": total}))
    os.remove(target)
