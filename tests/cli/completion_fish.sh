# SPDX-License-Identifier: Apache-2.0
# Completion in fish offers what bash does, and says what it is.
command -v fish >/dev/null || { echo "skipped: fish is not installed (Debian package fish)"; exit 77; }
esscher help --completion fish >complete.fish
esscher converge --n 10..100*3 --replicates 4 --quiet --out a.run >nothing
cat >ask.fish <<'ASK'
source complete.fish
for line in "esscher conv" "esscher converge --la" "esscher converge --law s" "esscher converge -d " \
    "esscher converge -o a." "esscher converge a" "esscher claims --only hard" "esscher export a." \
    "esscher export a.run --table f" "esscher measure --q a." "esscher help hard" "esscher help --completion "
    echo "$line:" (complete -C $line | string replace -r '\t.*' '')
end
complete -C "esscher conv" | string replace \t " = "
ASK
HOME=$PWD fish --no-config ask.fish
