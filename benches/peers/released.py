"""Shared by the peers of SAEBench's evaluations: a TopK dictionary in dense PyTorch, the linear probe, synthetic data."""
import time

import torch

LATENTS, WIDTH, KEEP = 16_384, 768, 32
torch.manual_seed(0)
torch.set_num_threads(2)
torch.set_grad_enabled(False)


class Dictionary:
    def __init__(self):
        self.decoder = torch.nn.functional.normalize(torch.randn(LATENTS, WIDTH), dim=1)

    def encode(self, rows):
        pre = rows @ self.decoder.t()
        values, indices = pre.topk(KEEP, dim=1)
        return torch.zeros_like(pre).scatter_(1, indices, values.relu())

    def decode(self, codes):
        return codes @ self.decoder


def encode_all(dictionary, rows, batch=1000):
    return torch.cat([dictionary.encode(rows[start : start + batch]) for start in range(0, len(rows), batch)])


def classes(rows, count):
    """Rows of mutually exclusive classes: the class direction plus twenty others."""
    directions = torch.randn(2048, WIDTH) / WIDTH**0.5
    own = torch.arange(rows) % count
    others = torch.randint(count + 1, 2048, (rows, 20))
    return directions[own] * 1.5 + (directions[others] * (1 + torch.rand(rows, 20, 1))).sum(1), own


@torch.enable_grad()
def probe(trained, truth, tested, answers, batch, epochs, rate, absolute, patience):
    """The released linear probe: AdamW, keeping the epoch that is best on the test rows."""
    # Several threads slow down steps of a few rows.
    torch.set_num_threads(1 if batch < 100 else 2)
    layer = torch.nn.Linear(trained.shape[1], 1)
    adam = torch.optim.AdamW(layer.parameters(), lr=rate)
    loss_of = torch.nn.BCEWithLogitsLoss()
    best, best_right, idle = None, 0.0, 0
    for _ in range(epochs):
        order = torch.randperm(len(trained))
        for start in range(0, len(trained), batch):
            chosen = order[start : start + batch]
            loss = loss_of(layer(trained[chosen])[:, 0], truth[chosen].float())
            if absolute:
                loss = loss + absolute * layer.weight.abs().sum()
            adam.zero_grad()
            loss.backward()
            adam.step()
        with torch.no_grad():
            right = ((layer(tested)[:, 0] > 0) == answers).float().mean().item()
        idle += 1
        if right > best_right:
            best, best_right, idle = [value.detach().clone() for value in layer.parameters()], right, 0
        if idle >= patience:
            break
    torch.set_num_threads(2)
    return best, best_right


class Clock:
    """Seconds of measured parts, each multiplied by its number of occurrences in the whole protocol."""

    def __init__(self):
        self.total, self.parts = 0.0, []

    def measure(self, name, times, work):
        began = time.perf_counter()
        result = work()
        seconds = time.perf_counter() - began
        self.total += times * seconds
        self.parts.append(f"{name} {seconds:.2f} s x {times}")
        return result
