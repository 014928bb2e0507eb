"""One run of a network by PyTorch. Makes the networks, writes their weights and some results to target/bench-data/networks, and
then measures. Argument: the number of samples of a batch."""
import json
import pathlib
import struct
import sys

import numpy
import torch
import torch.nn.functional as F
from torch import nn

from turns import serve

samples = int(sys.argv[1])
LENGTH, VOCABULARY, SIDE = 128, 49_152, 224
FOLDER = pathlib.Path("target/bench-data/networks")


class Attention(nn.Module):
    """Causal attention of SmolLM2-135M: 9 query heads, 3 key and value heads of 64 values."""

    def __init__(self):
        super().__init__()
        self.q_proj, self.o_proj = nn.Linear(576, 576, bias=False), nn.Linear(576, 576, bias=False)
        self.k_proj, self.v_proj = nn.Linear(576, 192, bias=False), nn.Linear(576, 192, bias=False)

    def forward(self, x, turn):
        batch, length, _ = x.shape
        heads = lambda linear, count: linear(x).view(batch, length, count, 64).transpose(1, 2)
        q, k, v = heads(self.q_proj, 9), heads(self.k_proj, 3), heads(self.v_proj, 3)
        z = F.scaled_dot_product_attention(rotate(q, turn), rotate(k, turn), v, is_causal=True, enable_gqa=True)
        return self.o_proj(z.transpose(1, 2).reshape(batch, length, 576))


def rotate(x, turn):
    cos, sin = turn
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(576, 1536, bias=False), nn.Linear(576, 1536, bias=False)
        self.down_proj = nn.Linear(1536, 576, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = nn.RMSNorm(576, 1e-5), nn.RMSNorm(576, 1e-5)
        self.self_attn, self.mlp = Attention(), Perceptron()

    def forward(self, x, turn):
        x = x + self.self_attn(self.input_layernorm(x), turn)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """SmolLM2-135M, with the names of Hugging Face."""

    def __init__(self):
        super().__init__()
        self.embed_tokens, self.norm = nn.Embedding(VOCABULARY, 576), nn.RMSNorm(576, 1e-5)
        self.layers = nn.ModuleList(Block() for _ in range(30))
        nn.init.normal_(self.embed_tokens.weight, std=0.1)
        angles = torch.arange(LENGTH).double()[:, None] * 100_000 ** (-torch.arange(0, 64, 2).double() / 64)
        angles = torch.cat((angles, angles), -1)
        self.turn = angles.cos().float(), angles.sin().float()

    def blocks(self, x, first, end):
        for layer in self.layers[first:end]:
            x = layer(x, self.turn)
        return x

    def forward(self, tokens):
        return self.norm(self.blocks(self.embed_tokens(tokens), 0, 30))


def norm(channels, eps):
    made = nn.BatchNorm2d(channels, eps)
    made.running_mean.uniform_(-0.1, 0.1)
    made.running_var.uniform_(0.5, 1.5)
    return made


class Bottleneck(nn.Module):
    def __init__(self, width, inner, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(width, inner, 1, bias=False), norm(inner, 1e-5)
        self.conv2, self.bn2 = nn.Conv2d(inner, inner, 3, stride, 1, bias=False), norm(inner, 1e-5)
        self.conv3, self.bn3 = nn.Conv2d(inner, 4 * inner, 1, bias=False), norm(4 * inner, 1e-5)
        self.relu = nn.ReLU(inplace=True)
        if stride != 1 or width != 4 * inner:
            self.downsample = nn.Sequential(nn.Conv2d(width, 4 * inner, 1, stride, bias=False), norm(4 * inner, 1e-5))
        else:
            self.downsample = nn.Identity()

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        return self.relu(self.bn3(self.conv3(y)).add_(self.downsample(x)))


class ResNet(nn.Module):
    """ResNet-50, with the names of torchvision."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1, self.relu = nn.Conv2d(3, 64, 7, 2, 3, bias=False), norm(64, 1e-5), nn.ReLU(inplace=True)
        self.maxpool, width = nn.MaxPool2d(3, 2, 1), 64
        for group, (blocks, inner) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512)), 1):
            layers = []
            for block in range(blocks):
                layers.append(Bottleneck(width, inner, 2 if group > 1 and block == 0 else 1))
                width = 4 * inner
            setattr(self, f"layer{group}", nn.Sequential(*layers))
        self.fc = nn.Linear(width, 1000)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def same(width, to, size, stride=1, groups=1):
    """A convolution with the padding `SAME` of TensorFlow and what comes before it: of maps with even sides, an odd line of zeros is
    after the map if the stride is 2."""
    padding = size // 2 if stride == 1 else 0
    conv, less = nn.Conv2d(width, to, size, stride, padding, groups=groups, bias=False), (size - 2) // 2
    pad = nn.Identity() if stride == 1 else nn.ZeroPad2d((less, size - 2 - less) * 2)
    return conv, pad


class Inverted(nn.Module):
    def __init__(self, width, to, size, stride, expand):
        super().__init__()
        inner = width * expand
        if expand > 1:
            self._expand_conv, self._bn0 = nn.Conv2d(width, inner, 1, bias=False), norm(inner, 1e-3)
        self._depthwise_conv, self.pad = same(inner, inner, size, stride, inner)
        self._bn1, self._bn2 = norm(inner, 1e-3), norm(to, 1e-3)
        self._project_conv = nn.Conv2d(inner, to, 1, bias=False)
        self._swish, self.expands, self.adds = nn.ReLU6(inplace=True), expand > 1, stride == 1 and width == to

    def forward(self, x):
        y = self._swish(self._bn0(self._expand_conv(x))) if self.expands else x
        y = self._swish(self._bn1(self._depthwise_conv(self.pad(y))))
        y = self._bn2(self._project_conv(y))
        return y.add_(x) if self.adds else y


class EfficientNet(nn.Module):
    """EfficientNet-Lite0, with the names of efficientnet-lite-pytorch."""

    def __init__(self):
        super().__init__()
        self._conv_stem, self.pad = same(3, 32, 3, 2)
        self._bn0, self._swish = norm(32, 1e-3), nn.ReLU6(inplace=True)
        blocks, width = [], 32
        groups = ((1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80), (3, 5, 1, 6, 112), (4, 5, 2, 6, 192),
                  (1, 3, 1, 6, 320))
        for repeats, size, stride, expand, to in groups:
            for block in range(repeats):
                blocks.append(Inverted(width, to, size, stride if block == 0 else 1, expand))
                width = to
        self._blocks = nn.Sequential(*blocks)
        self._conv_head, self._bn1 = nn.Conv2d(width, 1280, 1, bias=False), norm(1280, 1e-3)
        self._fc = nn.Linear(1280, 1000)

    def forward(self, x):
        x = self._blocks(self._swish(self._bn0(self._conv_stem(self.pad(x)))))
        return self._fc(self._swish(self._bn1(self._conv_head(x))).mean((2, 3)))


def write(path, tensors):
    """Writes a safetensors file."""
    header, at = {}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [at, at + 4 * tensor.numel()]}
        at += 4 * tensor.numel()
    text = json.dumps(header).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(tensor.detach().contiguous().numpy().tobytes())


torch.manual_seed(0)
llama, resnet, efficientnet = (network().eval().requires_grad_(False) for network in (Llama, ResNet, EfficientNet))
tokens = torch.arange(samples * LENGTH).mul(7919).remainder(VOCABULARY).view(samples, LENGTH)
targets = tokens.flatten().roll(-1)
# Whole steps, so that both programs compute them alike.
values = torch.arange(samples * SIDE * SIDE * 3).mul(7919).remainder(1013).float() / 317 - 1.5
images = values.view(samples, SIDE, SIDE, 3).permute(0, 3, 1, 2)
gradient = torch.ones(samples, LENGTH, 576)
with torch.inference_mode():
    middle = llama.blocks(llama.embed_tokens(tokens), 0, 15).clone()
    rows = llama(tokens).view(-1, 576).clone()


def run_head():
    with torch.inference_mode():
        return F.cross_entropy(F.linear(rows, llama.embed_tokens.weight), targets, reduction="none")


def run_gradient():
    x = middle.clone().requires_grad_(True)
    llama.norm(llama.blocks(x, 15, 30)).backward(gradient)
    return x.grad


def run_loss_gradient():
    x = middle.clone().requires_grad_(True)
    logits = F.linear(llama.norm(llama.blocks(x, 15, 30)).view(-1, 576), llama.embed_tokens.weight)
    F.cross_entropy(logits, targets).backward()
    return x.grad


def inference(network, input):
    def run():
        with torch.inference_mode():
            return network(input)

    return run


def folded(network):
    """The network without batch norms, which are in the weights of its convolutions."""
    from torch.fx.experimental.optimization import fuse

    return fuse(network)


def last(network):
    return network.to(memory_format=torch.channels_last)


# Tensors of the inference mode cannot be differentiated: these are copies outside of it.
middle, rows = middle.clone(), rows.clone()
pixels = images.to(memory_format=torch.channels_last)
runs = {
    "llama": lambda: inference(llama, tokens),
    "head": lambda: run_head,
    "gradient": lambda: run_gradient,
    "loss gradient": lambda: run_loss_gradient,
    "resnet": lambda: inference(last(resnet), pixels),
    "resnet folded": lambda: inference(last(folded(resnet)), pixels),
    "efficientnet": lambda: inference(last(efficientnet), pixels),
    "efficientnet folded": lambda: inference(last(folded(efficientnet)), pixels),
}

smollm = dict(hidden_size=576, num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3, intermediate_size=1536,
              vocab_size=VOCABULARY, rms_norm_eps=1e-5, rope_theta=100_000.0, max_position_embeddings=8192,
              tie_word_embeddings=True, model_type="llama", hidden_act="silu", architectures=["LlamaForCausalLM"],
              bos_token_id=1, eos_token_id=2)
write(FOLDER / "smollm2/model.safetensors", {f"model.{name}": tensor for name, tensor in llama.state_dict().items()})
(FOLDER / "smollm2/config.json").write_text(json.dumps(smollm))
for name, network in (("resnet", resnet), ("efficientnet", efficientnet)):
    tensors = {key: tensor for key, tensor in network.state_dict().items() if not key.endswith("num_batches_tracked")}
    write(FOLDER / name / "model.safetensors", tensors)
# What our program has to find too: the root mean square of every result.
expected = {name: float(run()().double().square().mean().sqrt()) for name, run in runs.items()}
(FOLDER / "expected.json").write_text(json.dumps(expected))
numpy.save(FOLDER / "middle.npy", middle.view(-1, 576).numpy())

serve({name: (lambda run: lambda: (lambda made: lambda *_: made())(run()))(run) for name, run in runs.items()})
