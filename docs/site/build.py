#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""build.py ESSCHER SITE : the site of `./do docs`, into the folder SITE; ESSCHER is the program, which prints its man pages.

Pages are gathered in SITE.work/pages under the names that they have in the repository, so that their links hold; what is
made (headers, man pages, Python, files that pages point at) is beside them. Then mkdocs builds them, strictly.
Needs mkdocs with its theme material, and mandoc.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree stays as it is

import headers
import manuals
import notebooks
import prose
import pydoc_pages
from pymdownx.slugs import gfm

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WRITTEN = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "docs/*.md",
    "docs/data/*.md",
    "docs/dev/*.md",
    "models/pebble/README.md",
    "tests/golden/README.md",
]
LINK = re.compile(r"(\]\()([^)#:\s]+)((?:#[^)]*)?\))")
PICTURES = (".svg", ".png", ".txt")


def rewrite_links(text, page, wanted):
    """Links of a page to files that are no pages: to the page that shows the file. `wanted` collects these files."""

    def rewrite(found):
        target = os.path.normpath(page.parent / found[2])
        if target.endswith(".md") or not (ROOT / target).is_file():
            return found[0]
        header = re.fullmatch(r"include/esscher/(\w+)\.h", target)
        if header:
            shown = f"headers/{header[1]}.md"
        elif target.endswith(".ipynb"):
            shown = target.replace(".ipynb", ".md")
        else:
            wanted.add(target)
            shown = target if target.endswith(PICTURES) else target + ".md"
        return found[1] + os.path.relpath(shown, page.parent) + found[3]

    return LINK.sub(rewrite, text)


def escape_tags(text):
    """A "<" in prose is one, and begins no tag: <output, q> is an inner product. Code keeps its own."""
    out, fenced = [], False
    for row in text.split("\n"):
        if row.startswith("```"):
            fenced = not fenced
        if not fenced and not row.startswith("    "):
            parts = re.split(r"(`+[^`]*`+)", row)
            parts[::2] = [re.sub(r"<(?!https?:|!--)", "&lt;", part) for part in parts[::2]]
            row = "".join(parts)
        out.append(row)
    return "\n".join(out)


def indent_items(text):
    """What belongs to an item of a list stands below its text, by two or three columns; Python's Markdown wants four."""
    out, width = [], 0
    for row in text.split("\n"):
        item = re.match(r"([-*]|\d+\.) ", row)
        if item:
            width = item.end()
        elif row.strip() and not row.startswith("  "):
            width = 0
        elif width and row.startswith(" " * width):
            row = " " * 4 + row[width:]
        out.append(row)
    return "\n".join(out)


def gather(pages):
    """Written pages, and the files they point at."""
    wanted = set()
    for pattern in WRITTEN:
        for path in sorted(ROOT.glob(pattern)):
            page = path.relative_to(ROOT)
            (pages / page).parent.mkdir(parents=True, exist_ok=True)
            text = indent_items(escape_tags(path.read_text()))
            (pages / page).write_text(rewrite_links(text, page, wanted))
    for name in sorted(wanted):
        (pages / name).parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(PICTURES):
            shutil.copy(ROOT / name, pages / name)
        else:
            (pages / (name + ".md")).write_text(
                f"# {name}\n\n````{language(name)}\n{(ROOT / name).read_text()}````\n"
            )


def language(name):
    text = (ROOT / name).read_text()[:40]
    by_end = {
        ".c": "c",
        ".yaml": "yaml",
        ".json": "json",
        ".py": "python",
        ".cff": "yaml",
        ".sbatch": "sh",
    }
    return by_end.get(Path(name).suffix, "sh" if text.startswith("#!/bin/sh") else "text")


def expand(settings, pages):
    """mkdocs.yml with "NAME: FOLDER/*" replaced by those of the folder's pages that no other line names, index.md first. A line
    for which there are none goes."""
    out = []
    for row in settings.split("\n"):
        found = re.match(r"( *)- ([^:]*): ([\w/]+)/\*$", row)
        if not found:
            out.append(row)
            continue
        names = sorted(
            path.name
            for path in (pages / found[3]).glob("*.md")
            if "." not in path.stem and f": {found[3]}/{path.name}\n" not in settings
        )
        names.sort(key=lambda name: name != "index.md")
        if len(names) == 1:
            out.append(f"{found[1]}- {found[2]}: {found[3]}/{names[0]}")
        elif names:
            out.append(f"{found[1]}- {found[2]}:")
            out += [f"{found[1]}    - {found[3]}/{name}" for name in names]
    return "\n".join(out)


def search_from_folder(site):
    """search.js, which makes search work without a server, with the worker and the index it needs."""
    worker = next((site / "assets/javascripts/workers").glob("search.*.min.js")).read_text()
    worker = re.sub(r"//# sourceMappingURL=.*", "", worker)
    script = (HERE / "search.js").read_text()
    (site / "search/folder.js").write_text(f"const search_worker = {json.dumps(worker)};\n{script}")
    index = (site / "search/search_index.json").read_text()
    (site / "search/index.js").write_text(f"search_ready({index});\n")


def main(program, site):
    work = site.with_name(site.name + ".work")
    pages = work / "pages"
    for folder in (work, site):
        shutil.rmtree(folder, ignore_errors=True)
    pages.mkdir(parents=True)
    gather(pages)
    index = prose.Index()
    index.add_theory((ROOT / "docs/THEORY.md").read_text(), gfm)
    headers.make(
        ROOT / "include/esscher",
        pages / "headers",
        index,
        (ROOT / "docs/dev/ARCHITECTURE.md").read_text(),
    )
    manuals.make(program, pages / "man")
    notebooks.make(ROOT / "examples", pages / "examples")
    pydoc_pages.make(ROOT / "python/esscher", pages / "python")
    shutil.copytree(HERE / "theme", work / "theme")
    shutil.copy(HERE / "style.css", pages / "style.css")
    (work / "mkdocs.yml").write_text(expand((HERE / "mkdocs.yml").read_text(), pages))
    # mkdocs as a module of this Python: the one that has it
    run = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    subprocess.run([*run, "--config-file", work / "mkdocs.yml", "--site-dir", site], check=True)
    search_from_folder(site)
    print(f"{len(list(site.rglob('*.html')))} pages: {site / 'index.html'}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
    except subprocess.CalledProcessError as failure:
        sys.exit(f"build.py: {failure}")
