"""PNG files of every kind of pixels, also of those that Pillow reads but does not write."""

import struct
import zlib

import numpy as np

GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6
CHANNELS = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGBA: 4}
DEPTHS = {GREY: [1, 2, 4, 8, 16], RGB: [8, 16], PALETTE: [1, 2, 4, 8], GREY_ALPHA: [8, 16], RGBA: [8, 16]}
# Of Adam7: first column and row, steps between columns and rows.
PASSES = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def packed(values, depth):
    if depth >= 8:
        return values.astype(">u2" if depth == 16 else "u1").tobytes()
    bits = (values[:, None] >> np.arange(depth - 1, -1, -1)) & 1
    return np.packbits(bits.reshape(-1).astype("u1")).tobytes()


def rows(pixels, depth):
    return b"".join(b"\0" + packed(row.reshape(-1), depth) for row in pixels)


def png(pixels, kind, depth, interlaced=False, palette=None, transparent=None):
    """`pixels`: [height][width][channels], values of `depth` bits."""
    height, width = pixels.shape[:2]
    parts = [pixels[y::down, x::right] for x, y, right, down in PASSES] if interlaced else [pixels]
    content = b"".join(rows(part, depth) for part in parts if part.size)
    file = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, interlaced))
    if palette is not None:
        file += chunk(b"PLTE", palette)
    if transparent is not None:
        file += chunk(b"tRNS", transparent)
    return file + chunk(b"IDAT", zlib.compress(content, 9)) + chunk(b"IEND", b"")
