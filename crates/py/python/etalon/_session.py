"""Threads, memory, progress of a call."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

from . import _etalon
from ._errors import wrong

UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}

Progress = bool | Callable[[str, int, int, str], None] | None


def memory_bytes(memory: int | str | None) -> int | None:
    """A number of bytes from a number or a text such as ``"2GB"``."""
    if memory is None or isinstance(memory, int):
        return memory
    found = re.fullmatch(r"\s*([0-9.]+)\s*([A-Za-z]*)\s*", str(memory))
    if found is None or found[2].upper() not in UNITS:
        raise wrong("`memory` is not a size", expected="bytes, or a text such as '2GB'", found=repr(memory))
    return int(float(found[1]) * UNITS[found[2].upper()])


def session(threads: int | None, memory: int | str | None, progress: Progress) -> _etalon.Session:
    """What a call of the compiled module needs."""
    return _etalon.Session(threads or 0, memory_bytes(memory), listener(progress))


def listener(progress: Progress) -> Callable[[str, int, int, str], None] | None:
    """The function that is told about progress: none, that of the caller, or a bar.

    ``None`` shows a bar in notebooks and terminals, if tqdm is installed.
    """
    if progress is None:
        progress = "ipykernel" in sys.modules or sys.stderr.isatty()
    if callable(progress):
        return progress
    if not progress:
        return None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return Bar(tqdm)


class Bar:
    """A bar of tqdm for every stage of the work."""

    def __init__(self, tqdm: type) -> None:
        self.tqdm = tqdm
        self.stage = None
        self.bar = None

    def __call__(self, what: str, done: int, total: int, unit: str) -> None:
        if self.stage != what or (self.bar is not None and done < self.bar.n):
            self.close()
            self.stage = what
            self.bar = self.tqdm(total=total or None, desc=what, unit=f" {unit}", unit_scale=True, leave=False)
        if total:
            self.bar.total = total
        self.bar.update(done - self.bar.n)
        if total and done >= total:
            self.close()

    def close(self) -> None:
        """Removes the bar."""
        if self.bar is not None:
            self.bar.close()
        self.bar = self.stage = None
