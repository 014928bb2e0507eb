"""Writes small images of every kind, and their pixels as Pillow converts them to RGB. Made with Pillow 13.0.0, numpy 2.4.6."""

import io
import struct
import zlib

import numpy as np
from PIL import Image

rng = np.random.default_rng(3)


def picture(width, height, channels):
    y, x = np.mgrid[0:height, 0:width]
    waves = [127 + 100 * np.sin(x / 7 + y / 11 + c) + rng.normal(0, 8, (height, width)) for c in range(channels)]
    values = np.stack(waves, -1)
    values[height // 4 : height // 2, width // 4 : width // 2, :3] = [250, 10, 30]
    return Image.fromarray(np.clip(values, 0, 255).astype(np.uint8))


def write(name, data):
    with open(name, "wb") as file:
        file.write(data)
    pixels = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    np.save(name + ".u8.npy", pixels)


def save(name, image, **options):
    data = io.BytesIO()
    image.save(data, name.split(".")[-1].replace("jpg", "jpeg"), **options)
    write(name, data.getvalue())


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def wide_png(name, kind, values, extra=b""):
    height, width = values.shape[:2]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    header = struct.pack(">IIBBBBB", width, height, 16, kind, 0, 0, 0)
    parts = chunk(b"IHDR", header) + extra + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    write(name, b"\x89PNG\r\n\x1a\n" + parts)


rgb, rgba = picture(37, 21, 3), picture(37, 21, 4)
save("lossy.webp", rgb, quality=60)
save("lossy_alpha.webp", rgba, quality=60)
save("lossless_alpha.webp", rgba, lossless=True, exact=True)
save("animated.webp", rgba, save_all=True, append_images=[rgb.convert("RGBA")])
save("interlaced.gif", rgb)
save("animated.gif", rgb, interlace=0, save_all=True, append_images=[picture(37, 21, 3)])
save("rgb.bmp", rgb)
save("alpha.bmp", rgba)
save("palette.bmp", rgb.convert("P"))
save("bits.bmp", rgb.convert("1"))
save("bits.png", rgb.convert("1"))
save("grey_alpha.png", rgba.convert("LA"))
save("palette4.png", rgb.quantize(16), bits=4, transparency=3)
save("transparent_rgb.png", rgb, transparency=(250, 10, 30))
save("progressive_422.jpg", rgb, quality=80, subsampling="4:2:2", progressive=True)
save("restarts_420.jpg", rgb, quality=80, subsampling="4:2:0", restart_marker_rows=1)
save("grey.jpg", rgb.convert("L"), quality=80)
save("cmyk.jpg", rgb.convert("CMYK"), quality=80)
wide_png("grey16.png", 0, rng.integers(0, 400, (5, 7, 1)))
wide_png("grey16_transparent.png", 0, rng.integers(0, 400, (5, 7, 1)), chunk(b"tRNS", b"\0\5"))
wide_png("rgb16.png", 2, rng.integers(0, 65536, (5, 7, 3)))
wide_png("grey_alpha16.png", 4, rng.integers(0, 65536, (5, 7, 2)))
wide_png("rgba16.png", 6, rng.integers(0, 65536, (5, 7, 4)))

# A frame of 8 x 6 at column 2 and row 3 of a screen of 12 x 10.
data = io.BytesIO()
picture(8, 6, 3).quantize(8).save(data, "gif", interlace=0)
data = bytearray(data.getvalue())
frame = data.index(b",", 13 + 3 * 8)
data[6:10] = struct.pack("<HH", 12, 10)
data[frame + 1 : frame + 5] = struct.pack("<HH", 2, 3)
write("partial.gif", bytes(data))
write("partial_transparent.gif", bytes(data[:frame]) + b"\x21\xf9\x04\x01\0\0\x02\0" + bytes(data[frame:]))
# A frame larger than its screen.
data[6:10] = struct.pack("<HH", 4, 4)
write("larger.gif", bytes(data))
