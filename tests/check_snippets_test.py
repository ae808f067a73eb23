import tempfile
import unittest
from pathlib import Path

import check_snippets

PROGRAM = """// What it is.
int main() {
  first();
  second();   // a reason

  third();
}
"""


class CheckSnippetsTest(unittest.TestCase):
    CASES = [
        # the block, what is complained of or None
        ("first();\nsecond();\n", None),
        ("  second(); // another reason\n  third();\n", None),
        ("first();\n...\nthird();\n", None),
        ("first();\nthird();\n", "first();"),
        ("third();\n...\nfirst();\n", "first();"),
        ("fourth();\n", "fourth();"),
    ]

    def test_cases(self):
        for block, complaint in self.CASES:
            with self.subTest(block=block):
                self.assertEqual(check_snippets.missing_part(block, PROGRAM), complaint)

    def test_pages(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "docs").mkdir()
            (root / "examples").mkdir()
            (root / "README.md").write_text("")
            (root / "examples/a.cc").write_text(PROGRAM)
            page = root / "docs/a.md"
            page.write_text("<!-- examples/a.cc -->\n```cpp\nfirst();\n```\n```cpp\nanything();\n```\n")
            self.assertEqual(check_snippets.check(root), [])
            page.write_text("<!-- examples/a.cc -->\n\n```cpp\nother();\n```\n")
            self.assertEqual(len(check_snippets.check(root)), 1)


if __name__ == "__main__":
    unittest.main()
