# Man pages are made from the same tables as help.
for command in measure theory info bench; do
for command in measure hardmax info bench; do
for command in measure info bench export; do
    esscher help --man $command >page || exit 1
    grep -E '^\.(TH|SH)' page
done
