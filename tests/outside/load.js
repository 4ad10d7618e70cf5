// Load by k6, in a fixed number of turns over each way in; what comes back is checked, not how soon.
import http from 'k6/http'
import ws from 'k6/ws'
import { check } from 'k6'

const BASE = __ENV.BASE
const MODEL = __ENV.MODEL
const TEXT = 'This is an answer.'
const TURNS_OF_A_SOCKET = 5
const JSON_HEADERS = { headers: { 'Content-Type': 'application/json' }, timeout: '120s' }

const scenario = (exec, iterations) => ({
  executor: 'shared-iterations', exec, vus: 10, iterations, maxDuration: '10m',
})
export const options = {
  scenarios: { plain: scenario('plain', 200), stream: scenario('stream', 200), socket: scenario('socket', 60) },
  thresholds: { checks: ['rate==1.0'] },
}

const body = (fields) => JSON.stringify({ model: MODEL, input: 'hello', ...fields })
const textOf = (response) => response.output.map((item) => item.content.map((part) => part.text).join('')).join('')
const gapless = (events) => events.every((event, index) => event.sequence_number === index)
const whole = (event) => event.type === 'response.completed' && textOf(event.response) === TEXT

export function plain() {
  const answer = http.post(`${BASE}/v1/responses`, body({}), JSON_HEADERS)
  check(answer, {
    'HTTP: 200': (a) => a.status === 200,
    'HTTP: the whole text': (a) => a.status === 200 && textOf(a.json()) === TEXT,
  })
  const stored = http.get(`${BASE}/v1/responses/${answer.json('id')}`, JSON_HEADERS)
  check(stored, { 'HTTP: the stored response is the same': (s) => s.status === 200 && s.body === answer.body })
}

export function stream() {
  const answer = http.post(`${BASE}/v1/responses`, body({ stream: true }), JSON_HEADERS)
  const blocks = answer.body.trim().split('\n\n')
  const last = blocks.pop()
  const events = blocks.map((block) => JSON.parse(block.slice(block.indexOf('data: ') + 6)))
  check(events, {
    'SSE: ends with [DONE]': () => last === 'data: [DONE]',
    'SSE: every event has its name': () => blocks.every((b, i) => b.startsWith(`event: ${events[i].type}\n`)),
    'SSE: numbers without a gap': gapless,
    'SSE: the whole text': (all) => whole(all[all.length - 1]),
  })
}

export function socket() {
  let ended = 0
  let events = []
  const opened = ws.connect(`${BASE.replace('http', 'ws')}/v1/responses`, {}, (connection) => {
    const turn = () => connection.send(JSON.stringify({ type: 'response.create', model: MODEL, input: 'hello' }))
    connection.on('open', turn)
    connection.on('message', (frame) => {
      const event = JSON.parse(frame)
      events.push(event)
      if (!['response.completed', 'response.failed', 'response.incomplete', 'error'].includes(event.type)) return
      check(events, {
        'WebSocket: numbers without a gap': gapless,
        'WebSocket: the whole text': (all) => whole(all[all.length - 1]),
      })
      events = []
      if (++ended < TURNS_OF_A_SOCKET) turn()
      else connection.close()
    })
    connection.setTimeout(() => connection.close(), 120000)
  })
  check(opened, {
    'WebSocket: opened': (answer) => answer && answer.status === 101,
    'WebSocket: every turn ended': () => ended === TURNS_OF_A_SOCKET,
  })
}
