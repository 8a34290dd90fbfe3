# SPDX-License-Identifier: Apache-2.0
"""Python modules as pages: signatures and docstrings, read from the source without running it."""

import ast
import re
import textwrap


def make(source, target):
    """A page for the package in the folder `source`, and for each module whose names it offers; none if there is no package."""
    if not (source / "__init__.py").exists():
        return
    package = ast.parse((source / "__init__.py").read_text())
    target.mkdir(parents=True)
    listed = []
    for node in package.body:
        if (
            not isinstance(node, ast.ImportFrom)
            or node.level != 1
            or not node.module
            or node.module.startswith("_")
        ):
            continue
        module = ast.parse((source / f"{node.module}.py").read_text())
        (target / f"{node.module}.md").write_text(render(f"{source.name}.{node.module}", module))
        shown = {each.name for each in module.body if describe(each, 2)}
        names = [name.name for name in node.names if name.name in shown]
        if names:
            listed.append(
                f"- [`{node.module}`]({node.module}.md): "
                + ", ".join(f"[`{name}`]({node.module}.md#{name.lower()})" for name in names)
            )
    (target / "index.md").write_text(
        render(source.name, package) + "\n## What it offers\n\n" + "\n".join(listed) + "\n"
    )


def render(name, module):
    out = [f"# {name}", "", markdown(ast.get_docstring(module) or ""), ""]
    for node in module.body:
        out += describe(node, 2)
    return "\n".join(out)


def describe(node, level):
    """A function or class with its docstring; a class's methods below it."""
    if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) or node.name.startswith("_"):
        return []
    said = ast.get_docstring(node)
    if not said:
        return []
    out = [
        f"{'#' * level} {node.name}",
        "",
        "```python",
        signature(node),
        "```",
        "",
        markdown(said),
        "",
    ]
    for each in node.body if isinstance(node, ast.ClassDef) else []:
        out += describe(each, level + 1)
    return out


def signature(node):
    marks = "".join(f"@{ast.unparse(mark)}\n" for mark in node.decorator_list)
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(ast.unparse(base) for base in node.bases)
        return f"{marks}class {node.name}({bases})" if bases else f"{marks}class {node.name}"
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{marks}{node.name}({ast.unparse(node.args)}){returns}"


def markdown(text):
    """A docstring as Markdown: "Args:" and the like become lists, examples and what follows "::" become blocks."""
    text = re.sub(r":(?:class|func|meth):`([^`]*)`", r"`\1`", text).replace("``", "`")
    out, lines, at = [], text.split("\n"), 0
    while at < len(lines):
        row = lines[at]
        end = at + 1
        while end < len(lines) and (not lines[end].strip() or lines[end].startswith("    ")):
            end += 1
        inside = textwrap.dedent("\n".join(lines[at + 1 : end])).strip("\n")
        if re.fullmatch(r"[A-Z][a-z]+:", row) and inside:
            out += [f"**{row[:-1]}**", "", items(inside), ""]
            at = end
        elif row.endswith("::"):
            while not lines[end - 1].strip():
                end -= 1
            out += [row[:-1], "", "```python", inside, "```"]
            at = end
        elif row.startswith(">>>"):
            while at < len(lines) and lines[at].strip():
                at += 1
            out += ["```pycon", *lines[end - 1 : at], "```"]
        else:
            out.append(row)
            at += 1
    return "\n".join(out)


def items(text):
    """Lines "name: what it is", with what goes on below them indented, as a list; other text as it is."""
    parts = re.split(r"^(\w[\w., *]*): ", text, flags=re.M)
    if parts[0].strip():
        return text
    return "\n".join(
        f"- `{name}`: {' '.join(said.split())}" for name, said in zip(parts[1::2], parts[2::2])
    )
