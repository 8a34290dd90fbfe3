# SPDX-License-Identifier: Apache-2.0
# What a run file holds: a list of tables, one of them, all of it.
make_run a.run 7
esscher export a.run
esscher export a.run --csv
esscher export a.run --table rows
esscher export --table rows --csv a.run
esscher export a.run --table fits --csv
esscher export a.run --json >all.json && get_json all.json schema command run.command run.parameters.seed \
    run.parameters.n run.sessions.0.cpu stages.0.cells tables.0.name tables.1.rows.2.mean_error tables.1.rows.1
esscher export a.run --table rows --json >one.json && get_json one.json run.parameters.seed table rows.0
make_run b.run 8 2
esscher export b.run --json >part.json && get_json part.json tables stages.0.cells
ls -A
# one observation to a row; SQL that creates and fills
esscher export a.run --tidy --table rows | head -4
esscher export a.run --tidy | sed -n '1p;$p'
esscher export a.run --sql --table rows
esscher export a.run --sql | grep -c '^CREATE TABLE'
esscher export a.run --sql --csv 2>&1 | head -1
esscher export a.run --tidy --table row 2>&1 || echo $?
esscher export a.run --sql --top 1 2>&1 | head -1
