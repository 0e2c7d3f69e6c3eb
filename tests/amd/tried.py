# SPDX-License-Identifier: Apache-2.0
"""`allot doctor` takes those GPUs for tried that bench/results has a table of, with no row that
failed or of emulated ones: the same names on both sides."""
import re
import sys
from pathlib import Path

root = Path(sys.argv[1])
said = set(re.findall(r'(?m)^AMD_TRIED\("(\w+)"\)',
                      (root / "src/cli/doctor/amd_tried.def").read_text("ascii")))
tables = {path.name.split("-")[1]: path.read_text("ascii")
          for path in (root / "bench/results").glob("amd-*.txt")}
assert said == set(tables), f"amd_tried.def has {said}, bench/results {set(tables)}"
for name, text in tables.items():
    assert re.search(rf"(?m)^GPU-\S+: {name} ", text), f"the table of {name} is of another GPU"
    assert "EMULATED" not in text, f"the table of {name} is of an emulated GPU"
