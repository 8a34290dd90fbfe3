# Man pages are made from the same tables as help.
for command in measure converge hardmax limit theory export tokenize encode info bench; do
    esscher help --man $command >page || exit 1
    grep -E '^\.(TH|SH)' page
done
