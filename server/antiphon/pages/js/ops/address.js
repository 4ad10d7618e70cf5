/** What is shown stands in the address: filters, order, the run or panel that is open. */

/**
 * @typedef {'created' | 'state' | 'agent' | 'model' | 'tenant' | 'step' | 'tool' | 'age' | 'tokens' | 'rate' | 'cost'
 *   | 'clients' | 'pending'} SortKey
 *
 * @typedef {object} View
 * @property {string} tenant empty: the caller's own; `*`: all (admins)
 * @property {string[]} state @property {string} agent @property {string} model @property {string} principal
 * @property {string} text
 * @property {SortKey} sort @property {boolean} descending
 * @property {string} run id of the run that is open, or empty
 * @property {boolean} server whether the panel about the server is open
 */

/** @type {readonly string[]} */
export const SORT_KEYS = [
  'created',
  'state',
  'agent',
  'model',
  'tenant',
  'step',
  'tool',
  'age',
  'tokens',
  'rate',
  'cost',
  'clients',
  'pending',
];
const ONE = /** @type {const} */ (['tenant', 'agent', 'model', 'principal', 'text', 'run']);
/** Far longer than any id or name; an address is typed by anybody. */
const LONGEST = 300;

/** @returns {View} newest first, everything of the caller's tenant */
export const plainView = () => ({
  tenant: '',
  state: [],
  agent: '',
  model: '',
  principal: '',
  text: '',
  sort: 'created',
  descending: true,
  run: '',
  server: false,
});

/** @param {string} search of the location @returns {View} */
export function viewOf(search) {
  const given = new URLSearchParams(search);
  const view = plainView();
  for (const name of ONE) view[name] = (given.get(name) ?? '').slice(0, LONGEST);
  view.state = [...new Set(given.getAll('state'))].slice(0, 7);
  const sort = given.get('sort') ?? '';
  const key = sort.replace(/^-/, '');
  if (SORT_KEYS.includes(key)) {
    view.sort = /** @type {SortKey} */ (key);
    view.descending = sort.startsWith('-');
  }
  view.server = given.get('panel') === 'server' && !view.run;
  return view;
}

/** @param {View} view @returns {string} empty for the plain view, else with its question mark */
export function searchOf(view) {
  const said = new URLSearchParams();
  for (const name of ONE) if (view[name]) said.set(name, view[name]);
  for (const state of view.state) said.append('state', state);
  const sort = `${view.descending ? '-' : ''}${view.sort}`;
  if (sort !== '-created') said.set('sort', sort);
  if (view.server && !view.run) said.set('panel', 'server');
  const text = said.toString();
  return text && `?${text}`;
}

/** @param {View} view */
export const isFiltered = (view) =>
  view.state.length > 0 || Boolean(view.agent || view.model || view.principal || view.text);
