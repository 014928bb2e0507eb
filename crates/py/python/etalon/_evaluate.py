"""Evaluation."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from . import _arrays, _etalon
from ._errors import wrong
from ._sae import SAE
from ._scores import Scores
from ._session import Progress, session

#: Inputs that are rows of activations, codes and labels. All others are handed over in files.
ROWS = ("embeddings", "pair-embeddings", "directions", "similarity", "visualisations", "other")
CODES = ("codes", "pair-codes", "null")
LABELS = ("labels", "pair-labels")


@cache
def roles() -> dict[str, dict[str, str]]:
    """The inputs by key."""
    return {role["key"]: role for role in json.loads(_etalon.roles())}


@cache
def cards() -> dict[str, dict[str, Any]]:
    """The cards of all metrics by name."""
    return {card["name"]: card for card in json.loads(_etalon.metrics())}


def evaluate(
    metrics: str | Iterable[str],
    *,
    profile: str = "paper",
    seed: int = 0,
    params: Mapping[str, Mapping[str, Any]] | None = None,
    drop_rows: bool = False,
    threads: int | None = None,
    memory: int | str | None = None,
    progress: Progress = None,
    **inputs: Any,
) -> Scores:
    """Evaluate a representation with one or more metrics.

    Parameters
    ----------
    metrics : str or list of str
        Names of metrics; see :data:`etalon.metrics`.
    profile : {"paper", "reference"}
        The published definitions, or the numbers of the released programs.
    seed : int
        Seed of everything random.
    params : dict of dict, optional
        Parameters of metrics, such as ``{"match": {"k": [1, 3]}}``.
    drop_rows : bool
        Drop rows of ``embeddings`` with NaN or infinity from all inputs, instead of refusing them.
    threads : int, optional
        Number of threads; one per core by default. Results do not depend on it.
    memory : int or str, optional
        Memory limit, such as ``"2GB"``; 70 % of the machine by default.
    progress : bool or callable, optional
        Whether to show a bar, or a function of ``(what, done, total, unit)``. By default a bar in notebooks and terminals,
        if tqdm is installed.
    **inputs
        Inputs by name, such as ``codes``, ``sae``, ``embeddings``, ``labels`` or ``pairs``: paths as on the command line, or
        objects: arrays (NumPy, torch, ``__dlpack__``), sparse arrays of SciPy, data frames, an :class:`etalon.SAE`. Inputs
        that take several values take a list, those with names a dict. Arrays must not change during the call.

    Returns
    -------
    Scores
        A mapping from the names of the metrics to their results.

    Examples
    --------
    >>> scores = etalon.evaluate("match", codes=z, labels=labels)
    >>> scores["match"].match_score, scores["match"].interval
    """
    names = [metrics] if isinstance(metrics, str) else list(metrics)
    unknown = set(params or {}) - set(names)
    if unknown:
        raise wrong("`params` names a metric that is not evaluated", expected=", ".join(names), found=", ".join(sorted(unknown)))
    chosen = [(name, {key: text_of(value) for key, value in (params or {}).get(name, {}).items()}) for name in names]
    if profile not in ("paper", "reference"):
        raise wrong("the profile is unknown", expected="'paper' or 'reference'", found=repr(profile))
    call = session(threads, memory, progress)
    with tempfile.TemporaryDirectory(prefix="etalon-") as folder:
        given, present = split(inputs, call, Path(folder))
        results, notes = _etalon.evaluate(call, chosen, given, present, (profile, seed, drop_rows))
    return Scores([json.loads(result) for result in results], notes)


def text_of(value: Any) -> str:
    """A parameter as on the command line."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ",".join(text_of(item) for item in value)
    return str(value)


def split(inputs: dict[str, Any], call: _etalon.Session, folder: Path) -> tuple[list, list]:
    """Inputs in files, and inputs in memory."""
    given: list[tuple[str, str]] = []
    present: list[tuple[str, str, Any]] = []
    for name, value in inputs.items():
        key = name.replace("_", "-")
        if key not in roles():
            known = ", ".join(role.replace("-", "_") for role in roles())
            raise wrong(f"there is no input `{name}`", expected=known)
        if value is None:
            continue
        for number, (source, item) in enumerate(values_of(name, value, roles()[key]["many"])):
            if _arrays.is_path(item):
                given.append((key, f"{source}={item}" if source else str(item)))
            elif isinstance(item, SAE):
                present.append(of_dictionary(key, source, item))
            elif key in ROWS and not _arrays.is_sparse(item):
                present.append((key, source, _arrays.rows(item, name, call)))
            elif key in CODES:
                present.append((key, source, _arrays.codes(item, name, call)))
            elif key in LABELS and not has_ids(item):
                present.append((key, source, _arrays.labels(item, name)))
            elif key == "generated" and "sae" not in inputs:
                present.append((key, source, _arrays.codes(item, name, call)))
            else:
                path = _arrays.write(item, f"{key}-{number}", folder, call)
                given.append((key, f"{source}={path}" if source else path))
    return given, present


def of_dictionary(key: str, source: str, sae: SAE) -> tuple[str, str, Any]:
    """A dictionary as an input: itself, or its directions."""
    if key in ("other", "directions"):
        return key, source, _etalon.Rows(sae.W_dec, None)
    return key, source, sae._dictionary


def has_ids(value: Any) -> bool:
    """Whether a table has a column of row ids, which the reader of tables aligns."""
    return _arrays.is_table(value) and any(str(column) in ("id", "row") for column in value.columns)


def values_of(name: str, value: Any, many: str) -> list[tuple[str, Any]]:
    """The values of an input, each with its name if the input has names."""
    if many == "named":
        if not isinstance(value, Mapping):
            raise wrong(f"`{name}` takes a dict", expected="a dict from names to arrays or paths", found=type(value).__name__)
        return list(value.items())
    if many == "several" and isinstance(value, (list, tuple)):
        return [("", item) for item in value]
    return [("", value)]
