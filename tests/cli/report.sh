# SPDX-License-Identifier: Apache-2.0
# A page from run files: what is said, what is refused, what is left behind.
make_run a.run 7
make_run b.run 8 2
esscher report a.run b.run --no-figures -o page.html --title 'Two runs'
grep -c '<section class="run' page.html
grep -o '<title>.*</title>' page.html
esscher report a.run --no-figures -o page.html; echo "rc=$?"
esscher report a.run --no-figures -o page.html --force --json >out.json && get_json out.json command report.runs report.path
esscher report; echo "rc=$?"
esscher report none.run --no-figures -o x.html; echo "rc=$?"
echo nonsense >text.run
esscher report a.run text.run --no-figures -o x.html; echo "rc=$?"
esscher report a.run --no-figures -o no/such/folder.html; echo "rc=$?"
esscher report a.run --no-figures --max-memory 1K -o x.html; echo "rc=$?"
ls -A
