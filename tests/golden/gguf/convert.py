"""Converts the language models of ../networks to GGUF with the converter of llama.cpp, in float32 and without tokenizers.

    python convert.py PATH_OF_LLAMA_CPP

Needs torch, transformers and the gguf-py of llama.cpp. Run it in this folder. The models have no tokenizer, so that the
converter gets a made one where it counts tokens.
"""

import json
import pathlib
import shutil
import sys
import tempfile

llama_cpp = pathlib.Path(sys.argv[1])
sys.path[:0] = [str(llama_cpp), str(llama_cpp / "gguf-py")]

import gguf
import torch
from conversion import ModelType, get_model_architecture, get_model_class

for name in ["llama", "llama3_rope", "qwen2", "qwen3", "gemma2", "gemma3", "gpt2", "gpt_neox"]:
    source = pathlib.Path("../networks") / name
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for file in source.glob("*.safetensors*"):
            if file.name != "expected.safetensors":
                shutil.copy(file, folder)
        config = json.loads((source / "config_legacy_keys.json").read_text())
        if name == "gpt2":
            config["n_ctx"] = config["n_positions"]
        (folder / "config.json").write_text(json.dumps(config))
        tokens = {str(i): i for i in range(config["vocab_size"])}
        (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": tokens}, "added_tokens": []}))
        model_class = get_model_class(get_model_architecture(config, ModelType.TEXT))
        model_class.set_vocab = lambda self: None
        with torch.inference_mode():
            model_class(folder, gguf.LlamaFileType.ALL_F32, pathlib.Path(f"{name}.gguf"), model_name=name, hparams=config).write()
