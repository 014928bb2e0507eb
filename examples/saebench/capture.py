"""Captures activations of a small language model with PyTorch, for Etalon.

    python capture.py data/minilm data/bbc data/bbc-activations     # every token of every article
    python capture.py data/minilm data/words data/word-activations  # the last word of every prompt

Writes `activations.safetensors` (one row per token). For articles it also writes `samples.npy` (the article of each row) and
`labels.csv` (the topic of each article, and whether its tokens contain a currency sign or digits); for words `labels.csv`
(the first letter of each word).
"""

import argparse
import csv
import json
from pathlib import Path

import numpy
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer


class Bert:
    """The residual stream of a BERT encoder after the first `layers` layers."""

    def __init__(self, folder: Path, layers: int) -> None:
        self.weights = load_file(folder / "model.safetensors")
        self.heads = json.loads((folder / "config.json").read_text())["num_attention_heads"]
        self.layers = layers

    def linear(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return torch.nn.functional.linear(x, self.weights[name + ".weight"], self.weights[name + ".bias"])

    def norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        weight, bias = self.weights[name + ".weight"], self.weights[name + ".bias"]
        return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, 1e-12)

    def attention(self, x: torch.Tensor, mask: torch.Tensor, name: str) -> torch.Tensor:
        batch, length, width = x.shape
        split = lambda part: self.linear(x, f"{name}.{part}").view(batch, length, self.heads, -1).transpose(1, 2)
        query, key, value = (split(part) for part in ["query", "key", "value"])
        mixed = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None, :])
        return mixed.transpose(1, 2).reshape(batch, length, width)

    def __call__(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        names = [f"embeddings.{kind}_embeddings.weight" for kind in ["word", "position", "token_type"]]
        word, position, kind = (self.weights[name] for name in names)
        x = self.norm(word[ids] + position[: ids.shape[1]] + kind[0], "embeddings.LayerNorm")
        for layer in range(self.layers):
            name = f"encoder.layer.{layer}"
            attended = self.linear(self.attention(x, mask, f"{name}.attention.self"), f"{name}.attention.output.dense")
            x = self.norm(x + attended, f"{name}.attention.output.LayerNorm")
            hidden = torch.nn.functional.gelu(self.linear(x, f"{name}.intermediate.dense"))
            x = self.norm(x + self.linear(hidden, f"{name}.output.dense"), f"{name}.output.LayerNorm")
        return x


def write_labels(path: Path, classes: list[str], properties: dict[str, list[bool]]) -> None:
    names = sorted(set(classes))
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(names + list(properties))
        for row, one in enumerate(classes):
            table.writerow([int(one == name) for name in names] + [int(has[row]) for has in properties.values()])


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("texts", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=64, help="tokens per article")
    parser.add_argument("--words", type=int, default=8000, help="number of words, spread evenly over the vocabulary")
    arguments = parser.parse_args()
    model = Bert(arguments.model, arguments.layers)
    tokenizer = Tokenizer.from_file(str(arguments.model / "tokenizer.json"))
    prompts = arguments.texts / "prompts.jsonl"
    if prompts.exists():
        lines = [json.loads(line) for line in prompts.read_text(encoding="utf-8").splitlines()]
        lines = lines[:: max(1, len(lines) // arguments.words)][: arguments.words]
        texts, classes, longest = [line["prompt"] for line in lines], [line["word"].strip()[0].lower() for line in lines], 512
    else:
        files = sorted(arguments.texts.glob("*.txt"))
        texts = [file.read_text(encoding="utf-8", errors="replace") for file in files]
        classes, longest = ["topic/" + file.name.split("-")[0] for file in files], arguments.tokens + 2
    tokenizer.enable_truncation(longest)
    tokenizer.enable_padding()
    rows, samples, properties = [], [], {}
    for first in range(0, len(texts), 64):
        batch = tokenizer.encode_batch(texts[first : first + 64])
        ids = torch.tensor([one.ids for one in batch])
        mask = torch.tensor([one.attention_mask for one in batch], dtype=torch.bool)
        activations = model(ids, mask)
        for index, one in enumerate(batch):
            if prompts.exists():
                # "… word has the first letter: [SEP]": the word's last token is the sixth from the end.
                end = sum(one.attention_mask)
                rows.append(activations[index, end - 7 : end - 6])
            else:
                inside = [i for i, special in enumerate(one.special_tokens_mask) if not special]
                rows.append(activations[index, inside])
                samples += [first + index] * len(inside)
                used = texts[first + index][: one.offsets[inside[-1]][1]]
                properties.setdefault("has/money", []).append(any(sign in used for sign in "£$€"))
                properties.setdefault("has/digits", []).append(any(letter.isdigit() for letter in used))
    arguments.out.mkdir(parents=True, exist_ok=True)
    save_file({"activations": torch.cat(rows).contiguous()}, arguments.out / "activations.safetensors")
    write_labels(arguments.out / "labels.csv", classes, properties)
    if samples:
        numpy.save(arguments.out / "samples.npy", numpy.array(samples, dtype=numpy.int64))
    print(f"{sum(len(row) for row in rows)} rows of {rows[0].shape[-1]}, {len(texts)} texts")


main()
