// Draws a table of results as it is chosen: points and lines of y against x, a Pareto front, and y over x and colour as a heat map.
const count = rows.get_length();
const along = x.value, up = y.value, by = hue.value;
const shows = (choice) => more.active.includes(choice);
const ofHue = (row) => (by === none ? null : rows.data[by][row]);
const wordOf = (column, cell) => known[column].find(([each]) => each === cell)[1];

// A number of a column as text, in its unit; anything else as it is known.
const textOf = (column, cell) =>
  typeof cell === "number" ? (cell / scales[column]).toLocaleString("en", {maximumSignificantDigits: 6}) : wordOf(column, cell);

// A column as places on an axis: numbers by their size, unless places are asked for; anything else at 0, 1, ...
function placed(column, inPlaces) {
  if (numeric.includes(column) && !inPlaces) return {at: (cell) => cell, names: null};
  const cells = known[column].map(([cell]) => cell);
  return {at: (cell) => cells.indexOf(cell), names: known[column].map(([_, word]) => word)};
}

function label(axis, numbers, named, column, names) {
  // Names along an axis are those of the column: only numbers by their size are in another unit.
  axis.axis_label = names === null || column === "" || scales[column] === 1 ? (labels[column] ?? "") : labels[column].replace(/ \([^)]*\)$/, "");
  axis.formatter.args = {scale: names === null ? scales[column] : 1};
  if (names !== null) named.ticks = names.map((_, place) => place).filter((place) => place % Math.ceil(names.length / 20) === 0);
  axis.major_label_overrides = new Map((names ?? []).map((name, place) => [place, name]));
  axis.ticker = names === null ? numbers : named;
}

const onX = placed(along, false);
const hues = by === none ? [null] : known[by].map(([cell]) => cell);
const colourOf = (row) => palette[hues.indexOf(ofHue(row)) % palette.length];
const places = Array.from({length: count}, (_, row) => row);
const xOf = (row) => onX.at(rows.data[along][row]);
const yOf = (row) => rows.data[up][row];

points.data = {
  x: places.map(xOf),
  y: places.map(yOf),
  colour: places.map(colourOf),
  label: places.map((row) => (by === none ? "all" : `${labels[by]}: ${textOf(by, ofHue(row))}`)),
  row: places.map((row) => row + 1),
  x_text: places.map((row) => `${textOf(along, rows.data[along][row])}  ${labels[along]}`),
  y_text: places.map((row) => `${textOf(up, yOf(row))}  ${labels[up]}`),
};

// What the colours mean, in HTML: as many as there are, on every screen.
const legendOf = document.getElementById(legend);
if (legendOf !== null)
  legendOf.replaceChildren(
    ...(by === none ? [] : [Object.assign(document.createElement("b"), {textContent: labels[by]})]),
    ...(by === none ? [] : hues).map((value, place) => {
      const entry = document.createElement("span"), mark = document.createElement("i");
      mark.style.background = palette[place % palette.length];
      entry.append(mark, textOf(by, value));
      return entry;
    }),
  );

// Both axes show all points, with room around them; one of numbers that are not far from 0 begins there.
function fit(range, values, names) {
  let [low, high] = names === null ? [Math.min(...values), Math.max(...values)] : [0, names.length - 1];
  if (names === null && low > 0 && low < 0.5 * high) low = 0;
  const room = names === null ? 0.05 * (high - low || Math.abs(high) || 1) : 0.5;
  const [start, end] = [low === 0 && names === null ? 0 : low - room, high + room];
  range.setv({start, end, reset_start: start, reset_end: end});
}
fit(plot.x_range, points.data.x, onX.names);
fit(plot.y_range, points.data.y, null);

// Lines go through the best row of each x.
const best = (one, other) => ((shows(2) ? yOf(one) >= yOf(other) : yOf(one) <= yOf(other)) ? one : other);
const joined = {xs: [], ys: [], colour: []};
if (shows(0))
  for (const value of hues) {
    const own = new Map();
    for (const row of places.filter((row) => ofHue(row) === value)) own.set(xOf(row), best(own.get(xOf(row)) ?? row, row));
    const line = [...own.values()].sort((one, other) => xOf(one) - xOf(other));
    joined.xs.push(line.map(xOf));
    joined.ys.push(line.map(yOf));
    joined.colour.push(palette[hues.indexOf(value) % palette.length]);
  }
lines.data = joined;

// Rows that no other is as good as in both coordinates and better in one.
const ends = [];
if (shows(1) && onX.names === null) {
  const [signX, signY] = [shows(3) ? -1 : 1, shows(2) ? -1 : 1];
  const order = [...places].sort((one, other) => signX * (xOf(one) - xOf(other)) || signY * (yOf(one) - yOf(other)) || one - other);
  for (const row of order)
    if (ends.length === 0 || signY * yOf(row) < signY * yOf(ends[ends.length - 1])) ends.push(row);
}
front.data = {x: ends.map(xOf), y: ends.map(yOf)};

plot.title.text = `${labels[up]} against ${labels[along]}`;
label(plot_x, plot_x_numbers, plot_x_names, along, onX.names);
label(plot_y, plot_y_numbers, plot_y_names, up, null);

// The best row of each cell.
const inCells = new Map();
const [heatX, heatY] = [placed(along, true), by === none ? {at: () => 0, names: [""]} : placed(by, true)];
for (const row of places) {
  const key = `${heatX.at(rows.data[along][row])} ${heatY.at(ofHue(row))}`;
  const cell = inCells.get(key) ?? {row, rows: 0};
  inCells.set(key, {row: best(cell.row, row), rows: cell.rows + 1});
}
const keys = [...inCells.keys()].map((key) => key.split(" ").map(Number));
cells.data = {
  x: keys.map(([place]) => place),
  y: keys.map(([_, place]) => place),
  value: [...inCells.values()].map((cell) => yOf(cell.row)),
  rows: [...inCells.values()].map((cell) => cell.rows),
  text: [...inCells.values()].map((cell) => `${textOf(up, yOf(cell.row))}  ${labels[up]}`),
};
bar.title = labels[up];
bar.formatter.args = {scale: scales[up]};
mapper.low = Math.min(...cells.data.value);
mapper.high = Math.max(...cells.data.value);
const several = cells.data.rows.some((each) => each > 1) ? `, ${shows(2) ? "highest" : "lowest"} of the rows of a cell` : "";
heat.title.text = `${labels[up]} over ${labels[along]}${by === none ? "" : ` and ${labels[by]}`}${several}`;
label(heat_x, heat_x_numbers, heat_x_names, along, heatX.names);
label(heat_y, heat_y_numbers, heat_y_names, by === none ? "" : by, heatY.names);
for (const [range, names] of [[heat.x_range, heatX.names], [heat.y_range, heatY.names]]) {
  range.start = -0.5;
  range.end = names.length - 0.5;
}
