"""Writes the two small packages beside this script."""

import gzip
import io
import lzma
import pathlib
import tarfile

here = pathlib.Path(__file__).parent


def tar(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def ar(members: dict[str, bytes]) -> bytes:
    parts = [b"!<arch>\n"]
    for name, content in members.items():
        parts.append(f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode())
        parts.append(content + b"\n" * (len(content) % 2))
    return b"".join(parts)


package = tar({"package/package.json": b'{"name": "etalon-test"}\n', "package/texts.txt": b"one\ntwo\n"})
(here / "etalon-test-1.0.0.tgz").write_bytes(gzip.compress(package, mtime=0))
data = lzma.compress(tar({"./usr/share/a.txt": b"one"}))
control = lzma.compress(tar({"./control": b"Package: example\n"}))
(here / "example.deb").write_bytes(ar({"debian-binary": b"2.0\n", "control.tar.xz": control, "data.tar.xz": data}))
