"""Activations of gpt2 and gpt_neox with the weights as TransformerLens changes them by default (fold_ln, center_writing_weights,
center_unembed, fold_value_biases). Needs transformer-lens 2.15.4, transformers 4.5x, torch. Run in this folder."""
import json
import pathlib
import shutil
import tempfile

import numpy
import torch
from safetensors.torch import save_file
from transformer_lens import HookedTransformer, HookedTransformerConfig
from transformer_lens.pretrained.weight_conversions import convert_gpt2_weights, convert_neox_weights
from transformers import AutoModelForCausalLM

HOOKS = ["hook_resid_pre", "attn.hook_q", "attn.hook_k", "attn.hook_v", "attn.hook_z", "hook_attn_out", "hook_resid_mid",
         "mlp.hook_pre", "mlp.hook_post", "hook_mlp_out", "hook_resid_post"]


def settings(name, config):
    if name == "gpt2":
        heads, width = config["n_head"], config["n_embd"]
        return dict(n_layers=config["n_layer"], d_model=width, n_ctx=config["n_positions"], d_head=width // heads, n_heads=heads,
                    d_mlp=config["n_inner"], d_vocab=config["vocab_size"], act_fn=config["activation_function"],
                    eps=config["layer_norm_epsilon"], normalization_type="LN")
    heads, width = config["num_attention_heads"], config["hidden_size"]
    return dict(n_layers=config["num_hidden_layers"], d_model=width, n_ctx=config["max_position_embeddings"], d_head=width // heads,
                n_heads=heads, d_mlp=config["intermediate_size"], d_vocab=config["vocab_size"], act_fn=config["hidden_act"],
                eps=config["layer_norm_eps"], normalization_type="LN", parallel_attn_mlp=config["use_parallel_residual"],
                positional_embedding_type="rotary", rotary_dim=round(config["rotary_pct"] * width / heads),
                rotary_base=int(config["rotary_emb_base"]), rotary_adjacent_pairs=False)


for name, convert in (("gpt2", convert_gpt2_weights), ("gpt_neox", convert_neox_weights)):
    source = pathlib.Path("..") / name
    with tempfile.TemporaryDirectory() as folder:
        for file in source.glob("model*"):
            shutil.copy(file, folder)
        # The older keys, which this version of transformers reads.
        shutil.copy(source / "config_legacy_keys.json", pathlib.Path(folder) / "config.json")
        stored = AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float32, attn_implementation="eager")
    config = json.loads((source / "config_legacy_keys.json").read_text())
    made = HookedTransformerConfig(**settings(name, config), device="cpu", default_prepend_bos=False)
    model = HookedTransformer(made)
    model.load_and_process_state_dict(convert(stored, made), fold_ln=True, center_writing_weights=True, center_unembed=True,
                                      fold_value_biases=True, refactor_factored_attn_matrices=False)
    tokens = torch.from_numpy(numpy.load(source / "input_ids.npy"))
    with torch.no_grad():
        logits, cache = model.run_with_cache(tokens)
    values = {"logits": logits.reshape(-1, logits.shape[-1])}
    for layer in range(made.n_layers):
        for hook in HOOKS:
            key = f"blocks.{layer}.{hook}"
            if key in cache:
                values[key] = cache[key].reshape(tokens.numel(), -1)
    save_file({key: value.float().clone() for key, value in values.items()}, f"{name}.safetensors")
    print(name, len(values))
