"""Files of numpy and Pillow, and what these read from them: writes npy.inc and images.inc beside this file, for
files_test.cc and images_test.cc. Bytes are hexadecimal.

Run it with a Python that has numpy and pillow, when a case is added:  python make_files_expected.py
"""

import io
import json
from pathlib import Path

import numpy as np
from PIL import Image

HERE = Path(__file__).parent


def saved(array, **options):
    out = io.BytesIO()
    np.lib.format.write_array(out, array, **options)
    return out.getvalue()


def arrays():
    for code in ["?", "i1", "u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8"]:
        values = np.arange(6) % 2 if code == "?" else np.arange(6) * (7 if "u" in code else -7)
        yield f"{code}, one dimension", saved(values.astype(code)), values.astype(code)
    for shape in [(2, 3), (3, 1, 2), (2, 2, 2, 2), (1, 5), (0, 4), (3, 0), (0,)]:
        values = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype("<i4")
        yield f"shape {shape}", saved(values), values
    values = np.array([[True, False], [False, False], [True, True]])
    yield "booleans in rows", saved(values), values
    for version in [(1, 0), (2, 0), (3, 0)]:
        yield f"version {version}", saved(np.arange(3.0), version=version), np.arange(3.0)
    limits = np.array([-(2**63), 2**63 - 1])
    yield "limits", saved(limits), limits


def refused():
    yield "big-endian", saved(np.arange(3, dtype=">i4"))
    yield "complex", saved(np.arange(3) * 1j)
    yield "texts", saved(np.array(["a", "bc"]))
    yield "times", saved(np.array(["2020-01-01"], dtype="datetime64[D]"))
    yield "records", saved(np.zeros(2, dtype=[("a", "i4"), ("b", "f8")]))
    yield "objects", saved(np.array([1, "x"], dtype=object), allow_pickle=True)
    yield "Fortran order", saved(np.asfortranarray(np.arange(6).reshape(2, 3)))
    yield "single number", saved(np.array(5))


def write(name, cases):
    lines = ",\n".join(json.dumps(case) for case in cases)
    (HERE / name).write_text('R"json([\n' + lines + '\n])json"\n')


def pictures():
    random = np.random.default_rng(1)
    x, y = np.meshgrid(np.arange(12), np.arange(10))
    smooth = np.stack([x * 21, y * 25, (x + y) * 11, 255 - x * 20], -1).astype("uint8")
    noise = random.integers(0, 256, (5, 7, 4), dtype="uint8")
    for name, pixels in [("smooth", smooth), ("noise", noise)]:
        rgba = Image.fromarray(pixels, "RGBA")
        yield f"{name} RGBA", "png", rgba, {}
        yield f"{name} RGB", "png", rgba.convert("RGB"), {}
        yield f"{name} L", "png", rgba.convert("L"), {}
        yield f"{name} LA", "png", rgba.convert("LA"), {}
        yield f"{name} palette", "png", rgba.convert("RGB").quantize(16), {}
        yield f"{name} 1 bit", "png", rgba.convert("1"), {}
        yield f"{name} RGB", "jpeg", rgba.convert("RGB"), {"quality": 90}
        yield f"{name} RGB, no subsampling", "jpeg", rgba.convert("RGB"), {"quality": 95, "subsampling": 0}
        yield f"{name} RGB, progressive", "jpeg", rgba.convert("RGB"), {"progressive": True}
        yield f"{name} L", "jpeg", rgba.convert("L"), {}


def images():
    for name, kind, image, options in pictures():
        out = io.BytesIO()
        image.save(out, kind, **options)
        decoded = Image.open(io.BytesIO(out.getvalue()))
        results = []
        for mode in ["L", "RGB", "RGBA"]:
            for size in [None, (3, 4), (11, 9), (13, 2)]:
                made = decoded.convert(mode)
                if size:
                    made = made.resize((size[1], size[0]), Image.Resampling.BICUBIC)
                results.append({"mode": mode, "size": size or [image.height, image.width], "resized": bool(size),
                                "pixels": made.tobytes().hex()})
        yield {"name": name, "kind": kind, "file": out.getvalue().hex(), "results": results}


write("npy.inc", [{"name": n, "file": f.hex(), "rows": v.tolist(), "type": str(v.dtype)} for n, f, v in arrays()]
      + [{"name": n, "file": f.hex(), "refused": True} for n, f in refused()])
write("images.inc", images())
