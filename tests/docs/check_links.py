#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_links.py SITE ROOT : a site that can be read from a folder, without a network.

1. Every link inside the site leads to a file, and to an anchor that is there.
2. Nothing is loaded from elsewhere: no script, style, font or picture.
3. Every document of ROOT/docs, every public header and the README are in the navigation of the start page.
4. No text of Markdown is left in a page: a fence, or a link that was not made.
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADS = {
    ("script", "src"),
    ("img", "src"),
    ("source", "src"),
    ("iframe", "src"),
    ("object", "data"),
}
LOADING_LINKS = {"stylesheet", "icon", "preload", "preconnect", "modulepreload", "manifest"}
LEFT = re.compile(r"```|\]\([^)\s]+\.(md|html)[)#]")


class Page(HTMLParser):
    """Anchors, links and loads of one page; text outside of code that looks like Markdown."""

    def __init__(self, path):
        super().__init__(convert_charrefs=True)
        self.ids, self.links, self.loads, self.left, self.navigation = set(), [], [], [], set()
        self.inside, self.in_navigation = 0, 0
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.ids.update(value for value in (values.get("id"), values.get("name")) if value)
        if tag in ("code", "pre", "script", "style"):
            self.inside += 1
        if tag == "nav":
            self.in_navigation += 1
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
            if self.in_navigation:
                self.navigation.add(values["href"])
        if tag == "link" and LOADING_LINKS & set(values.get("rel", "").split()):
            self.loads.append(values["href"])
        self.loads += [values[key] for key in values if (tag, key) in LOADS and values[key]]

    def handle_endtag(self, tag):
        if tag in ("code", "pre", "script", "style"):
            self.inside -= 1
        if tag == "nav":
            self.in_navigation -= 1

    def handle_data(self, text):
        if not self.inside and LEFT.search(text):
            self.left.append(text.strip()[:80])


def targets(site, path, link):
    """(file, anchor) that a link of a page means; None if it leads out of the site."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    file = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
    return (file / "index.html" if file.is_dir() else file), unquote(parts.fragment)


def check_page(site, path, page, pages):
    name = path.relative_to(site)
    for link in page.links + page.loads:
        target = targets(site, path, link)
        if target is None:
            if link in page.loads:
                yield f"{name} loads {link}"
        elif not target[0].is_file():
            yield f"{name}: there is no {link}"
        elif not target[0].is_relative_to(site):
            yield f"{name}: {link} is outside of the site"
        elif (
            target[1]
            and target[0] in pages
            and target[1] not in pages[target[0]].ids
            and target[1] != "__skip"
        ):
            yield f"{name}: {link} has no such anchor"
    yield from (f"{name}: Markdown is left: {text}" for text in page.left)


def check_styles(site):
    for path in site.rglob("*.css"):
        for url in re.findall(r"url\(\s*[\"']?(https?:)?//|@import", path.read_text()):
            yield f"{path.relative_to(site)} loads {url}"


def check_navigation(site, root, start):
    wanted = [f"{path.relative_to(root).with_suffix('.html')}" for path in root.glob("docs/**/*.md")]
    wanted += [f"headers/{path.stem}.html" for path in root.glob("include/esscher/*.h")]
    for page in wanted:
        if page not in start.navigation:
            yield f"{page} is not in the navigation (docs/site/mkdocs.yml)"


def main(site, root):
    pages = {path: Page(path) for path in sorted(site.rglob("*.html"))}
    bad = [
        each
        for path, page in pages.items()
        if path.name != "404.html"
        for each in check_page(site, path, page, pages)
    ]
    bad += check_styles(site)
    bad += check_navigation(site, root, pages[site / "index.html"])
    if bad:
        sys.exit("\n".join(bad) + f"\n{len(bad)} faults")
    links = sum(len(page.links) for page in pages.values())
    print(f"{len(pages)} pages, {links} links, all good")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
