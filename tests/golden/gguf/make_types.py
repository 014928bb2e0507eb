"""Writes types.gguf, with a tensor of every number type, and types.safetensors with the values that gguf-py reads from them.

Needs gguf and numpy. Run it in this folder.
"""

import json
import struct

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGUFWriter, quants
from gguf.constants import GGML_QUANT_SIZES

random = np.random.default_rng(20261117)
writer = GGUFWriter("types.gguf", "qwen2")
for key, value in dict(block_count=1, context_length=8, embedding_length=32, feed_forward_length=32).items():
    getattr(writer, f"add_{key}")(value)
writer.add_head_count(2)
writer.add_layer_norm_rms_eps(1e-6)
# One value of every type, and lists.
writer.add_uint8("test.uint8", 200)
writer.add_int8("test.int8", -100)
writer.add_uint16("test.uint16", 60000)
writer.add_int16("test.int16", -30000)
writer.add_uint32("test.uint32", 4000000000)
writer.add_int32("test.int32", -2000000000)
writer.add_uint64("test.uint64", 1 << 60)
writer.add_int64("test.int64", -(1 << 60))
writer.add_float32("test.float32", 0.25)
writer.add_float64("test.float64", 0.1)
writer.add_bool("test.bool", True)
writer.add_string("test.text", "zwölf")
writer.add_array("test.texts", ["a", "", "Ġb"])
writer.add_array("test.integers", [1, -2, 3])
writer.add_array("test.numbers", [0.5, -1.5])
writer.add_array("test.flags", [True, False])

# The byte of every scale of a block.
SCALES = {Type.Q2_K: [80, 82], Type.Q3_K: [108], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208]}
expected = {}


def add(name, raw, kind, shape):
    writer.add_tensor(name, raw, raw_dtype=kind)
    values = raw.astype(np.float32) if kind in (Type.F32, Type.F16) else quants.dequantize(raw, kind)
    expected[name] = values.reshape(shape).astype(np.float32)


add("token_embd.weight", random.normal(size=(5, 32)).astype(np.float32), Type.F32, (5, 32))
for kind in [Type.F32, Type.F16, Type.BF16, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0]:
    values = random.normal(size=(3, 64)).astype(np.float32)
    raw = values.astype(np.float16) if kind == Type.F16 else values if kind == Type.F32 else quants.quantize(values, kind)
    add(f"test.{kind.name}.weight", raw, kind, (3, 64))
# gguf-py cannot write these: arbitrary codes with sensible scales.
for kind, places in SCALES.items():
    values, size = GGML_QUANT_SIZES[kind]
    raw = random.integers(0, 256, (2, size), dtype=np.uint8)
    for row in raw:
        for place in places:
            row[place : place + 2] = np.frombuffer(np.float16(random.uniform(0.001, 0.1)).tobytes(), np.uint8)
    add(f"test.{kind.name}.weight", raw, kind, (2, values))
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()

header, data = {}, b""
for name, values in expected.items():
    bytes_ = np.ascontiguousarray(values).tobytes()
    header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [len(data), len(data) + len(bytes_)]}
    data += bytes_
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
with open("types.safetensors", "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + data)
