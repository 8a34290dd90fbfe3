# SPDX-License-Identifier: Apache-2.0
"""Plain text of comments, as HTML: paragraphs, lists, what is set off by four spaces, and links to what is named."""

import html
import re


class Index:
    """Where names are explained: functions, types and constants of headers, headers themselves, sections of THEORY."""

    def __init__(self):
        self.places = {}  # "es_attend" -> "attend.html#es_attend"
        self.sections = {}  # "13" -> "../docs/THEORY.html#13-sparse-attention"

    def add_theory(self, text, slugify):
        for number, title in re.findall(r"^## (\d+)\.? (.*)$", text, re.M):
            heading = re.search(rf"^## ({number}\.? .*)$", text, re.M).group(1)
            self.sections[number] = "../docs/THEORY.html#" + slugify(heading, "-")

    def link(self, text, place):
        return f'<a href="{place}">{text}</a>' if place else text


NAMED = re.compile(
    r"`(?P<quoted>[^`]+)`"
    r"|(?P<header>(?:esscher/)?[a-z_]+\.h)\b"
    r"|(?P<name>\b(?:es_[a-z0-9_]+|ES_[A-Z0-9_]+)(?:\(\))?)"
    r"|(?P<theory>THEORY(?:\.md)? (?P<number>\d+)(?:\.\d+)?)"
    r"|\*(?P<stressed>[A-Za-z][a-z -]*)\*"
)


def line(text, index):
    """One run of text: escaped, with names as code and links."""

    def show(found):
        whole = html.escape(found.group(0), quote=False)
        if found["quoted"]:
            return f"<code>{html.escape(found['quoted'], quote=False)}</code>"
        if found["header"]:
            place = index.places.get(found["header"].split("/")[-1])
            return index.link(f"<code>{whole}</code>", place) if place else whole
        if found["name"]:
            name = found["name"].removesuffix("()")
            return index.link(f"<code>{whole}</code>", index.places.get(name))
        if found["theory"]:
            return index.link(whole, index.sections.get(found["number"]))
        return f"<em>{html.escape(found['stressed'], quote=False)}</em>"

    out, at = [], 0
    for found in NAMED.finditer(text):
        out.append(html.escape(text[at : found.start()], quote=False))
        out.append(show(found))
        at = found.end()
    out.append(html.escape(text[at:], quote=False))
    return "".join(out)


ITEM = re.compile(r" {0,3}- (.*)")


def code(text):
    """A block of code, as the theme writes it; the text is HTML."""
    return f'<div class="highlight"><pre><code>{text}</code></pre></div>'


def blocks(lines):
    """(kind, lines) of paragraphs, list items and set-off text. An item goes on until a blank line or the next item:
    clang-format takes the indentation of its second line away."""
    kind, held = None, []
    for text in lines + [""]:
        item = ITEM.match(text)
        if not text.strip():
            next_kind = "set" if kind == "set" else None
        elif text.startswith("    ") and kind in (None, "set"):
            next_kind = "set"
        elif item and kind in (None, "item", "text"):
            next_kind = "item"
        else:
            next_kind = kind if kind in ("item", "text") else "text"
        if held and (next_kind != kind or item and kind == "item"):
            yield kind, held
            held = []
        kind = next_kind
        if text.strip() or kind == "set":
            held.append(item.group(1) if item and kind == "item" else text)
    if any(text.strip() for text in held):
        yield kind, held


def page(lines, index):
    """Lines of a comment, without its stars, as HTML."""
    out, listing = [], False
    for kind, held in blocks(lines):
        if (kind == "item") != listing:
            out.append("<ul>" if kind == "item" else "</ul>")
            listing = kind == "item"
        if kind == "set":
            text = "\n".join(part[4:] if part.startswith("    ") else part for part in held)
            out.append(code(html.escape(text.rstrip(), quote=False)))
        else:
            body = line(" ".join(part.strip() for part in held), index)
            out.append(f"<li>{body}</li>" if kind == "item" else f"<p>{body}</p>")
    if listing:
        out.append("</ul>")
    return "\n".join(out)
