# SPDX-License-Identifier: Apache-2.0
"""Code blocks of Markdown: fenced, with the word after the fence, or indented by four columns."""

import re
from dataclasses import dataclass


@dataclass
class Block:
    file: str
    line: int  # of its first line of text
    info: str  # the fence's word, "" without one, "indented" without a fence
    lines: list

    @property
    def text(self):
        return "\n".join(self.lines) + "\n"

    def __str__(self):
        return f"{self.file}:{self.line}"


def read(file, text):
    """The blocks of a document, in order. In an item of a list, what is indented is prose up to its own columns."""
    lines, blocks, at, item = text.split("\n"), [], 0, 0
    while at < len(lines):
        row = lines[at]
        fence = re.match(r"```+\s*(.*)", row)
        begins = re.match(r"([-*]|\d+\.) ", row)
        if fence:
            end = at + 1
            while lines[end] != "```":
                end += 1
            blocks.append(Block(file, at + 2, fence[1].strip(), lines[at + 1 : end]))
            at = end + 1
            continue
        if begins or row.strip() and not row.startswith(" "):
            item = begins.end() if begins else 0
        margin = " " * (4 + item)
        if row.startswith(margin) and (at == 0 or not lines[at - 1].strip()):
            end = at
            while end < len(lines) and (lines[end].startswith(margin) or not lines[end].strip()):
                end += 1
            body = [each[len(margin) :] for each in lines[at:end]]
            while not body[-1].strip():
                body.pop()
            blocks.append(Block(file, at + 1, "indented", body))
            at = end
            continue
        at += 1
    return blocks


def commands(lines):
    """(offset, command) of shell text: lines that go on are joined; empty lines and lines of comment are left out."""
    held, start = [], 0
    for offset, row in enumerate(lines):
        if not held:
            start = offset
        held.append(row)
        if row.endswith("\\"):
            continue
        whole = "\n".join(held)
        if whole.strip() and not whole.lstrip().startswith("#"):
            yield start, whole
        held = []


def transcript(lines):
    """(offset, command, what was printed) of a terminal's text, where commands begin with "$ "."""
    turns = []
    for offset, row in enumerate(lines):
        if row.startswith("$ "):
            turns.append([offset, [row[2:]], []])
        elif turns and not turns[-1][2] and turns[-1][1][-1].endswith("\\"):
            turns[-1][1].append(row)
        elif turns:
            turns[-1][2].append(row)
        else:
            raise ValueError("a transcript begins with a command")
    return [(offset, "\n".join(command), printed) for offset, command, printed in turns]
