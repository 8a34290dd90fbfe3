/* SPDX-License-Identifier: Apache-2.0 */
// page.js : draws the figures of a report from the tables that the page carries, and lets people take these away.
//
// Everything else on the page was written by the program and is readable without this.
import { registry } from "./figures/index.js";
import { mountRun } from "./gallery.js";
import { drawAll } from "./mount.js";
import { tableOf } from "./tables.js";
import { foldTables } from "./folds.js";

function runOf(id) {
  const data = JSON.parse(document.getElementById(id).textContent);
  const run = { command: data.command, answer: data.answer, params: data.params, tables: {}, sources: {} };
  for (const [name, table] of Object.entries(data.tables)) {
    run.tables[name] = tableOf(table);
    run.sources[name] = { id: table.id, rows: table.rows, shown: table.shown, left: table.left };
  }
  return run;
}

for (const place of document.querySelectorAll(".figures")) {
  const run = runOf(place.dataset.run);
  foldTables(place.closest(".run"), run);
  const figures = Object.hasOwn(registry, run.command) ? registry[run.command](run) : [];
  mountRun(place, figures, run, place.dataset.run);
}
drawAll();
