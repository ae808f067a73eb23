import tempfile
import unittest
from pathlib import Path

import check_layers


class CheckLayersTest(unittest.TestCase):
    CASES = [
        # file, its line, part of the complaint or None
        ("core/a.cc", '#include "manta/core/b.h"', None),
        ("core/a.cc", '#include "manta/base/error.h"', None),
        ("core/a.cc", "#include <vector>", None),
        ("core/a.cc", "#include <torch/torch.h>", None),
        ("manta.h", '#include "manta/core/a.h"', None),
        ("base/a.h", '#include "manta/io/channel.h"', "io is above base"),
        ("base/a.h", "#  include <manta/io/channel.h>", "io is above base"),
        ("base/deep/a.h", '#include "manta/io/channel.h"', "io is above base"),
        ("tune/a.cc", '#include "manta/torch/trainer.h"', "torch is optional"),
        ("torch/a.cc", '#include "manta/torch/trainer.h"', None),
        ("core/a.cc", '#include "manta/manta.h"', "umbrella"),
        ("core/a.cc", '#include "b.h"', "spelled"),
        ("core/a.cc", '#include "manta/utils/b.h"', "utils is no layer"),
        ("utils/a.cc", "", "utils is no layer"),
    ]

    def test_cases(self):
        for name, line, complaint in self.CASES:
            with self.subTest(name=name, line=line), tempfile.TemporaryDirectory() as folder:
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(f"#pragma once\n\n{line}\n")
                found = check_layers.check(Path(folder))
                self.assertEqual(len(found), 0 if complaint is None else 1, found)
                if complaint:
                    self.assertIn(complaint, found[0])
                    if line:
                        self.assertIn(f"{name}:3:", found[0])


if __name__ == "__main__":
    unittest.main()
