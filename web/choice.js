// choice.js : several figures in one place. The reader picks one, from a list or by a click in another figure.
import { mount } from "./mount.js";

// given: {label, options: [{name, figure}]}, figure a function: most are never looked at.
export function mountChoice(place, { label, options }, run, id) {
  const box = document.createElement("div");
  const words = document.createElement("label");
  const select = document.createElement("select");
  const slot = document.createElement("div");
  let stop = new AbortController();
  box.className = "choice";
  select.id = `${id}-choice`;
  select.append(...options.map(({ name }) => new Option(name)));
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
  select.addEventListener("change", show);
  place.addEventListener("pick", ({ detail }) => {
    const index = options.findIndex(({ name }) => name === detail);
    if (index < 0) return;
    select.selectedIndex = index;
    show();
    box.scrollIntoView({ block: "nearest" });
  });
  show();
}
