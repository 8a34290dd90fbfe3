# SPDX-License-Identifier: Apache-2.0
"""Notebooks as pages: their text, and their code as blocks. Outputs are not shown; running a notebook makes them."""

import json


def make(source, target):
    for path in sorted(source.glob("*.ipynb")):
        out = []
        for cell in json.loads(path.read_text())["cells"]:
            text = "".join(cell["source"])
            out.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        out.append(f"(The notebook itself is `examples/{path.name}`.)")
        target.mkdir(parents=True, exist_ok=True)
        (target / f"{path.stem}.md").write_text("\n\n".join(out) + "\n")
