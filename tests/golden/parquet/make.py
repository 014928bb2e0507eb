"""Writes the parquet files beside this script. Needs numpy and pyarrow (made with 26.0.1)."""

import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

here = pathlib.Path(__file__).parent
values = np.arange(1, 37, dtype="f4").reshape(12, 3)
columns = {f"c{column}": values[:, column].copy() for column in range(3)}
words = {"word": ["wing", "tail", "wing", None] * 3, "n": np.arange(12)}
pq.write_table(
    pa.table(columns), here / "plain.parquet",
    compression="none", use_dictionary=False, write_page_checksum=True, store_schema=False,
)
pq.write_table(
    pa.table(columns), here / "packed.parquet",
    compression="zstd", data_page_version="2.0", row_group_size=7, write_page_checksum=True, store_schema=False,
)
pq.write_table(
    pa.table(words), here / "words.parquet", compression="snappy", write_page_checksum=True, store_schema=False,
)
