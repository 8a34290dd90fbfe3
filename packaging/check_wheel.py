# SPDX-License-Identifier: Apache-2.0
"""check_wheel.py WHEEL : what the library in a wheel needs, shows and knows, against what it may.

Like auditwheel, which would also copy foreign libraries into the wheel. Ours are those of the
system, and the platform tag says so: linux_x86_64, not manylinux.
"""

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

# Debian 12 and 13, Ubuntu 24.04: the packages of docs/INSTALL.md have them.
ALLOWED = {
    "libblas.so.3",  # if OpenBLAS is installed under this name
    "libc.so.6",
    "libgomp.so.1",
    "libjansson.so.4",
    "liblapacke.so.3",
    "libm.so.6",
    "libopenblas.so.0",
    "libpcre2-8.so.0",
    "libsqlite3.so.0",
    "libutf8proc.so.2",
    "libutf8proc.so.3",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
}


def lines_of(*command: str) -> list[str]:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def complaints_about(library: Path) -> list[str]:
    """What is wrong with the library; what it needs is printed."""
    dynamic = lines_of("readelf", "-dW", str(library))
    needed = [m.group(1) for line in dynamic if (m := re.search(r"\(NEEDED\).*\[(.*)\]", line))]
    soname = [m.group(1) for line in dynamic if (m := re.search(r"\(SONAME\).*\[(.*)\]", line))]
    paths = [line.strip() for line in dynamic if re.search(r"\((RPATH|RUNPATH)\)", line)]
    symbols = lines_of("nm", "-D", "--defined-only", str(library))
    shown = [line.split()[-1].split("@")[0] for line in symbols]
    versions = re.findall(r"GLIBC_([\d.]+)", "\n".join(lines_of("readelf", "-VW", str(library))))
    glibc = max(versions, key=lambda v: [int(part) for part in v.split(".")], default="none")
    print("needs:", ", ".join(needed))
    print(f"GLIBC: {glibc} or newer; {len(shown)} symbols, SONAME", *soname)

    wrong = [f"needs {name}, which is not in the list" for name in needed if name not in ALLOWED]
    wrong += [f"shows the symbol {name}" for name in shown if not name.startswith("es_")]
    wrong += [f"has a search path: {line}" for line in paths]
    if soname != [library.name]:
        wrong.append(f"calls itself {soname}, not {library.name}")
    if not shown or not needed:
        wrong.append("shows or needs nothing: is it a library of Esscher?")
    return wrong


def main(wheel: str) -> int:
    wrong = []
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        names = archive.namelist()
        if not re.search(r"-py3-none-linux_\w+\.whl$", wheel):
            wrong.append("is not tagged py3-none-linux_*")
        wrong += [f"holds {n}" for n in names if not re.match(r"esscher(-[\d.]+\.dist-info)?/", n)]
        for needed in ("LICENSE", "NOTICE"):
            if not any(name.endswith(needed) for name in names):
                wrong.append(f"holds no {needed}")
        libraries = [name for name in names if ".so" in name]
        if len(libraries) != 1:
            wrong.append(f"holds {len(libraries)} libraries, not one")
        for name in libraries:
            wrong += complaints_about(Path(archive.extract(name, folder)))
    for complaint in wrong:
        print(f"FAIL: {Path(wheel).name} {complaint}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
