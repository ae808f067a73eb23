"""PNG and JPEG files of every kind, and the pixels that Pillow makes of them: writes pictures.inc beside this file, for
images_test.cc. Bytes are hexadecimal. Where Pillow departs from the standard of PNG the pixels are those of the
standard, and the case says so.

Run it with a Python that has numpy and pillow, when a case is added:  python make_pictures_expected.py
"""

import io
import json
import struct
from pathlib import Path

import numpy as np
from PIL import Image
from png_bytes import CHANNELS, DEPTHS, GREY, PALETTE, RGB, png

HERE = Path(__file__).parent
random = np.random.default_rng(7)


def png_files():
    """Name, file, and the pixels of mode RGBA by the standard if Pillow has others."""
    for kind, depths in DEPTHS.items():
        for depth in depths:
            pixels = random.integers(0, 2**depth, (9, 5, CHANNELS[kind]))
            pixels[0, 0] = pixels[1, 1]
            colours = random.integers(0, 256, (2**depth, 3), dtype="u1") if kind == PALETTE else None
            palette = None if colours is None else colours.tobytes()
            # Pillow clips grey of 16 bits at 255.
            standard = None
            if kind == GREY and depth == 16:
                standard = np.repeat(pixels >> 8, 4, axis=2)
                standard[..., 3] = 255
            for interlaced in [False, True]:
                name = f"kind {kind}, {depth} bits" + ", interlaced" * interlaced
                yield name, png(pixels, kind, depth, interlaced, palette), standard
            if kind == PALETTE:
                for alphas in [b"\0\x80", b"\xff\0", random.integers(0, 256, 2**depth, dtype="u1").tobytes()]:
                    yield f"{name}, alphas", png(pixels, kind, depth, True, palette, alphas), None
            if kind in (GREY, RGB):
                chosen = struct.pack(f">{CHANNELS[kind]}H", *pixels[0, 0].tolist())
                for interlaced in [False, True]:
                    file = png(pixels, kind, depth, interlaced, None, chosen)
                    # Pillow compares it with samples that are scaled already.
                    standard = None
                    if depth not in (1, 8):
                        made = pixels >> 8 if depth == 16 else pixels * 255 // (2**depth - 1)
                        alpha = np.where((pixels == pixels[0, 0]).all(axis=2, keepdims=True), 0, 255)
                        standard = np.concatenate([np.repeat(made, 3, axis=2) if kind == GREY else made, alpha], axis=2)
                    yield f"kind {kind}, {depth} bits, one transparent" + ", interlaced" * interlaced, file, standard


def saved(image, **options):
    out = io.BytesIO()
    image.save(out, "jpeg", **options)
    return out.getvalue()


def jpeg_files():
    pixels = random.integers(0, 256, (17, 19, 4), dtype="u1")
    rgb = Image.fromarray(pixels[..., :3].copy(), "RGB")
    inks = Image.fromarray(pixels, "CMYK")
    for name, image in [("grey", rgb.convert("L")), ("RGB", rgb), ("CMYK", inks)]:
        yield name, saved(image)
        yield f"{name}, progressive", saved(image, progressive=True, quality=60)
        yield f"{name}, restarts", saved(image, restart_marker_blocks=1, quality=95)
    for sampling in ["4:4:4", "4:2:2", "4:2:0"]:
        yield f"RGB, {sampling}", saved(rgb, subsampling=sampling)
    yield "RGB kept", saved(rgb, keep_rgb=True)
    # Without Adobe's marker.
    file = saved(inks)
    assert file[2:4] == b"\xff\xee"
    yield "CMYK, no marker", file[:2] + file[4 + int.from_bytes(file[4:6], "big"):]
    yield "CMYK, YCCK", file[:17] + b"\x02" + file[18:]
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        yield f"RGB, orientation {orientation}", saved(rgb.crop((0, 0, 5, 3)), exif=exif)


def case(name, kind, file, standard=None):
    decoded = Image.open(io.BytesIO(file))
    results = {mode: np.array(decoded.convert(mode)) for mode in ["L", "RGB", "RGBA"]}
    one = {"name": name, "kind": kind, "file": file.hex(), "height": decoded.height, "width": decoded.width}
    if standard is not None:
        image = Image.fromarray(standard.astype("u1"), "RGBA")
        if all((np.array(image.convert(mode)) == results[mode]).all() for mode in results):
            raise SystemExit(f"Pillow now has the standard's pixels of '{name}': say so in docs/data.md")
        results = {mode: np.array(image.convert(mode)) for mode in results}
    one["pixels"] = {mode: pixels.tobytes().hex() for mode, pixels in results.items()}
    return one


cases = [case(name, "png", file, standard) for name, file, standard in png_files()]
cases += [case(name, "jpg", file) for name, file in jpeg_files()]
lines = ",\n".join(json.dumps(one) for one in cases)
(HERE / "pictures.inc").write_text('R"json([\n' + lines + '\n])json"\n')
