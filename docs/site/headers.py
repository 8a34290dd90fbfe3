# SPDX-License-Identifier: Apache-2.0
"""Public headers as pages: the essay at the top, then each declaration with what is said above it.

The headers are the manual, so that nothing is written twice: a page has a header's own words and declarations, in its
order. A comment that begins at the margin belongs to the declarations below it, as far as the next blank line.
"""

import re
from dataclasses import dataclass, field

import prose

IGNORED = re.compile(
    r"\s*(#\s*(ifndef|ifdef|endif|if|else|include)\b|#define ESSCHER_\w+_H|extern \"C\" \{|\}\s*$|$)"
)
SECTION = re.compile(r"/\* -{3,} (.*?) -{3,} \*/$")


@dataclass
class Item:
    section: str = ""
    said: list = field(default_factory=list)  # lines of the comment, without stars
    code: list = field(default_factory=list)

    def names(self):
        """What is declared here: functions first, else types, else constants."""
        text = re.sub(r"/\*.*?\*/", " ", "\n".join(self.code), flags=re.S)
        functions = re.findall(r"ES_API[^;()]*?\b(es_\w+)\(", text)
        inline = re.findall(r"^static inline [^;()]*?\b(es_\w+)\(", text, re.M)
        types = re.findall(r"^\}\s*(es_\w+);", text, re.M) + re.findall(
            r"^typedef [^;{}]*?\b(es_\w+);", text, re.M
        )
        types += re.findall(r"^typedef [^;{}]*?\(\*\s*(es_\w+)\)", text, re.M)
        constants = re.findall(r"^#define (ES_\w+)", text, re.M)
        for body in re.findall(r"enum[^;{]*\{([^}]*)\}", text):
            constants += re.findall(r"\b(ES_\w+)\s*(?:=|,|$|\n)", body)
        objects = re.findall(r"^ES_API extern [^;()]*?\b(es_\w+)(?:\[\w*\])?;", text, re.M)
        return [
            list(dict.fromkeys(kind)) for kind in (functions + inline, types + objects, constants)
        ]

    def title(self):
        functions, types, constants = self.names()
        shown = [f"{name}()" for name in functions] or types or constants
        if not shown:
            return ""
        return ", ".join(shown[:3]) + (", …" if len(shown) > 3 else "")


def uncomment(text):
    """Lines of a comment without its frame."""
    body = re.sub(r"^/\*[!*]? ?", "", text.strip())
    body = re.sub(r"\s*\*/$", "", body)
    lines = body.split("\n")
    # "/*! es_x() : ..." goes on with " *  ": one more space than " * " of an essay.
    frame = (
        r"^ \*  "
        if text.startswith("/*!") and all(re.match(r"^ \*(  |$)", each) for each in lines[1:])
        else r"^ \* ?"
    )
    return [lines[0]] + [re.sub(frame, "", each) for each in lines[1:]]


def parse(text):
    """(essay, items) of a header. A first line with its licence is left out."""
    text = re.sub(r"\A/\* SPDX-License-Identifier:.*\*/\n", "", text)
    end = text.index("*/") + 2
    essay, items = uncomment(text[:end]), []
    lines, at, item, section = text[end:].split("\n"), 0, None, ""
    while at < len(lines):
        start = at
        if lines[at].startswith("/*"):
            while "*/" not in lines[at]:
                at += 1
            comment = "\n".join(lines[start : at + 1])
            titled = SECTION.match(comment)
            if titled:
                section, item = titled.group(1), None
            elif comment.endswith("*/"):
                item = Item(section, uncomment(comment))
                items.append(item)
            at += 1
            continue
        if IGNORED.match(lines[at]):
            if not lines[at].strip():
                item = None
            at += 1
            continue
        at = end_of_declaration(lines, at)
        if item is None:
            item = Item(section)
            items.append(item)
        item.code += lines[start:at]
    return essay, items


def end_of_declaration(lines, at):
    """The line after the declaration that begins at a line: braces closed, or a directive's last line."""
    depth = 0
    while True:
        text = re.sub(r"/\*.*?\*/|//.*", "", lines[at])
        depth += text.count("{") - text.count("}")
        at += 1
        directive = lines[at - 1].startswith("#") or at > 1 and lines[at - 2].endswith("\\")
        if directive and not lines[at - 1].endswith("\\"):
            return at
        if not directive and depth == 0 and re.search(r"[;}]\s*$", text):
            return at


def directories(architecture):
    """[(folder, [header])], from the table of docs/dev/ARCHITECTURE.md."""
    found = []
    for folder, names in re.findall(r"^\| `(src/\w+)` \| ([^|]*) \|", architecture, re.M):
        headers = re.findall(r"`(\w+)`", names)
        if headers:
            found.append((folder, headers))
    return found


def make(source, target, index, architecture):
    """Pages of all headers in the folder `source`, and their list, into the folder `target`."""
    parsed = {path.name: parse(path.read_text()) for path in sorted(source.glob("*.h"))}
    for name, (_, items) in parsed.items():
        page = name.replace(".h", ".html")
        index.places[name] = page
        for item in items:
            for each in sum(item.names(), []):
                index.places.setdefault(each, f"{page}#{each}")
    target.mkdir(parents=True)
    for name, (essay, items) in parsed.items():
        (target / name.replace(".h", ".md")).write_text(render(name, essay, items, index))
    (target / "index.md").write_text(contents(parsed, directories(architecture), index))


def render(name, essay, items, index):
    about = re.sub(r"^\w+\.h : ", "", essay[0])
    essay = [about[0].upper() + about[1:]] + essay[1:]
    out = [f"# {name}", "", "```c", f"#include <esscher/{name}>", "```", ""]
    out += ['<div markdown="0">', prose.page(essay, index), "</div>", ""]
    section = ""
    for item in items:
        if item.section != section:
            section = item.section
            out += [f"## {section[0].upper()}{section[1:]}", ""]
        title, names = item.title(), sum(item.names(), [])
        if title:
            out += [f"### {title} {{ #{names[0]} }}", ""]
            out += ["".join(f'<a id="{each}"></a>' for each in names[1:]), ""] if names[1:] else []
        if item.said:
            out += ['<div markdown="0">', prose.page(item.said, index), "</div>", ""]
        if item.code:
            out += ["```c"] + item.code + ["```", ""]
    return "\n".join(out)


def contents(parsed, by_directory, index):
    out = [
        "# Headers",
        "",
        "The C library, `libesscher`: what each public header is for, by "
        "[the directory](../docs/dev/ARCHITECTURE.md) that implements it.",
        "",
    ]
    for folder, names in by_directory:
        out += [f"**{folder}**", ""]
        for name in names:
            essay = parsed[f"{name}.h"][0]
            sentence = re.match(r"(?:\w+\.h : )?(.*?)\.(\s|$)", " ".join(essay)).group(1)
            out.append(
                f'- <a href="{name}.html"><code>{name}.h</code></a>: {prose.line(sentence, index)}'
            )
        out.append("")
    return "\n".join(out)
