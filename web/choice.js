/* SPDX-License-Identifier: Apache-2.0 */
// choice.js : several figures in one place. The reader picks one, from a list, along a slider, or by a click in another
// figure.
import { element } from "./elements.js";
import { mount } from "./mount.js";

// Names of a long list stand below those of their groups.
function listOf(options) {
  const made = new Map();
  return options.flatMap(({ name, group }) => {
    if (!group) return [new Option(name)];
    const box = made.get(group) ?? document.createElement("optgroup");
    box.append(new Option(name));
    if (made.has(group)) return [];
    box.label = group;
    made.set(group, box);
    return [box];
  });
}

// given: {label, options: [{name, group, pick, figure}], picks, slider}, figure a function: most are never looked at.
// With `picks` the choice is the run's selection; with `slider` options have an order, and a slider goes through them.
export function mountChoice(place, given, run, id) {
  if (given.slider) mountSlider(place, given, run, id);
  else mountList(place, given, run, id);
}

// The browser's own slider: arrow keys go one on, Home and End to the ends, and what is chosen is said by its name.
function mountSlider(place, { label, options }, run, id) {
  const last = options.length - 1;
  const input = element("input", { type: "range", id: `${id}-choice`, min: 0, max: last, step: 1, value: 0 });
  const said = element("output", { for: input.id });
  const slot = element("div");
  const words = element("label", { for: input.id }, label);
  const box = element("div", { class: "choice" }, words, " ", input, " ", said, slot);
  let stop = new AbortController();
  let at = -1;
  place.append(box);
  const show = () => {
    if (Number(input.value) === at) return;
    at = Number(input.value);
    stop.abort();
    stop = new AbortController();
    said.textContent = options[at].name;
    input.setAttribute("aria-valuetext", options[at].name);
    slot.style.minHeight = `${slot.offsetHeight}px`; // the page does not jump while figures change
    slot.replaceChildren();
    mount(slot, options[at].figure(), run, id, stop.signal);
  };
  input.addEventListener("input", show);
  show();
}

function mountList(place, { label, options, picks }, run, id) {
  const box = document.createElement("div");
  const words = document.createElement("label");
  const select = document.createElement("select");
  const slot = document.createElement("div");
  let stop = new AbortController();
  box.className = "choice";
  select.id = `${id}-choice`;
  select.append(...listOf(options));
  words.htmlFor = select.id;
  words.append(label);
  box.append(words, " ", select, slot);
  place.append(box);
  const show = () => {
    stop.abort(); // the figure before hears nothing any more
    stop = new AbortController();
    slot.replaceChildren();
    mount(slot, options[select.selectedIndex].figure(), run, id, stop.signal);
  };
  select.addEventListener("change", () => {
    if (!picks) return show();
    run.selection.set(options[select.selectedIndex].pick);
  });
  // Is something selected that is among these? Where nothing is, the curves stay.
  const follow = () => {
    const index = options.findIndex(({ pick }) => pick === run.selection.pick);
    if (index >= 0) select.selectedIndex = index;
    return index >= 0;
  };
  if (picks) {
    follow(); // figures that were folded may come after the selection
    run.selection.addEventListener("change", () => follow() && show());
  }
  show();
}
