/**
 * What the modules of the page speak of.
 *
 * @typedef {import('../../vendor/antiphon.js').RunState} RunState
 * @typedef {RunState['state']} State
 *
 * @typedef {object} Row one run in the table
 * @property {string} id
 * @property {RunState} run as the feed has it
 * @property {number} head number of the newest event that is known of
 * @property {boolean} isKnown whether its head is as new as the feed is; a state tells the head of its last change
 * @property {number} counted output tokens as they were last counted
 * @property {number} countedHead number of the newest event when they were
 * @property {number} outputTokens so far: those that are counted, and about as many as events came since
 * @property {number} tokensPerS output tokens a second, over the last few seconds; 0 while nothing comes
 * @property {number} measuredAt Unix seconds of the last measurement of its progress
 * @property {import('./series.js').Growth} growth of its output tokens
 *
 * @typedef {'viewer' | 'driver' | 'operator' | 'admin'} Role
 * @typedef {{id: string, tenant: string, role: Role}} Caller
 *
 * @typedef {{response_id: string, head: number, output_tokens?: number | null}} Progress
 *
 * @typedef {{p50: number, p99: number, count?: number} | null} Quantiles milliseconds
 *
 * @typedef {object} Node one that is silent tells nothing but its id and state
 * @property {string} id
 * @property {boolean} self
 * @property {string} state
 * @property {string | null} version
 * @property {number | null} started_at
 * @property {number | null} live_runs
 * @property {number | null} sockets
 * @property {number | null} loop_lag_ms
 * @property {{expires_at: number} | null} lease
 *
 * @typedef {object} UpstreamStatus
 * @property {string} name
 * @property {string} breaker
 * @property {number} failures
 * @property {number | null} open_until
 * @property {number} calls
 * @property {Quantiles} latency_ms
 *
 * @typedef {object} Totals
 * @property {number} runs_started
 * @property {number} runs_live
 * @property {number} events
 * @property {number} output_tokens
 * @property {Quantiles} first_token_ms
 * @property {Record<string, number>} errors
 *
 * @typedef {object} ServerStatus the answer of `GET /v1/admin/status`
 * @property {number} at
 * @property {string} version
 * @property {string} node
 * @property {Node[]} nodes
 * @property {UpstreamStatus[]} upstreams
 * @property {{kind: string, healthy: boolean, detail?: string | null}} bus
 * @property {{kind: string, healthy: boolean}} store
 * @property {Totals | null} totals null: for admins only
 *
 * @typedef {{event: string, at: number, data: Record<string, unknown>}} Moment one line of a run's timeline
 */
export {};
