"""Makes a small ensemble with the layout of DreamSim's release and its vectors, with the networks of the released package (vision_transformer.py)."""
import json, os, sys
from functools import partial
import numpy as np
import torch
from vision_transformer import VisionTransformer

torch.manual_seed(7)
OUT = sys.argv[1]
os.makedirs(f"{OUT}/checkpoints", exist_ok=True)
os.makedirs(f"{OUT}/ensemble_lora", exist_ok=True)
WIDTH, DEPTH, SIDE, RANK, ALPHA, PROJ = 64, 2, 16, 4, 2, 24

class QuickGELU(torch.nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(1.702 * x)

def network():
    net = VisionTransformer(img_size=[SIDE], patch_size=4, embed_dim=WIDTH, depth=DEPTH, num_heads=1, mlp_ratio=1, qkv_bias=True,
                            norm_layer=partial(torch.nn.LayerNorm, eps=1e-6))
    return net

def draw(net):
    for parameter in net.parameters():
        parameter.data = (torch.randn_like(parameter) * 0.15 + (1.0 if parameter.ndim == 1 and parameter.std() == 0 and parameter.mean() == 1 else 0.0)).half().float()

def halves(state):
    return {name: value.half() for name, value in state.items()}

dino, clip, open_clip = network(), network(), network()
for net in (clip, open_clip):
    net.pos_drop = torch.nn.LayerNorm(WIDTH)
for net in (dino, clip, open_clip):
    draw(net)
projections = [None, (torch.randn(WIDTH, PROJ) * 0.2).half().float(), (torch.randn(WIDTH, PROJ) * 0.2).half().float()]
torch.save(halves(dino.state_dict()), f"{OUT}/checkpoints/dino_vitbase16_pretrain.pth")
for name, net, projection in (("clip", clip, projections[1]), ("open_clip", open_clip, projections[2])):
    torch.save({"state_dict": halves({**net.state_dict(), "proj": projection})}, f"{OUT}/{name}_vitb16_pretrain.pth.tar")
for block in clip.blocks:
    block.mlp.act = QuickGELU()
for net in (clip, open_clip):
    for module in net.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 1e-5

adapter = {}
for index, net in enumerate((dino, clip, open_clip)):
    for layer, block in enumerate(net.blocks):
        a, b = (torch.randn(RANK, WIDTH) * 0.2).half().float(), (torch.randn(3 * WIDTH, RANK) * 0.2).half().float()
        stem = f"base_model.model.extractor_list.{index}.model.blocks.{layer}.attn.qkv"
        adapter[f"{stem}.lora_A.weight"], adapter[f"{stem}.lora_B.weight"] = a.half(), b.half()
        class Changed(torch.nn.Module):
            def __init__(self, inner, a, b):
                super().__init__()
                self.inner, self.a, self.b = inner, a, b
            def forward(self, x):
                return self.inner(x) + (ALPHA / RANK) * (x @ self.a.T @ self.b.T)
        block.attn.qkv = Changed(block.attn.qkv, a, b)
torch.save(adapter, f"{OUT}/ensemble_lora/adapter_model.bin")
json.dump({"r": RANK, "lora_alpha": ALPHA, "lora_dropout": 0.3, "bias": "none", "target_modules": ["qkv"], "peft_type": "LORA"},
          open(f"{OUT}/ensemble_lora/adapter_config.json", "w"), indent=1)

pixels = np.random.default_rng(7).integers(0, 256, (3, SIDE, SIDE, 3), dtype=np.uint8)
images = torch.tensor(pixels.astype(np.float32) / 255).permute(0, 3, 1, 2)
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
CLIP = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))
parts = []
with torch.no_grad():
    for net, (mean, std), projection in ((dino, IMAGENET, None), (clip, CLIP, projections[1]), (open_clip, CLIP, projections[2])):
        net.eval()
        x = (images - torch.tensor(mean)[:, None, None]) / torch.tensor(std)[:, None, None]
        if projection is None:
            kept = []
            net.blocks[-1].register_forward_hook(lambda module, inputs, output: kept.append(output))
            net(x)
            parts.append(kept[0][:, 0])
        else:
            parts.append(net(x) @ projection)
    embed = torch.cat(parts, dim=-1)
    embed = (embed.T - embed.mean(dim=1)).T
    embed = (embed.T / embed.norm(dim=1)).T
np.save(f"{OUT}/images.npy", pixels)
np.save(f"{OUT}/vectors.npy", embed.numpy())

