"""Photographs of scikit-image for `cargo xtask packaged`: as they are, as squares, and changed.

usage: photographs.py WHEEL DIRECTORY
"""
import io
import pathlib
import random
import sys
import zipfile

from PIL import Image, ImageFilter

NAMES = ["chelsea", "coffee", "motorcycle_left", "motorcycle_right"]


def square(image):
    """The square in the middle, of 224 pixels."""
    width, height = image.size
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    return image.crop((left, top, left + side, top + side)).resize((224, 224), Image.Resampling.BICUBIC)


wheel, directory = sys.argv[1], pathlib.Path(sys.argv[2])
for name in ["photographs", "framed", "pairs"]:
    (directory / name).mkdir(parents=True, exist_ok=True)
squares = {}
with zipfile.ZipFile(wheel) as archive:
    for name in NAMES:
        data = archive.read(f"skimage/data/{name}.png")
        (directory / "photographs" / f"{name}.png").write_bytes(data)
        squares[name] = square(Image.open(io.BytesIO(data)).convert("RGB"))
        # Networks resize to 256 pixels and take the 224 in the middle: a frame of 16 pixels is what they cut off.
        framed = Image.new("RGB", (256, 256))
        framed.paste(squares[name], (16, 16))
        framed.save(directory / "framed" / f"{name}.png")
first = squares["motorcycle_left"]
numbers = random.Random(0)
noise = bytes(max(0, min(255, round(value + numbers.gauss(0, 40)))) for value in first.tobytes())
for name, image in {
    "first": first,
    "same": first,
    "eye": squares["motorcycle_right"],
    "blurred": first.filter(ImageFilter.GaussianBlur(1.5)),
    "noisy": Image.frombytes("RGB", first.size, noise),
    "other": squares["chelsea"],
}.items():
    image.save(directory / "pairs" / f"{name}.png")
