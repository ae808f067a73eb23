"""What pandas and pyarrow read from odd CSV files: writes csv.inc beside this file, for csv_test.cc.

Run it with a Python that has pandas and pyarrow, when a case is added:  python make_csv_expected.py
"""

import io
import json
import math
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.csv

# The default of ReadCsvOptions::null_values.
NULLS = ["", "NA", "N/A", "n/a", "#N/A", "#NA", "NULL", "null", "None", "NaN", "nan", "-NaN", "-nan"]

# name: (text, options of read_csv)
CASES = {
    "plain": ("a,b,c\n1,2.5,x\n3,4,y\n", {}),
    "windows line ends": ("a,b\r\n1,x\r\n2,y\r\n", {}),
    "old line ends": ("a,b\r1,x\r2,y\r", {}),
    "byte order mark": ("\ufeffa,b\n1,x\n", {}),
    "byte order mark, quoted": ('\ufeff"a","b"\n1,x\n', {}),
    "no line end at the end": ("a,b\n1,x\n2,y", {}),
    "only a header": ("a,b\n", {}),
    "only a header, no line end": ("a,b", {}),
    "one column": ("a\n1\n2\n", {}),
    "empty fields": ("a,b,c,d\n1,,x,\n,2.5,,\n3,4,z,\n", {}),
    "empty lines": ("a,b\n\n1,x\n\n\n2,y\n\n", {}),
    "quoted delimiters": ('a,b\n"1,5","x,y"\n"2","z"\n', {}),
    "quoted line ends": ('a,b,c\n1,"x\ny",2\n3,"\n\n,\n",4\r\n5,"p\r\nq",6\n', {}),
    "quoted quotes": ('a,b\n1,"say ""hi"""\n2,""""\n3,""\n', {}),
    "quoted header": ('"a,1","b\n2"\n1,2\n', {}),
    "quotes within values": ('a,b\n1,5" disk\n2,it\'s\n3,x"y"z\n', {}),
    "unicode": ("größe,名前\n1,東京\n2,\U0001f600\n3,é\n", {}),
    "booleans": ("a,b\ntrue,True\nfalse,False\n,\n", {}),
    "integers, then fractions": ("a,b\n1,1\n2,2.0\n3,1e3\n", {}),
    "signs and spaces": ("a,b\n-1,+2.5\n-0,-3e-2\n", {}),
    "nulls": ("a,b\n1,x\nNA,y\nNaN,z\nnull,NULL\nN/A,w\n", {}),
    "other nulls": ("a,b\n1,x\n-,y\n?,-\n", {"null_values": ["-", "?"]}),
    "all null": ("a,b\n,1\nNA,2\n", {}),
    "large integers": ("a,b\n9223372036854775807,1\n-9223372036854775808,2\n", {}),
    "semicolons": ("a;b\n1;x,y\n2;z\n", {"delimiter": ";"}),
    "tabs": ("a\tb\n1\tx y\n2\tz\n", {"delimiter": "\t"}),
    "other quotes": ("a,b\n1,'x,y'\n2,'it''s'\n", {"quote": "'"}),
    "no quotes": ('a,b\n1,"x\n2,y"\n', {"quote": ""}),
    "no header": ("1,x\n2,y\n", {"column_names": ["first", "second"]}),
    "leading zeros": ("a,b\n007,x\n042,y\n", {}),
    "text that looks like numbers": ("a\n1\n2\nx3\n", {}),
    "infinities": ("a\n1.5\ninf\n-inf\n", {}),
    "trailing spaces": ("a,b\nx ,1\n y,2\n", {}),
}


def plain(value):
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return None
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value


def by_pandas(text, options):
    """Texts may be null."""
    quote = options.get("quote", '"')
    frame = pd.read_csv(io.BytesIO(text.encode()), sep=options.get("delimiter", ","), quotechar=quote or '"',
                        quoting=0 if quote else 3, names=options.get("column_names"), keep_default_na=False,
                        na_values=options.get("null_values", NULLS), encoding="utf-8-sig")
    return {str(name): [plain(v) for v in frame[name].tolist()] for name in frame.columns}


def by_pyarrow(text, options):
    """Texts are never null."""
    quote = options.get("quote", '"')
    table = pa.csv.read_csv(
        io.BytesIO((text if "\n" in text or "\r" in text else text + "\n").encode()),  # else pyarrow refuses a header
        read_options=pa.csv.ReadOptions(column_names=options.get("column_names"), use_threads=False),
        parse_options=pa.csv.ParseOptions(delimiter=options.get("delimiter", ","), quote_char=quote or False,
                                          newlines_in_values=True),
        convert_options=pa.csv.ConvertOptions(null_values=options.get("null_values", NULLS)))
    return {field.name: {"type": str(field.type), "values": [plain(v) for v in table[field.name].to_pylist()]}
            for field in table.schema}


lines = []
for name, (text, options) in CASES.items():
    lines.append(json.dumps({"name": name, "text": text, "options": options, "pandas": by_pandas(text, options),
                             "pyarrow": by_pyarrow(text, options)}))
Path(__file__).with_name("csv.inc").write_text('R"json([\n' + ",\n".join(lines) + '\n])json"\n')
