/* SPDX-License-Identifier: Apache-2.0 */
/* Search in a site that is read from a folder: browsers then refuse to start the theme's worker and to fetch its index. The
 * theme asks `__search` for both first. build.py puts the worker's source, `search_worker`, above this, and writes index.js,
 * which calls search_ready() and is loaded when somebody begins to search. */
var search_ready;
__search = {
  worker: URL.createObjectURL(new Blob([search_worker], { type: "text/javascript" })),
  index: new Promise((resolve) => {
    search_ready = resolve;
  }),
};
{
  const index = new URL("index.js", document.currentScript.src);
  addEventListener("focusin", function load(event) {
    if (event.target.dataset.mdComponent !== "search-query") return;
    removeEventListener("focusin", load);
    const script = document.createElement("script");
    script.src = index;
    document.head.append(script);
  });
}
