// What a page can start from: the problem that was opened, grids, and worlds that the server has.

const GRIDS = {
  maze: "Maze: a short corridor or a long way round",
  drift: "Drifted world of the paper",
  bridge: "Bridge and two ways round",
  rooms: "Rooms, 20 × 20",
  blank: "Blank, 12 × 12",
};
const WORLDS = {
  inventory: "Inventory: how much to order",
  queue: "Service desk: whom to admit, how fast to serve",
  clinic: "Clinic: whom to treat next",
};
// what stands before the name of a world in the list
const OF_WORLD = "world:";

/** The world that an entry of the list stands for; null where it is none. */
export function worldOf(value) {
  return value.startsWith(OF_WORLD) ? value.slice(OF_WORLD.length) : null;
}

/** Fill the list; `opened` is the model that was opened, `brought` what it came from if the page asked for it. */
export function offerExamples(list, { examples, worlds }, opened, brought) {
  const isWorld = brought !== null && "world" in brought;
  const entries = Object.keys(examples).map((name) => new Option(GRIDS[name] ?? name, name));
  // a world that is open is in the list already
  const others = worlds.filter((name) => !isWorld || name !== opened.name);
  entries.push(...others.map((name) => new Option(WORLDS[name] ?? name, OF_WORLD + name)));
  if (opened !== null) entries.unshift(new Option((isWorld && WORLDS[opened.name]) || opened.name, ""));
  list.replaceChildren(...entries);
}
