# SPDX-License-Identifier: Apache-2.0
"""A folder in which the commands of the documents find what they name: small models, texts, arrays and runs.

What is here is listed here; a name that a document uses and nobody lists is a failure.
"""

import json
import random
import re
import shutil
import struct
import subprocess

ENCODERS = """models/minilm demo/minilm minilm minilm-sst2 minilm-l6-sst2 minilm-l6-sst2-f16 all-MiniLM-L6-v2
              sentence-transformers/all-MiniLM-L6-v2 MODEL M""".split()
TEXTS = """alice.txt wiki.txt wiki-en-a.txt wiki-en-b.txt wiki-en-c.txt book.txt page.txt moby-dick.txt python.txt FILE
           first.txt second.txt a.txt b.txt demo/alice.txt code.txt""".split()
RUNS = """converge.run other.run alice.run moby-dick.run seed0.run seed1.run a.run b.run probe.run hardmax.run claims.run
          pebble.run all.run""".split()
SHAPES = {
    **{f"{name}.npy": "1x8x512x64" for name in "qkvy"},
    **{f"{name}.npy": "1x1x512x16" for name in "QKVY"},
    **{f"{name}.npy": "8x8" for name in ("Wq", "Wk", "Wv", "A", "points")},
    "causal.npy": "1x8x512x64",
    "x.npy": "8",
    "X.npy": "512x8",
    "keys.npy": "400x3",
    "scores.npy": "4x4096",
}
# Arrays of one name have other shapes where another command reads them: the first row that fits its words.
OTHERS = [
    (r"exponent", {"K.npy": "600x4", "q.npy": "1x4", "Q.npy": "4x4"}),
    (r"theory --dim 50", {"A.npy": "50x50"}),
    (r"theory", {"v.npy": "4096x8"}),
    (r"regimes", {"K.npy": "2000x3"}),
    (r"ball", {"V.npy": "8x8"}),
    (r"measure.*bnhd", {"Q.npy": "1x512x1x16", "K.npy": "1x512x1x16", "V.npy": "1x512x1x16"}),
    (r"measure.*3e4", {"Q.npy": "1x1x64x16", "K.npy": "1x1x30000x16", "V.npy": "1x1x30000x16"}),
]
LOSSES = "context,loss\n1,5.72\n4,3.46\n16,2.41\n64,1.88\n256,1.6\n1024,1.474\n4096,1.405\n"


def write_safetensors(path, tensors):
    """Tensors of normal numbers: {name: (shape, dtype, deviation)}, dtype F16 or F32."""
    chance, header, body = random.Random(0), {}, b""
    for name, (shape, dtype, deviation) in tensors.items():
        count = 1
        for size in shape:
            count *= size
        numbers = struct.pack(
            f"<{count}{'e' if dtype == 'F16' else 'f'}",
            *(chance.gauss(0, deviation) for _ in range(count)),
        )
        header[name] = {
            "dtype": dtype,
            "shape": shape,
            "data_offsets": [len(body), len(body) + len(numbers)],
        }
        body += numbers
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def write_npy(path, descr, shape, body):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + body)


class Tools:
    """Programs of the build, and the folder where stand-ins are made once and shared by all documents."""

    def __init__(self, root, esscher, make_npy, make_model, python, work):
        self.root, self.esscher, self.make_npy, self.python = root, esscher, make_npy, python
        self.shared, self.bin = work / "shared", work / "bin"
        self.shared.mkdir()
        self.bin.mkdir()
        self.make_encoder(make_model)
        text = (root / "models/pebble/alice.txt").read_bytes()
        (self.shared / "text").write_bytes(text[:90000])
        words = (
            " ".join(f"word{15 + (i * 5 + w * w * 3) % 16}" for w in range(4 + i % 7))
            for i in range(200)
        )
        (self.shared / "tasks").write_text(
            "".join(f"{text}\t{at % 2}\n" for at, text in enumerate(words))
        )
        self.make_runs()
        self.make_arrays()
        write_safetensors(
            self.shared / "dump.safetensors", {name: ([1, 10000, 4], "F32", 1) for name in "qkv"}
        )
        self.make_plan()

    def call(self, *words, **more):
        return subprocess.run(
            [str(word) for word in words], check=True, capture_output=True, **more
        )

    def make_encoder(self, make_model):
        """The small BERT of the tests, grown to the layers, heads and positions of MiniLM, which documents speak of."""
        folder = self.shared / "encoder"
        folder.mkdir()
        self.call(make_model, folder)
        config = json.loads((folder / "config.json").read_text())
        config.update(
            hidden_size=48, num_hidden_layers=6, num_attention_heads=12, max_position_embeddings=512
        )
        (folder / "config.json").write_text(json.dumps(config))
        held = (folder / "model.safetensors").read_bytes()
        header = json.loads(held[8 : 8 + struct.unpack("<Q", held[:8])[0]])
        tensors = {}
        for name, about in header.items():
            shape = [{12: 48, 40: 512}.get(size, size) for size in about.get("shape", [])]
            layers = range(6) if ".layer.0." in name else [0]
            if name != "__metadata__" and not re.search(r"\.layer\.[12]\.", name):
                tensors.update(
                    {
                        name.replace(".layer.0.", f".layer.{at}."): (shape, "F16", 0.2)
                        for at in layers
                    }
                )
        write_safetensors(folder / "model.safetensors", tensors)

    def make_runs(self):
        run = [self.esscher, "converge", "--n", "100,200,400", "--replicates", "4", "--quiet"]
        for seed in (0, 1):
            self.call(*run, "--seed", seed, "--out", self.shared / f"seed{seed}.run")
        for count in (3, 4):
            for part in range(1, count + 1):
                self.call(
                    *run,
                    "--shard",
                    f"{part}/{count}",
                    "--out",
                    self.shared / f"{part}-of-{count}.run",
                )

    def has_figures(self):
        """Was the program built with the figures of reports, and is there a Node.js to draw them?"""
        made = subprocess.run(
            [self.esscher, "report", self.shared / "seed0.run", "-o", self.shared / "r.html"],
            capture_output=True,
        )
        return made.returncode == 0 and shutil.which("node") is not None

    def make_arrays(self):
        """q, k, v, y of docs/TUTORIAL.md, where there is NumPy: documents show what is found in them."""
        self.made = {}
        self.dumped = {}
        if self.python:
            page = (self.root / "docs/TUTORIAL.md").read_text()
            script = re.search(r"^\$ cat dump\.py\n(.*?)^\$ python3 dump\.py$", page, re.M | re.S)[
                1
            ]
            self.call(self.python, "-c", script, cwd=self.shared)
            self.dumped = {f"{name}.npy": self.shared / f"{name}.npy" for name in "qkvy"}

    def make_plan(self):
        """A plan for the encoder: every head keeps its 64 largest weights."""
        shape = {
            "model_type": "bert",
            "layers": 6,
            "heads": 12,
            "kv_heads": 12,
            "head_dim": 4,
            "hidden": 48,
            "vocab": 31,
            "window": 0,
            "causal": False,
        }
        heads = [
            {"head": at, "group": at, "policy": "top", "keys": 64, "correction": "none"}
            for at in range(12)
        ]
        plan = {
            "schema": "esscher-plan/2",
            "model": shape,
            "context": 512,
            "keys_kept": 6 * 12 * 64,
            "keys_all": 6 * 12 * 512,
            "layers": [{"layer": at, "heads": heads} for at in range(6)],
        }
        (self.shared / "plan").write_text(json.dumps(plan))

    def array(self, name, shape):
        """An array of normal numbers, made when it is asked for first."""
        if (name, shape) not in self.made:
            path = self.shared / f"{shape}-{name}"
            self.call(self.make_npy, path, "f32", shape, "normal", len(self.made))
            self.made[name, shape] = path
        return self.made[name, shape]


def link(target, name):
    name.parent.mkdir(parents=True, exist_ok=True)
    name.unlink(missing_ok=True)
    name.symlink_to(target)


def furnish(tools, folder):
    """All stand-ins into a folder that is empty, but for the arrays of dress()."""
    root, shared = tools.root, tools.shared
    for name in ("models/pebble", "models/full", "models/quantised", "demo/minimind"):
        link(root / "models/pebble", folder / name)
    for names, target in (
        (ENCODERS, "encoder"),
        (TEXTS, "text"),
        (["sst2.tsv"], "tasks"),
        (["dump.safetensors"],) * 2,
        (["model.plan.json", "sst2.plan.json"], "plan"),
    ):
        for name in names:
            link(shared / (target if isinstance(target, str) else name), folder / name)
    for at, name in enumerate(RUNS):
        link(shared / f"seed{at % 2}.run", folder / name)
    for part in range(1, 5):
        link(shared / f"{part}-of-4.run", folder / f"part-{part}.run")
    for part in range(1, 4):
        link(shared / f"{part}-of-3.run", folder / f"shared/{part}.run")
    (folder / "loss.csv").write_text(LOSSES)
    (folder / "eval.csv").write_text(
        "ctx,nll,stderr\n" + "".join(f"{row},0.01\n" for row in LOSSES.split()[1:])
    )
    for name in ("pebble.plan.json", "cache.plan.json"):
        shutil.copy(root / "examples/plan/pebble.plan.json", folder / name)
    write_npy(
        folder / "S.npy",
        "<f8",
        (8, 8),
        struct.pack("<64d", *(float(i % 9 == 0) for i in range(64))),
    )
    write_npy(folder / "P.npy", "<i8", (512,), struct.pack("<512q", *range(512)))
    furnish_decoder(root, folder)
    # Programs of the repository have to be there, and are not run.
    for path in (root / "bench").iterdir():
        for place in (
            folder / "bench" / path.name,
            folder / "build/release/tests" / f"bench_{path.stem}",
        ):
            link(tools.bin / "true", place)
    link(tools.bin / "do", folder / "do")
    dress(tools, folder, "")


def furnish_decoder(root, folder):
    """FOLDER, a decoder with ids and the logits that another program gave: documents compare with these."""
    decoder = root / "tests/golden/decoders/llama"
    link(decoder, folder / "FOLDER")
    link(decoder / "ids.npy", folder / "ids.npy")
    link(decoder / "logits.npy", folder / "theirs.npy")


def dress(tools, folder, command):
    """Arrays, of the shapes that the command wants. What a document has made itself stays."""
    others = next(
        (shapes for words, shapes in OTHERS if re.search(f"esscher {words}", command)), {}
    )
    for name, shape in SHAPES.items():
        path = folder / name
        if path.is_symlink() or not path.exists():
            wanted = others.get(name)
            link(
                tools.array(name, wanted)
                if wanted
                else tools.dumped.get(name) or tools.array(name, shape),
                path,
            )
