"""A peer that is measured in turns with others: it reads the name of a measure and answers with its seconds, by the clock
and by the processors."""
import importlib.util
import sys
import time
import types

import torch

WIDTH, BATCH, KEEP = 768, 1024, 32
torch.set_num_threads(2)


def batches(count=4):
    """Sums of twenty of 2,048 directions, and a little noise."""
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
    """Leaves out what a package imports at its top and a training does not need."""
    found = importlib.util.find_spec(package)
    bare = types.ModuleType(package)
    bare.__path__ = list(found.submodule_search_locations)
    sys.modules[package] = bare
    for name in names:
        sys.modules[name] = types.ModuleType(name)


def serve(make):
    """Answers until there are no more questions. What a name stands for is made when it is first asked for."""
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
