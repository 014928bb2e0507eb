"""Arrays and tables of other libraries as inputs."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from . import _etalon
from ._errors import wrong

#: Bytes that are converted at a time.
BLOCK = 64 << 20


def is_path(value: Any) -> bool:
    """Whether a value names a file."""
    return isinstance(value, (str, os.PathLike))


def is_table(value: Any) -> bool:
    """Whether a value is a data frame of pandas, polars or another library with the same protocol."""
    return hasattr(value, "columns") and (hasattr(value, "to_numpy") or hasattr(value, "__dataframe__"))


def is_sparse(value: Any) -> bool:
    """Whether a value is a sparse array of SciPy."""
    return hasattr(value, "tocsr") and hasattr(value, "nnz")


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor of torch."""
    return type(value).__module__.split(".")[0] == "torch" and hasattr(value, "detach")


def shape_of(value: Any, name: str) -> tuple[int, ...]:
    """The shape of an array of any library."""
    if not hasattr(value, "shape"):
        value = np.asarray(value)
    shape = tuple(int(size) for size in value.shape)
    if not shape:
        raise wrong(f"`{name}` is not an array", expected="rows of numbers", found=type(value).__name__)
    return shape


def block_of(value: Any, rows: slice) -> np.ndarray:
    """Some rows as an array of NumPy, whatever device and number type they have."""
    part = value[rows]
    if is_tensor(part):
        return part.detach().to(device="cpu").float().contiguous().numpy()
    if not isinstance(part, np.ndarray) and hasattr(part, "__dlpack__"):
        part = np.from_dlpack(part)
    return np.asarray(part)


def numbers(value: Any, name: str, session: _etalon.Session, dimensions: tuple[int, ...] = (2,)) -> np.ndarray:
    """Rows of numbers as a contiguous array of ``float32``: the array itself if it is one, otherwise a converted copy.

    A copy that does not fit into the memory limit is written to a temporary file, which is mapped.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise wrong(
            f"`{name}` is a masked array",
            expected="an array without missing values",
            help="fill or drop the masked values first",
        )
    if is_table(value):
        value = value.to_numpy()
    if isinstance(value, (list, tuple)):
        value = np.asarray(value)
    shape = shape_of(value, name)
    if len(shape) not in dimensions:
        text = " or ".join(str(count) for count in dimensions)
        raise wrong(f"`{name}` has the wrong number of dimensions", expected=text, found=f"{len(shape)}, shape {shape}")
    if isinstance(value, np.ndarray) and value.dtype.kind not in "fiub":
        raise wrong(f"`{name}` is not an array of numbers", expected="a number type", found=f"dtype {value.dtype}")
    if isinstance(value, np.ndarray) and value.dtype == np.float32 and value.flags.c_contiguous and value.flags.aligned:
        return value
    size = int(np.prod(shape)) * 4
    out = np.empty(shape, np.float32) if size <= session.memory_left() // 2 else mapped(shape)
    step = max(1, BLOCK // max(1, size // max(1, shape[0])))
    for start in range(0, shape[0], step):
        out[start : start + step] = block_of(value, slice(start, start + step))
    return out


def mapped(shape: tuple[int, ...]) -> np.ndarray:
    """An array in a temporary file, which is removed with the array."""
    file = tempfile.TemporaryFile(prefix="etalon-")
    return np.memmap(file, dtype=np.float32, mode="w+", shape=shape)


def rows(value: Any, name: str, session: _etalon.Session) -> _etalon.Rows:
    """Activations. An array of three dimensions has tokens of samples; its rows know their sample."""
    array = numbers(value, name, session, (2, 3))
    if array.ndim == 2:
        return _etalon.Rows(np.asarray(array), None)
    samples, tokens, width = array.shape
    index = np.repeat(np.arange(samples, dtype=np.uint32), tokens)
    return _etalon.Rows(np.asarray(array).reshape(samples * tokens, width), index)


def codes(value: Any, name: str, session: _etalon.Session) -> _etalon.Codes:
    """Codes from a sparse or a dense array."""
    if not is_sparse(value):
        return _etalon.Codes.dense(session, np.asarray(numbers(value, name, session)))
    matrix = value.tocsr()
    if len(matrix.shape) != 2:
        raise wrong(f"`{name}` has the wrong number of dimensions", expected="2", found=str(len(matrix.shape)))
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return _etalon.Codes.sparse(
        session,
        np.ascontiguousarray(matrix.indptr, np.int64),
        np.ascontiguousarray(matrix.indices, np.int64),
        np.ascontiguousarray(matrix.data, np.float32),
        int(matrix.shape[1]),
    )


def labels(value: Any, name: str) -> _etalon.Labels:
    """Concepts from a table with a column per concept, or from an array of 0, 1 and -1 (not annotated)."""
    if is_table(value):
        names = [str(column) for column in value.columns]
        columns = [column_of(value, column, name) for column in value.columns]
        array = np.stack(columns, axis=1) if columns else np.empty((len(value), 0))
    else:
        if is_tensor(value):
            value = value.detach().cpu().numpy()
        array = np.asarray(value)
        if array.ndim != 2:
            found = f"{array.ndim}, shape {array.shape}"
            raise wrong(f"`{name}` has the wrong number of dimensions", expected="2", found=found)
        names = [str(column) for column in range(array.shape[1])]
        array = checked(array, name, "the array")
    return _etalon.Labels(names, np.ascontiguousarray(array, np.int8))


def column_of(table: Any, column: Any, name: str) -> np.ndarray:
    """A column of a table as 0, 1 and -1."""
    values = table[column]
    values = values.to_numpy(dtype=object) if hasattr(values, "array") else np.asarray(values.to_list(), dtype=object)
    return checked(values, name, f"column `{column}`")


def checked(values: np.ndarray, name: str, where: str) -> np.ndarray:
    """Labels as 0, 1 and -1; missing values are -1."""
    try:
        numbers = np.array([missing(value) for value in values.ravel()], dtype=np.float64) if values.dtype == object else values
        numbers = np.asarray(numbers, dtype=np.float64).reshape(values.shape)
    except (TypeError, ValueError):
        example = next(value for value in values.ravel() if not isinstance(value, (bool, int, float, np.number)))
        raise wrong(
            f"`{name}` has a value that is not 0 or 1",
            expected="0, 1 or nothing (not annotated)",
            found=f"{example!r} in {where}",
            help="make one column per class, for example with pandas.get_dummies",
        ) from None
    numbers = np.where(np.isnan(numbers), -1.0, numbers)
    other = ~np.isin(numbers, (-1.0, 0.0, 1.0))
    if other.any():
        raise wrong(
            f"`{name}` has a value that is not 0 or 1",
            expected="0, 1 or -1 (not annotated)",
            found=f"{numbers[other].flat[0]:g} in {where}",
            help="make one column per class",
        )
    return numbers.astype(np.int8)


def missing(value: Any) -> float:
    """A number; not a number for missing values of all kinds."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return float("nan")
    return float(value)


def write(value: Any, name: str, folder: Path, session: _etalon.Session) -> str:
    """Writes an array or a table to a file that the library reads: for inputs that have no faster way."""
    if is_table(value):
        path = folder / f"{name}.csv"
        if hasattr(value, "to_csv"):
            value.to_csv(path, index=False)
        elif hasattr(value, "write_csv"):
            value.write_csv(path)
        else:
            raise wrong(f"`{name}` is a table of an unknown library", expected="a data frame of pandas or polars")
        return str(path)
    path = folder / f"{name}.npy"
    array = block_of(value, slice(None)) if hasattr(value, "shape") else np.asarray(value)
    if array.dtype == object:
        raise wrong(f"`{name}` is not an array of numbers", expected="an array, a table or a path", found=type(value).__name__)
    np.save(path, array)
    return str(path)
