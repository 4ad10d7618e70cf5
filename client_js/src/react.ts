/** Hooks: a run, a feed, and who is in a conversation, as values that change. */
import {
  createContext,
  createElement,
  useCallback,
  useContext,
  useEffect,
  useMemo,
  useState,
  useSyncExternalStore,
  type ReactNode,
} from 'react';
import type { Antiphon } from './client.js';
import type { AntiphonError } from './core/errors.js';
import type { Conversation, Presence } from './shell/conversation.js';
import type { Feed, FeedOptions, FeedStatus } from './shell/feed.js';
import type { Run, RunStatus } from './shell/run.js';
import type { Participant, Response, RunState } from './wire/index.js';

const Client = createContext<Antiphon | null>(null);

/** Gives `client` to the hooks below it. It is yours: closing it is, too. */
export function AntiphonProvider({ client, children }: { client: Antiphon; children?: ReactNode }): ReactNode {
  return createElement(Client.Provider, { value: client }, children);
}

/** The client of the nearest provider. */
export function useAntiphon(): Antiphon {
  const client = useContext(Client);
  if (!client) throw new Error('There is no AntiphonProvider above this component.');
  return client;
}

type Subscribe = (changed: () => void) => () => void;

const NOTHING: Subscribe = () => () => {};

/** Renders again when `subscribe` says so; what is read meanwhile is up to the caller. */
function useChanges(subscribe: Subscribe): void {
  const counter = useMemo(() => ({ count: 0 }), [subscribe]);
  const listen = useCallback(
    (changed: () => void) => subscribe(() => (counter.count++, changed())),
    [subscribe, counter],
  );
  const count = () => counter.count;
  useSyncExternalStore(listen, count, count);
}

function together(...ends: (() => void)[]): () => void {
  return () => {
    for (const end of ends) end();
  };
}

export interface RunView {
  readonly run: Run | null;
  readonly status: RunStatus | null;
  readonly response: Response | null;
  readonly text: string;
  readonly state: RunState | null;
  readonly error: AntiphonError | null;
}

/** A run as it is now. An id is attached to from its start, and left with the component; a Run stays its owner's. */
export function useRun(which: Run | string | null): RunView {
  const client = useAntiphon();
  const [attached, setAttached] = useState<Run | null>(null);
  useEffect(() => {
    if (typeof which !== 'string') return;
    const run = client.attach(which);
    setAttached(run);
    return () => {
      setAttached(null);
      run.detach();
    };
  }, [client, which]);
  const run = typeof which === 'string' ? attached : which;
  const subscribe = useCallback<Subscribe>(
    (changed) =>
      run
        ? together(
            run.on('response', changed),
            run.on('state', changed),
            run.on('reset', changed),
            run.on('end', changed),
          )
        : NOTHING(changed),
    [run],
  );
  useChanges(subscribe);
  return {
    run,
    status: run?.status ?? null,
    response: run?.response ?? null,
    text: run?.text ?? '',
    state: run?.state ?? null,
    error: run?.error ?? null,
  };
}

export interface FeedView {
  readonly rows: readonly RunState[];
  readonly status: FeedStatus;
  readonly error: AntiphonError | null;
}

/** The runs of a tenant as they are now. The feed ends with the component; a client has one feed of a tenant. */
export function useFeed(options: FeedOptions = {}): FeedView {
  const client = useAntiphon();
  const key = JSON.stringify(options);
  const [feed, setFeed] = useState<Feed | null>(null);
  const [error, setError] = useState<AntiphonError | null>(null);
  const [rows, setRows] = useState<readonly RunState[]>([]);
  useEffect(() => {
    const opened = client.feed(JSON.parse(key) as FeedOptions);
    setFeed(opened);
    setRows([]);
    setError(null);
    const ends = [opened.on('change', () => setRows([...opened.rows.values()])), opened.on('error', setError)];
    return () => {
      for (const end of ends) end();
      opened.close();
    };
  }, [client, key]);
  useChanges(useCallback<Subscribe>((changed) => (feed ? feed.on('status', changed) : NOTHING(changed)), [feed]));
  return { rows, status: feed?.status ?? 'connecting', error };
}

export interface PresenceView {
  readonly participants: readonly Participant[];
  /** Tells the others what is done here. */
  readonly show: (state: Presence, label?: string) => Promise<void>;
}

/** Who is in a conversation. An id is attached to and left with the component; a Conversation stays its owner's. */
export function usePresence(which: Conversation | string): PresenceView {
  const client = useAntiphon();
  const [attached, setAttached] = useState<Conversation | null>(null);
  useEffect(() => {
    if (typeof which !== 'string') return;
    const conversation = client.conversation(which);
    setAttached(conversation);
    return () => {
      setAttached(null);
      conversation.close();
    };
  }, [client, which]);
  const conversation = typeof which === 'string' ? attached : which;
  useChanges(
    useCallback<Subscribe>(
      (changed) => (conversation ? conversation.on('participants', changed) : NOTHING(changed)),
      [conversation],
    ),
  );
  const show = useCallback(
    async (state: Presence, label?: string) => conversation?.presence(state, label),
    [conversation],
  );
  return { participants: conversation?.participants ?? [], show };
}
