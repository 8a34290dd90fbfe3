// choice.js : several figures in one place. The reader picks one, from a list or by a click in another figure.
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

// given: {label, options: [{name, group, pick, figure}], picks}, figure a function: most are never looked at. With
// `picks` the choice is the run's selection.
export function mountChoice(place, { label, options, picks }, run, id) {
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
  if (picks)
    run.selection.addEventListener("change", () => {
      const index = options.findIndex(({ pick }) => pick === run.selection.pick);
      if (index < 0) return; // nothing is selected: the curves stay
      select.selectedIndex = index;
      show();
    });
  show();
}
