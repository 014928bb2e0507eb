"""Writes the tables beside this script. Needs pyarrow (made with 26.0.1)."""

import pathlib

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet

here = pathlib.Path(__file__).parent
image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
table = pa.table(
    {
        "id": pa.array(["a", "b", "c", "d", "e"]),
        "text": pa.array(["one", None, "", "a text of more than twelve bytes", "żółw"]),
        "n": pa.array([1, -2, None, 4, 5], pa.int16()),
        "score": pa.array([0.5, 1.5, None, -2.0, 1e9], pa.float64()),
        "yes": pa.array([True, False, None, True, True]),
        "tags": pa.array([["x", "y"], [], None, ["z", None], ["x"]], pa.list_(pa.string())),
        "ids": pa.array([[1], [2, 3], [], None, [4]], pa.list_(pa.int32())),
        "image": pa.array([{"bytes": b"\xff\x00", "path": "a.png"}, None, {"bytes": None, "path": "c"}] * 2, image)[:5],
        "class": pa.array(["cat", "dog", "cat", None, "dog"]).dictionary_encode(),
        "day": pa.array([0, 1, 2, 3, 4], pa.date32()),
        "nothing": pa.nulls(5),
        "pairs": pa.array([[[1, 2]], [], None, [[3]], [[]]], pa.list_(pa.list_(pa.int32()))),
    }
)
views = table.set_column(1, "text", table["text"].cast(pa.string_view()))
views = views.set_column(0, "id", views["id"].cast(pa.large_string()))
pyarrow.feather.write_feather(table, here / "lz4.feather", chunksize=3)
pyarrow.feather.write_feather(views, here / "zstd.feather", compression="zstd", chunksize=2)
with pa.OSFile(str(here / "stream.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
    writer.write_table(table, max_chunksize=2)
pyarrow.parquet.write_table(table, here / "table.parquet", row_group_size=3, store_schema=False)
