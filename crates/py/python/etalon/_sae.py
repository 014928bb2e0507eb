"""Dictionaries."""

from __future__ import annotations

import html
import json
import os
from functools import cached_property
from typing import Any

import numpy as np

from . import _arrays, _etalon
from ._session import Progress, session


class SAE:
    """A sparse autoencoder or another dictionary.

    Made by :func:`etalon.load` and :func:`etalon.train`. Arrays have the shapes of SAELens: ``W_enc`` is width × latents and
    ``W_dec`` is latents × width.
    """

    def __init__(self, dictionary: _etalon.Dictionary) -> None:
        self._dictionary = dictionary

    @property
    def arch(self) -> str:
        """The name of the architecture."""
        return self._dictionary.arch

    @property
    def latents(self) -> int:
        """Number of latents."""
        return self._dictionary.sizes[0]

    @property
    def width(self) -> int:
        """Width of the activations that it reads."""
        return self._dictionary.sizes[1]

    @property
    def k(self) -> int | None:
        """Active latents per row, if their number is fixed."""
        return self._dictionary.k

    @property
    def site(self) -> str | None:
        """The site of the network that it reads, if its file records one."""
        return self._dictionary.site

    @property
    def id(self) -> str:
        """The content hash: equal dictionaries have equal ids."""
        return self._dictionary.id

    @property
    def format(self) -> str:
        """The detected format of its file."""
        return self._dictionary.recognised

    @property
    def notes(self) -> list[str]:
        """What a user must know about its file."""
        return self._dictionary.notes

    @cached_property
    def about(self) -> dict[str, Any]:
        """Other metadata of its file."""
        return json.loads(self._dictionary.about)

    @cached_property
    def W_dec(self) -> np.ndarray:
        """The decoder: latents × width of the output."""
        return self._dictionary.directions()

    @cached_property
    def W_enc(self) -> np.ndarray:
        """The encoder: width × latents."""
        return self._dictionary.encoder().T

    @cached_property
    def b_enc(self) -> np.ndarray:
        """The bias of every latent."""
        return self._dictionary.encoder_bias()

    def encode(self, x: Any, *, threads: int | None = None, memory: int | str | None = None, progress: Progress = False):
        """Encode activations.

        Parameters
        ----------
        x : array of shape (rows, width)
            NumPy, torch or anything with ``__dlpack__``; a ``float32`` array is not copied.
        threads : int, optional
            Number of threads; one per core by default. Results do not depend on it.
        memory : int or str, optional
            Memory limit, such as ``"2GB"``; 70 % of the machine by default.
        progress : bool or callable
            Whether to show a bar, or a function of ``(what, done, total, unit)``.

        Returns
        -------
        scipy.sparse.csr_array of shape (rows, latents)
        """
        from scipy.sparse import csr_array

        call = session(threads, memory, progress)
        rows = _arrays.rows(x, "x", call)
        offsets, indices, values = self._dictionary.encode(call, rows)
        return csr_array((values, indices, offsets), shape=(rows.shape[0], self.latents))

    def decode(self, z: Any, *, x: Any = None, threads: int | None = None, memory: int | str | None = None) -> np.ndarray:
        """Decode codes.

        Parameters
        ----------
        z : sparse or dense array of shape (rows, latents)
        x : array of shape (rows, width), optional
            The encoded activations: needed by dictionaries that normalise rows or have a skip connection.
        """
        call = session(threads, memory, False)
        source = None if x is None else _arrays.rows(x, "x", call)
        return self._dictionary.decode(call, _arrays.codes(z, "z", call), source)

    def save(self, path: str | os.PathLike, *, format: str = "etalon") -> None:
        """Write it to a new directory, in the format ``"etalon"`` or ``"saelens"``."""
        self._dictionary.save(session(None, None, False), os.fspath(path), format)

    def to_torch(self, *, device: Any = None) -> dict[str, Any]:
        """Its matrices as tensors of torch: ``W_enc``, ``W_dec`` and ``b_enc``."""
        import torch

        arrays = {"W_enc": self.W_enc, "W_dec": self.W_dec, "b_enc": self.b_enc}
        return {name: torch.tensor(np.ascontiguousarray(array), device=device) for name, array in arrays.items()}

    def __repr__(self) -> str:
        k = "" if self.k is None else f", k={self.k}"
        return f"SAE(arch={self.arch!r}, width={self.width}, latents={self.latents}{k})"

    def _repr_html_(self) -> str:
        rows = {"architecture": self.arch, "width": self.width, "latents": self.latents, "k": self.k, "site": self.site}
        cells = (f"<tr><th>{name}</th><td>{html.escape(str(value))}</td></tr>" for name, value in rows.items() if value is not None)
        return f"<table><caption>{html.escape(self.format)}</caption>{''.join(cells)}</table>"


def load(
    path: str | os.PathLike,
    *,
    settings: dict[str, Any] | None = None,
    memory: int | str | None = None,
) -> SAE:
    """Load a dictionary: SAELens, dictionary_learning, sparsify, Gemma Scope, Llama Scope, overcomplete or Etalon.

    Parameters
    ----------
    path : path
        A directory, a file of weights, or a name in the Hugging Face cache, ``"org/name[/path][@revision]"``. No code of
        the file is run and nothing is downloaded.
    settings : dict, optional
        Settings that the file does not contain, for dictionaries of overcomplete.
    memory : int or str, optional
        Memory limit, such as ``"2GB"``.
    """
    call = session(1, memory, False)
    return SAE(_etalon.Dictionary.load(call, os.fspath(path), json.dumps(settings or {})))
