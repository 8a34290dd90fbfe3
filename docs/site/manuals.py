# SPDX-License-Identifier: Apache-2.0
"""Man pages, which the program prints and mandoc turns into HTML, as pages of the site."""

import re
import subprocess

import prose


def make(program, target):
    target.mkdir(parents=True)
    listed = subprocess.run(
        [program, "help", "--list"], check=True, capture_output=True, text=True
    ).stdout
    commands = re.findall(r"^([a-z][a-z-]*)\t", listed, re.M)
    (target / "index.md").write_text(page(program, "esscher", commands))
    for command in commands:
        (target / f"{command}.md").write_text(page(program, command, commands))


def page(program, name, commands):
    asked = [] if name == "esscher" else [name]
    roff = subprocess.run(
        [program, "help", "--man", *asked], check=True, capture_output=True
    ).stdout
    made = subprocess.run(
        ["mandoc", "-T", "html", "-O", "fragment"], input=roff, check=True, capture_output=True
    )
    text = made.stdout.decode()
    # The page has a title of its own, and headings of Markdown make its table of contents.
    text = re.sub(
        r'<table class="(head|foot)">.*?</table>|</?section[^>]*>|</?div[^>]*>',
        "",
        text,
        flags=re.S,
    )
    text = re.sub(r"<a class=\"permalink\"[^>]*>(.*?)</a>", r"\1", text, flags=re.S)
    text = re.sub(r'<dt id="[^"]*">(.*?--([a-z0-9-]+))', r'<dt id="--\2">\1', text, flags=re.S)
    text = re.sub(r"<pre>(.*?)</pre>", lambda found: prose.code(found[1]), text, flags=re.S)
    parts = re.split(r'<h[12] class="(Sh|Ss)"[^>]*>(.*?)</h[12]>', text, flags=re.S)
    out = [f"# {' '.join(['esscher', *asked])}", ""]
    for level, heading, body in zip(parts[1::3], parts[2::3], parts[3::3]):
        heading = " ".join(re.sub(r"<[^>]*>", "", heading).split())
        if heading != "NAME":
            out += [f"{'##' if level == 'Sh' else '###'} {heading.capitalize()}", ""]
        out += ['<div class="manual" markdown="0">', link(body.strip(), commands), "</div>", ""]
    return "\n".join(out)


def link(text, commands):
    """Names of pages, esscher-probe(1), as links to them."""

    def to(found):
        name = found["command"]
        if name and name not in commands:
            return found[0]
        return f'<a href="{name or "index"}.html">{found[0]}</a>'

    return re.sub(r"(?:<b>)?esscher(?:-(?P<command>[a-z-]+))?(?:</b>)?\(1\)", to, text)
