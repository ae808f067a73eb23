"""What pyarrow and Python's json read from odd files of JSON lines: writes json.inc beside this file, for json_test.cc.

Run it with a Python that has pyarrow, when a case is added:  python make_json_expected.py
"""

import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.json

# name: text
CASES = {
    "plain": '{"a": 1, "b": 2.5, "c": "x"}\n{"a": 3, "b": 4, "c": "y"}\n',
    "windows line ends": '{"a": 1}\r\n{"a": 2}\r\n',
    "no line end at the end": '{"a": 1}\n{"a": 2}',
    "blank lines": '\n{"a": 1}\n  \n\t\n{"a": 2}\n\n',
    "missing fields": '{"a": 1}\n{"b": true}\n{"a": 2, "b": false}\n{}\n',
    "nulls": '{"a": null, "b": "x"}\n{"a": 1, "b": null}\n{"a": null, "b": "y"}\n',
    "all null": '{"a": null, "b": 1}\n{"a": null, "b": 2}\n',
    "order of fields": '{"b": 1, "a": "x"}\n{"a": "y", "b": 2}\n',
    "integers, then fractions": '{"a": 1}\n{"a": 2.5}\n{"a": -3e2}\n',
    "limits": '{"a": 9223372036854775807}\n{"a": -9223372036854775808}\n',
    "small fractions": '{"a": 0.1}\n{"a": 1e-300}\n{"a": 123456789.123456789}\n',
    "escapes": '{"a": "x\\ny\\t\\"\\\\\\/\\u00e9\\u6771\\ud83d\\ude00"}\n',
    "unicode": '{"größe": "東京"}\n{"größe": "😀"}\n',
    "empty texts": '{"a": ""}\n{"a": "x"}\n',
    "lists": '{"a": [1, 2]}\n{"a": []}\n{"a": null}\n{"a": [3, null]}\n{}\n',
    "lists of fractions": '{"a": [1, 2.5]}\n{"a": [3]}\n',
    "lists of lists": '{"a": [[1], [], [2, 3]]}\n{"a": [null, [4]]}\n',
    "empty lists": '{"a": [], "b": 1}\n{"a": [], "b": 2}\n',
    "objects": '{"a": {"x": 1, "y": "p"}}\n{"a": {"y": "q"}}\n{"a": null}\n{"a": {}}\n',
    "objects in objects": '{"a": {"b": {"c": [true]}}}\n{"a": {"b": null}}\n{"a": {"b": {"c": null}}}\n',
    "lists of objects": '{"a": [{"x": 1}, {"x": 2, "y": "p"}]}\n{"a": []}\n{"a": [null, {"y": "q"}]}\n',
    "fields that come later": '{"a": 1}\n{"a": 2, "b": [1]}\n{"b": [2, 3], "c": {"d": 1}}\n',
    "spaces": '  {  "a" :  1 ,"b":[ 1 , 2 ] }  \n{"a":2,"b":[]}\n',
    "texts that look like numbers": '{"a": "1"}\n{"a": "2.5"}\n{"a": "true"}\n',
}


def main():
    lines = []
    for name, text in CASES.items():
        table = pyarrow.json.read_json(io.BytesIO(text.encode()))
        rows = [json.loads(line) for line in text.split("\n") if line.strip()]
        values = table.to_pylist()
        for row, value in zip(rows, values):  # pyarrow agrees with json, but for nulls where a field is missing
            for key in row:
                assert without_nulls(row[key]) == without_nulls(value[key]), (name, row, value)
        lines.append(json.dumps({"name": name, "text": text, "types": {f.name: str(f.type) for f in table.schema},
                                 "rows": values}, ensure_ascii=False))
    out = Path(__file__).with_name("json.inc")
    out.write_text('R"json([\n' + ",\n".join(lines) + '\n])json"\n')


def without_nulls(value):
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [without_nulls(each) for each in value]
    return value


main()
