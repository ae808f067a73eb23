"""Writes safetensors_expected.inc: the bytes of a safetensors file, made without torch and without the safetensors
package, in the layout that the package writes. Run it with any Python, from this folder.
"""

import json
import pathlib
import struct

# Name, type, shape, bytes: in the order of the file, wide types first, then by name.
TENSORS = [
    ("counts", "I64", [2], struct.pack("<2q", -1, 1 << 40)),
    ("precise", "F64", [], struct.pack("<d", 0.1)),
    ("a.weight", "F32", [2, 3], struct.pack("<6f", 0, 1, -2, 3.5, 1e-30, float("inf"))),
    ("empty", "F32", [0, 4], b""),
    ("scalar", "F32", [], struct.pack("<f", 42)),
    ("brain", "BF16", [2], struct.pack("<2H", 0x3F80, 0xC000)),
    ("half", "F16", [3], struct.pack("<3e", 1, -2, 65504)),
    ("small", "I8", [1], struct.pack("<b", -7)),
    ("bytes", "U8", [3], bytes([0, 128, 255])),
    ("flags", "BOOL", [3], bytes([1, 0, 1])),
]

header = {"__metadata__": {"format": "pt"}}
data = b""
for name, dtype, shape, values in TENSORS:
    header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
    data += values
text = json.dumps(header, separators=(",", ":")).encode()
text += b" " * (-len(text) % 8)
image = struct.pack("<Q", len(text)) + text + data

rows = [image[i : i + 20] for i in range(0, len(image), 20)]
lines = [", ".join(str(byte) for byte in row) + ",\n" for row in rows]
pathlib.Path(__file__).with_name("safetensors_expected.inc").write_text("".join(lines))
