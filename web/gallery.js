/* SPDX-License-Identifier: Apache-2.0 */
// gallery.js : the figures of a run in their place: one that supports its finding at once, the others on request.
import { mountChoice } from "./choice.js";
import { mount } from "./mount.js";
import { followSelection, Selection } from "./selection.js";

// Fewest points that make a figure: four numbers are read faster in the table.
const FEWEST = 5;

// How much a figure shows: its points or cells; of one that has neither, the places of its lines.
function sizeOf({ layers }) {
  const count = (kinds) =>
    layers.filter((l) => kinds.includes(l.kind) && !l.aside && !l.plain).reduce((sum, l) => sum + l.rows.length, 0);
  return Math.max(count(["points", "cells", "tiles"]), count(["line", "band"]));
}

// Those that show enough. Of a choice the first one counts. `verdicts`: each point is a named statement, whatever their number.
export const worthwhile = (figures) =>
  figures.filter((f) => f.verdicts || sizeOf(f.options ? f.options[0].figure() : f) >= FEWEST);

// Shown at once: what its module marks as `open`, else the first.
export function split(figures) {
  const open = figures.filter((f) => f.open);
  const shown = open.length ? open : figures.slice(0, 1);
  return [shown, figures.filter((f) => !shown.includes(f))];
}

function mountAll(place, figures, run, id, from) {
  figures.forEach((figure, i) =>
    (figure.options ? mountChoice : mount)(place, figure, run, `${id}-figure-${from + i}`),
  );
}

// Figures behind a line are made when it is first opened; on paper are those that are open.
function mountMore(place, figures, run, id, from) {
  const box = document.createElement("details");
  const line = document.createElement("summary");
  const inside = document.createElement("div");
  box.className = "more-figures";
  line.textContent = `More figures (${figures.length})`;
  box.append(line, inside);
  place.append(box);
  box.addEventListener("toggle", () => box.open && mountAll(inside, figures, run, id, from), { once: true });
}

let linked = 0; // runs before this one whose heads can be picked

// place: an element of the section of the run; id: of the run's data, run-1-data.
export function mountRun(place, given, run, id) {
  const figures = worthwhile(given);
  if (!figures.length) {
    const section = place.closest(".run:not(.card)");
    const table = section?.querySelector("details.table[data-table=compare]") ?? section?.querySelector("details.table");
    if (table) table.open = true; // without a figure the numbers themselves are what there is to see
    document.querySelector(`nav.contents a[href="#${place.parentElement.id}"]`)?.parentElement.remove();
    return;
  }
  const [shown, more] = split(figures);
  const section = place.closest(".run");
  const story = section?.querySelector(".story");
  // Beside the first figure, unless a table comes first: a section begins with its title.
  if (story && !section.classList.contains("card") && story.nextElementSibling === place.parentElement) place.prepend(story);
  const curves = figures.find((f) => f.picks);
  if (curves) {
    const prefix = linked++ ? `${id.replace(/-data$/, "")}-` : "";
    run.selection = new Selection(
      curves.options.map((o) => o.pick),
      prefix,
    );
    place.addEventListener("pick", ({ detail }) => run.selection.set(detail));
  }
  mountAll(place, shown, run, id, 1);
  if (more.length) mountMore(place, more, run, id, shown.length + 1);
  if (curves) followSelection(run.selection, place, `${id}-figure-${shown.indexOf(curves) + 1}`);
}
