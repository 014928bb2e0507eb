"""Interleaved measurements of a peer: reads the name of a measurement, runs it once, and prints its wall-clock and processor
seconds."""
import importlib.util
import sys
import time
import types

import torch

WIDTH, BATCH, KEEP = 768, 1024, 32
torch.set_num_threads(2)


def batches(count=4):
    """Rows that are sums of twenty of 2,048 directions plus noise."""
    random = torch.Generator().manual_seed(0)
    directions = (torch.rand(2048, WIDTH, generator=random) - 0.5) * (12 / WIDTH) ** 0.5
    made = []
    for _ in range(count):
        which = torch.randint(2048, (BATCH, 20), generator=random)
        weights = 1 + torch.rand(BATCH, 20, 1, generator=random)
        noise = 0.02 * (torch.rand(BATCH, WIDTH, generator=random) - 0.5)
        made.append((directions[which] * weights).sum(1) + noise)
    return made


def without(package, *names):
    """Skips the top-level imports of a package, which a training step does not need."""
    found = importlib.util.find_spec(package)
    bare = types.ModuleType(package)
    bare.__path__ = list(found.submodule_search_locations)
    sys.modules[package] = bare
    for name in names:
        sys.modules[name] = types.ModuleType(name)


def serve(make):
    """Measures until the input ends. `make` is called when a name first occurs."""
    answers, made, step = sys.stdout, {}, {}
    sys.stdout = sys.stderr
    data = batches()
    for line in sys.stdin:
        name = line.strip()
        if name not in made:
            made[name], step[name] = make[name](), 0
        began, before = time.perf_counter(), time.process_time()
        made[name](step[name], data[step[name] % len(data)])
        print(time.perf_counter() - began, time.process_time() - before, file=answers, flush=True)
        step[name] += 1
