# SPDX-License-Identifier: Apache-2.0
# SQL of a run whose tables or columns have names that SQL does not tell apart: they are numbered, and a database takes it.
make_run twins.run 7 3 twins
esscher export twins.run --sql >twins.sql
grep '^CREATE TABLE' twins.sql
esscher export twins.run --sql --table Rows
command -v sqlite3 >/dev/null || { echo 'skipped: no sqlite3 (Debian package sqlite3)' && exit 77; }
sqlite3 -bail twins.db <twins.sql && sqlite3 twins.db 'SELECT sum(n), sum(n_3), sum(n_2_4) FROM _run_6'
