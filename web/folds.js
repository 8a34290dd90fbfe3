/* SPDX-License-Identifier: Apache-2.0 */
// folds.js : what is folded: tables to take away as CSV, rows as cards where the page is narrow, links that open what
// they point to.
import { digitsOfCsv } from "./chart.js";
import { downloadCsv, element } from "./elements.js";

// A button for every table of a run, and what it does not give.
function csvButton(run, name) {
  const { rows, shown, left } = run.sources[name];
  const columns = Object.keys(run.tables[name][0] ?? {}).length;
  const button = element("button", { type: "button" }, "Save as CSV");
  button.addEventListener("click", () => downloadCsv(`${run.command}-${name}`, run.tables[name]));
  return element(
    "p",
    { class: "save csv" },
    button,
    left
      ? `${left} The command below gives all.`
      : `${shown === rows && rows > 1 ? "all " : ""}${shown} row${shown === 1 ? "" : "s"}, ${columns} column${columns === 1 ? "" : "s"}, ${digitsOfCsv}`,
  );
}

// On a narrow page each row is a card whose lines need names. Tables are given them when they are opened.
function nameCells(table) {
  if (table.dataset.named) return;
  table.dataset.named = "yes";
  const heads = [...table.querySelectorAll("thead th")];
  const role = (nodes, value) => nodes.forEach((node) => node.setAttribute("role", value));
  role([table], "table"); // cards are no table to a browser; they are to a screen reader
  role(table.querySelectorAll("thead, tbody"), "rowgroup");
  role(table.querySelectorAll("tr"), "row");
  role(heads, "columnheader");
  for (const row of table.tBodies[0].rows)
    [...row.cells].forEach((cell, j) => {
      cell.setAttribute("role", cell.tagName === "TH" ? "rowheader" : "cell");
      if (!heads[j]) return;
      const label = element("span", { class: "label", "aria-hidden": "true" });
      label.append(...[...heads[j].childNodes].map((node) => node.cloneNode(true)));
      cell.prepend(label);
    });
}

// Links point to what may be folded.
function reveal() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
  if (target?.matches("details, details *")) target.scrollIntoView();
}
addEventListener("hashchange", reveal);
addEventListener("DOMContentLoaded", reveal);
addEventListener("click", (event) => {
  const link = event.target.closest?.('a[href^="#"]');
  if (link && link.hash === location.hash) reveal(); // the same again: no hashchange
});

const narrow = matchMedia("(max-width: 40rem)");

export function foldTables(section, run) {
  for (const place of section.querySelectorAll("[data-table]")) {
    const { table: name } = place.dataset;
    if (!Object.hasOwn(run.tables, name)) continue;
    (place.querySelector(":scope > summary, :scope > h3") ?? place).after(csvButton(run, name));
    const open = () => {
      if (narrow.matches && place.open)
        place.querySelectorAll(".scroll > table:not(.pairs)").forEach(nameCells);
    };
    place.addEventListener("toggle", open);
    narrow.addEventListener("change", open);
  }
}
