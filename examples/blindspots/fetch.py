"""Downloads the same emoji drawn by two vendors, as packages.

    python fetch.py data

`data/google/*.png`   emoji-datasource-google 16.0.0 (npm; art under Apache-2.0)
`data/twitter/*.png`  emoji-datasource-twitter 16.0.0 (npm; art under CC-BY-4.0)
`data/emoji.csv`      the emoji that both vendors have, one line each: file, name, category

Only the base form of each emoji is used: skin tone variants are near-duplicates, and duplicated rows make intervals too narrow.
None of the data is part of this project.
"""

import csv
import json
import subprocess
import sys
import tarfile
from pathlib import Path

VENDORS = ["google", "twitter"]


def package(vendor: str, folder: Path) -> Path:
    """Downloads the package of a vendor, unless it is already there."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"emoji-datasource-{vendor}-16.0.0.tgz"
    if not file.exists():
        command = ["npm", "pack", "--silent", f"emoji-datasource-{vendor}@16.0.0"]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return file


def main() -> None:
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "data")
    pictures: dict[str, dict[str, bytes]] = {}
    listed = []
    for vendor in VENDORS:
        with tarfile.open(package(vendor, out / "packages")) as archive:
            prefix = f"package/img/{vendor}/64/"
            names = [name for name in archive.getnames() if name.startswith(prefix)]
            pictures[vendor] = {name[len(prefix) :]: archive.extractfile(name).read() for name in names}
            listed = json.load(archive.extractfile("package/emoji.json"))
    shared = [one for one in listed if all(one["image"] in pictures[vendor] for vendor in VENDORS)]
    shared.sort(key=lambda one: one["sort_order"])
    for vendor in VENDORS:
        (out / vendor).mkdir(exist_ok=True)
        for one in shared:
            (out / vendor / one["image"]).write_bytes(pictures[vendor][one["image"]])
    with open(out / "emoji.csv", "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["image", "name", "category", "subcategory"])
        for one in shared:
            table.writerow([one["image"], (one["name"] or one["short_name"]).lower(), one["category"], one["subcategory"]])
    print(f"{len(shared)} emoji of {len(VENDORS)} vendors in {out}")


main()
