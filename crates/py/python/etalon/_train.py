"""Training."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import _arrays, _etalon
from ._evaluate import text_of
from ._sae import SAE
from ._session import Progress, session


def train(
    x: Any,
    *,
    arch: str = "topk",
    latents: int | None = None,
    k: int | None = None,
    seed: int = 0,
    steps: int | None = None,
    epochs: float | None = None,
    batch: int = 1024,
    lr: float | None = None,
    warmup: int | None = None,
    decay_start: int | None = None,
    clip: float | None = None,
    normalise: bool = False,
    preset: str = "etalon",
    callback: Callable[[dict[str, Any]], None] | None = None,
    log_every: int = 100,
    out: str | os.PathLike | None = None,
    threads: int | None = None,
    memory: int | str | None = None,
    progress: Progress = None,
    **params: Any,
) -> SAE:
    """Train a dictionary, or make a baseline.

    Parameters
    ----------
    x : array of shape (rows, width)
        Activations: NumPy, torch or anything with ``__dlpack__``; a ``float32`` array is not copied.
    arch : str
        Architecture or baseline; see :func:`etalon.archs`.
    latents : int, optional
        Number of latents; optional for baselines.
    k : int, optional
        Active latents per row, or the target of their mean for architectures that have one.
    seed : int
        Seed of weights and order. The same seed gives the same bytes for any number of threads.
    steps, epochs : int, float, optional
        Length of the training; ten epochs by default.
    batch : int
        Rows per step.
    lr, warmup, decay_start, clip : optional
        Learning rate, its warm-up, the step from which it decays, and the largest norm of the gradient. By default those
        of the preset.
    normalise : bool
        Divide inputs by the root mean square of their norms.
    preset : str
        Whose conventions to follow: ``"etalon"``, ``"dictionary-learning"``, ``"sae-concept-eval"``, ``"saelens"``,
        ``"blindspots"``.
    callback : callable, optional
        Is called every `log_every` steps with a dict: step, loss terms, explained variance, l0, dead, rate.
    out : path, optional
        Directory to keep the dictionary and its log in. A training that was interrupted resumes there.
    **params
        Parameters of the architecture by the name of their option, such as ``l1`` or ``target_l0``.

    Returns
    -------
    SAE
    """
    call = session(threads, memory, progress)
    rows = _arrays.rows(x, "x", call)
    wish = {
        "arch": arch,
        "latents": [] if latents is None else [latents],
        "k": [] if k is None else [k],
        "seed": seed,
        "preset": preset,
        "batch": batch,
        "steps": steps,
        "epochs": epochs,
        "lr": lr,
        "warmup": warmup,
        "decay_start": decay_start,
        "clip": clip,
        "normalise": normalise,
        "params": {name.replace("_", "-"): text_of(value) for name, value in params.items()},
        "log_every": log_every,
    }
    tell = None if callback is None else lambda line: callback(json.loads(line))
    if out is not None:
        return SAE(_etalon.train(call, rows, {**wish, "out": os.fspath(out)}, tell))
    with tempfile.TemporaryDirectory(prefix="etalon-") as folder:
        return SAE(_etalon.train(call, rows, {**wish, "out": str(Path(folder) / "sae")}, tell))


def archs() -> dict[str, dict[str, Any]]:
    """Architectures and baselines by name: summary, forward pass, loss, parameters."""
    return {card["name"]: card for card in json.loads(_etalon.archs())}
