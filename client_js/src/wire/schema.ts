/* Generated from protocol/schema by scripts/wire.mjs. Do not edit. */

export type Wire = ClientEvents | Extension | ServerEvents;
export type ClientEvents =
  | ResponseCreate
  | ResponseCancel
  | ResponseProcessed
  | ResponseSteer
  | ResponseInject
  | Hello
  | Auth
  | Attach
  | Detach
  | Cancel
  | ClaimCall
  | RenewClaim
  | ReleaseClaim
  | ShowPresence
  | FeedSubscribe
  | FeedUnsubscribe
  | Ping;
export type Type = string;
export type Type1 = string;
export type Type2 = string;
export type Type3 = string;
/**
 * Who I am: as a first frame in place of a header, later with newer credentials of the same caller.
 */
export type Auth = {
  id: string;
  /**
   * From `POST /v1/tickets`, of this page's origin.
   */
  ticket?: string | null;
  /**
   * A key or signed token.
   */
  token?: string | null;
  type: 'antiphon:auth';
} & Auth1;
export type Auth1 = {
  [k: string]: unknown;
};
/**
 * Give me the events of this run after a position, or all runs of this conversation from their beginning.
 */
export type Attach = {
  /**
   * A number: events after it. `start`: all. `now`: only coming ones.
   */
  after?: number | ('start' | 'now');
  /**
   * Instead of `response_id`, and without `after`, `epoch` and `stream_id`.
   */
  conversation_id?: string | null;
  /**
   * The epoch the number belongs to.
   */
  epoch?: string | null;
  id: string;
  response_id?: string | null;
  /**
   * A lane not in use; absent: the server picks `att.<n>`.
   */
  stream_id?: string | null;
  /**
   * The span of the caller (W3C Trace Context); the server's own links to the run.
   */
  traceparent?: string | null;
  type: 'antiphon:attach';
} & Attach1;
export type Attach1 = {
  [k: string]: unknown;
};
/**
 * No more events of this run, or of the runs of this conversation. No run is touched.
 */
export type Detach = {
  conversation_id?: string | null;
  id: string;
  response_id?: string | null;
  type: 'antiphon:detach';
} & Detach1;
export type Detach1 = {
  [k: string]: unknown;
};
export type Extension =
  | Hello
  | Auth
  | Attach
  | Detach
  | Cancel
  | ClaimCall
  | RenewClaim
  | ReleaseClaim
  | ShowPresence
  | FeedSubscribe
  | FeedUnsubscribe
  | Ping
  | Welcome
  | Attached
  | RunAttached
  | Ok
  | Pong
  | ExtensionError
  | CaughtUp
  | Detached
  | Run
  | Goaway
  | FeedItem
  | FeedBookmark
  | FeedDelta
  | FeedReset
  | FeedProgress;
/**
 * Answer to attach. The events follow on lane `stream_id`, those of a conversation's runs each on its own.
 */
export type Attached = {
  conversation_id?: string | null;
  epoch?: string | null;
  /**
   * Last number of the log at this moment.
   */
  head?: number | null;
  id: string;
  mode?: ('replay' | 'live' | 'snapshot' | 'ended') | null;
  /**
   * Why not, with `snapshot`.
   */
  reason?: string | null;
  /**
   * Whether every event after the cursor will have been given.
   */
  recovered?: boolean | null;
  /**
   * With `snapshot` and `ended`: the response as of `head`.
   */
  response?: Response | null;
  response_id?: string | null;
  /**
   * Of a conversation: its live runs, and the newest one that has ended.
   */
  runs?: RunState[] | null;
  state?: RunState | null;
  stream_id?: string | null;
  type: 'antiphon:attached';
} & Attached1;
export type Id = string | null;
export type Type4 = string;
export type Type5 = string;
export type Attached1 = {
  [k: string]: unknown;
};
export type ServerEvents =
  | ResponseCreated
  | ResponseQueued
  | ResponseInProgress
  | ResponseCompleted
  | ResponseIncomplete
  | ResponseFailed
  | OutputItemAdded
  | OutputItemDone
  | ContentPartAdded
  | ContentPartDone
  | OutputTextDelta
  | OutputTextDone
  | AnnotationAdded
  | RefusalDelta
  | RefusalDone
  | ReasoningTextDelta
  | ReasoningTextDone
  | ReasoningSummaryPartAdded
  | ReasoningSummaryPartDone
  | ReasoningSummaryTextDelta
  | ReasoningSummaryTextDone
  | FunctionCallArgumentsDelta
  | FunctionCallArgumentsDone
  | CustomToolCallInputDelta
  | CustomToolCallInputDone
  | AudioDelta
  | AudioDone
  | AudioTranscriptDelta
  | AudioTranscriptDone
  | CodeInterpreterState
  | CodeInterpreterCodeDelta
  | CodeInterpreterCodeDone
  | CompactionCompacting
  | FileSearchState
  | WebSearchState
  | ImageGenerationState
  | ImageGenerationPartialImage
  | McpCallState
  | McpCallArgumentsDelta
  | McpCallArgumentsDone
  | McpListToolsState
  | ShellCommandAdded
  | ShellCommandDelta
  | ShellCommandDone
  | ShellOutputDelta
  | ShellOutputDone
  | Keepalive
  | SteerAccepted
  | SteerPending
  | SteerFailed
  | InjectCreated
  | InjectFailed
  | ErrorEvent;

/**
 * A create on a socket.
 */
export interface ResponseCreate {
  access_programs?: {
    [k: string]: unknown;
  } | null;
  antiphon?: CreateExtras | null;
  background?: boolean | null;
  background_options?: BackgroundOptions | null;
  context_management?: CompactionRule[] | null;
  conversation?: string | ConversationRef | null;
  frequency_penalty?: number | null;
  generate?: boolean | null;
  idempotency_key?: string | null;
  image?: {
    [k: string]: unknown;
  } | null;
  include?: string[] | null;
  input?:
    | string
    | (
        | InputMessage
        | (
            | InputFunctionCall
            | InputFunctionCallOutput
            | InputCustomToolCall
            | InputCustomToolCallOutput
            | InputReasoning
            | InputCompaction
            | CompactionTrigger
            | ItemReference
          )
        | UnknownInputItem
      )[];
  instructions?: string | unknown[] | null;
  max_output_tokens?: number | null;
  max_tool_calls?: number | null;
  metadata?: {
    [k: string]: string;
  } | null;
  model?: string | null;
  parallel_tool_calls?: boolean | null;
  presence_penalty?: number | null;
  previous_response_id?: string | null;
  prompt?: PromptTemplate | null;
  prompt_cache_key?: string | null;
  prompt_cache_options?: {
    [k: string]: unknown;
  } | null;
  prompt_cache_retention?: string | null;
  reasoning?: {
    [k: string]: unknown;
  } | null;
  safety_identifier?: string | null;
  service_tier?: string | null;
  store?: boolean | null;
  stream?: boolean | null;
  stream_id?: string | null;
  stream_options?: StreamOptions | null;
  temperature?: number | null;
  text?: {
    [k: string]: unknown;
  } | null;
  tool_choice?: (('none' | 'auto' | 'required') | (ChooseNamed | ChooseMcp | ChooseAmong) | ChooseHosted) | null;
  tools?:
    | (
        | (
            | FunctionToolParam
            | CustomTool
            | NamespaceTool
            | McpToolParam
            | FileSearchTool
            | ComputerTool
            | ComputerUsePreviewTool
            | WebSearchTool
            | WebSearchPreviewTool
            | CodeInterpreterTool
            | ImageGenerationTool
            | LocalShellTool
            | ShellTool
            | ApplyPatchTool
            | ToolSearchTool
            | ProgrammaticToolCallingTool
          )
        | UnknownTool
      )[]
    | null;
  top_logprobs?: number | null;
  top_p?: number | null;
  truncation?: ('auto' | 'disabled') | null;
  type: 'response.create';
  user?: string | null;
}
/**
 * Our own object in a create. It is never sent upstream, and an unknown key in it is refused.
 */
export interface CreateExtras {
  /**
   * The agent of the run; the same as `model: "agent:<name>"`.
   */
  agent?: string | null;
  /**
   * `return`: the response completes with the client's calls open. `hold`: the run waits for their outputs.
   */
  client_tools?: ('return' | 'hold') | null;
  /**
   * Names of configured context providers, in place of the agent's.
   */
  context?: string[] | null;
  /**
   * How long a held call waits, seconds.
   */
  deadline_s?: number | null;
  /**
   * Shown in RunState.
   */
  labels?: {
    [k: string]: string;
  } | null;
  /**
   * `continue`, or seconds after which a run that nobody listens to is cancelled.
   */
  on_disconnect?: 'continue' | number | null;
  /**
   * What happens then.
   */
  on_expiry?: ('fail' | 'cancel' | 'wait') | null;
  /**
   * Tools of the client whose calls stay with who was asked first.
   */
  side_effects?: string[] | null;
  /**
   * The span of the caller that the run belongs to (W3C Trace Context).
   */
  traceparent?: string | null;
  /**
   * The caller's own upstream credential. Never echoed, logged, stored.
   */
  upstream_authorization?: string | null;
  /**
   * `private`: only the creator and operators see the run.
   */
  visibility?: ('tenant' | 'private') | null;
}
/**
 * A run begins at once.
 */
export interface BackgroundOptions {
  completion_window?: 'soonest' | null;
}
/**
 * When a history is compacted. compact_threshold: tokens.
 */
export interface CompactionRule {
  compact_threshold?: number | null;
  type: 'compaction';
}
/**
 * The conversation a client named.
 */
export interface ConversationRef {
  id: string;
}
/**
 * Words of anybody. `type` may be missing; `content` may be plain text.
 */
export interface InputMessage {
  content:
    | string
    | ((OutputText | Refusal | SummaryText | ReasoningText | InputText | InputImage | InputFile) | UnknownPart)[];
  id?: string | null;
  phase?: ('commentary' | 'final_answer') | null;
  role: 'user' | 'assistant' | 'system' | 'developer';
  status?: string | null;
  type?: 'message';
}
/**
 * Text the model wrote.
 */
export interface OutputText {
  annotations: ((UrlCitation | FileCitation | ContainerFileCitation | FilePath) | UnknownAnnotation)[];
  logprobs?: LogProb[] | null;
  text: string;
  type: 'output_text';
}
/**
 * Text backed by a web page. Indices count characters of the part's text.
 */
export interface UrlCitation {
  end_index: number;
  start_index: number;
  title: string;
  type: 'url_citation';
  url: string;
}
/**
 * Text backed by a file.
 */
export interface FileCitation {
  file_id: string;
  filename: string;
  index: number;
  type: 'file_citation';
}
/**
 * Text backed by a file in a tool's container.
 */
export interface ContainerFileCitation {
  container_id: string;
  end_index: number;
  file_id: string;
  filename: string;
  start_index: number;
  type: 'container_file_citation';
}
/**
 * Text that is the path of a file.
 */
export interface FilePath {
  file_id: string;
  index: number;
  type: 'file_path';
}
/**
 * An annotation of a kind this version does not know. It is passed on as it is.
 */
export interface UnknownAnnotation {
  type: Type;
  [k: string]: unknown;
}
/**
 * How probable one token was.
 */
export interface LogProb {
  /**
   * UTF-8 bytes of the token.
   */
  bytes?: number[] | null;
  logprob: number;
  token: string;
  top_logprobs?: TopLogProb[] | null;
}
/**
 * One alternative token. OpenAI's streaming events leave out any of these, so none is required.
 */
export interface TopLogProb {
  bytes?: number[] | null;
  logprob?: number | null;
  token?: string | null;
}
/**
 * The model's words for declining.
 */
export interface Refusal {
  refusal: string;
  type: 'refusal';
}
/**
 * A part of a reasoning summary.
 */
export interface SummaryText {
  text: string;
  type: 'summary_text';
}
/**
 * A part of the reasoning itself.
 */
export interface ReasoningText {
  text: string;
  type: 'reasoning_text';
}
/**
 * Text given to the model.
 */
export interface InputText {
  text: string;
  type: 'input_text';
}
/**
 * An image given to the model, by file id, URL or data URL.
 */
export interface InputImage {
  detail?: ('low' | 'high' | 'auto' | 'original') | null;
  file_id?: string | null;
  image_url?: string | null;
  type: 'input_image';
}
/**
 * A file given to the model, by id, URL or base64 data.
 */
export interface InputFile {
  file_data?: string | null;
  file_id?: string | null;
  file_url?: string | null;
  filename?: string | null;
  type: 'input_file';
}
/**
 * A part of a kind this version does not know. It is passed on as it is.
 */
export interface UnknownPart {
  type: Type1;
  [k: string]: unknown;
}
/**
 * A function call of an earlier response, sent back.
 */
export interface InputFunctionCall {
  arguments: string;
  call_id: string;
  id?: string | null;
  name: string;
  namespace?: string | null;
  status?: string | null;
  type: 'function_call';
}
/**
 * What a function call gave. `call_id` names the call.
 */
export interface InputFunctionCallOutput {
  call_id: string;
  id?: string | null;
  output:
    | string
    | ((OutputText | Refusal | SummaryText | ReasoningText | InputText | InputImage | InputFile) | UnknownPart)[];
  status?: string | null;
  type: 'function_call_output';
}
/**
 * A custom tool call of an earlier response, sent back.
 */
export interface InputCustomToolCall {
  call_id: string;
  id?: string | null;
  input: string;
  name: string;
  namespace?: string | null;
  type: 'custom_tool_call';
}
/**
 * What a custom tool call gave. `call_id` names the call.
 */
export interface InputCustomToolCallOutput {
  call_id: string;
  id?: string | null;
  output:
    | string
    | ((OutputText | Refusal | SummaryText | ReasoningText | InputText | InputImage | InputFile) | UnknownPart)[];
  type: 'custom_tool_call_output';
}
/**
 * Reasoning of an earlier response, sent back as it came.
 */
export interface InputReasoning {
  encrypted_content?: string | null;
  id?: string | null;
  summary: SummaryText[];
  type: 'reasoning';
}
/**
 * A compacted history, sent back. It holds all that came before it.
 */
export interface InputCompaction {
  encrypted_content: string;
  id?: string | null;
  type: 'compaction';
}
/**
 * Asks for a compaction and nothing else. It is the last item.
 */
export interface CompactionTrigger {
  id?: string | null;
  type: 'compaction_trigger';
}
/**
 * An item of an earlier response, by id.
 */
export interface ItemReference {
  id: string;
  type: 'item_reference';
}
/**
 * An item the server does not act on. It is passed on as it is.
 */
export interface UnknownInputItem {
  type: Type2;
  [k: string]: unknown;
}
/**
 * A prompt kept by the upstream. variables: a text or an input part for each name.
 */
export interface PromptTemplate {
  id: string;
  variables?: {
    [k: string]: unknown;
  } | null;
  version?: string | null;
}
/**
 * Events are never padded.
 */
export interface StreamOptions {
  include_obfuscation?: false | null;
}
/**
 * The model must call this tool.
 */
export interface ChooseNamed {
  name: string;
  type: 'function' | 'custom';
}
/**
 * The model must call a tool of this MCP server, or the one named.
 */
export interface ChooseMcp {
  name?: string | null;
  server_label: string;
  type: 'mcp';
}
/**
 * The model may (`auto`) or must (`required`) call one of these.
 */
export interface ChooseAmong {
  mode: 'auto' | 'required';
  tools: {
    [k: string]: unknown;
  }[];
  type: 'allowed_tools';
}
/**
 * The model must call the hosted tool of this type.
 */
export interface ChooseHosted {
  type: string;
}
/**
 * A function of the client, as a create offers it. `parameters` is a JSON Schema.
 */
export interface FunctionToolParam {
  description?: string | null;
  name: string;
  parameters?: {
    [k: string]: unknown;
  } | null;
  strict?: boolean | null;
  type: 'function';
}
/**
 * A tool with free text as input, possibly held to a grammar.
 */
export interface CustomTool {
  description?: string | null;
  format?: {
    [k: string]: unknown;
  } | null;
  name: string;
  type: 'custom';
}
/**
 * A group of function and custom tools under one name.
 */
export interface NamespaceTool {
  description: string;
  name: string;
  tools: {
    [k: string]: unknown;
  }[];
  type: 'namespace';
}
/**
 * Tools of an MCP server. `authorization` and `headers` are secrets: never echoed, logged or stored.
 */
export interface McpToolParam {
  allowed_tools?:
    | string[]
    | {
        [k: string]: unknown;
      }
    | null;
  authorization?: string | null;
  headers?: {
    [k: string]: string;
  } | null;
  require_approval?:
    | string
    | {
        [k: string]: unknown;
      }
    | null;
  server_description?: string | null;
  server_label: string;
  server_url?: string | null;
  type: 'mcp';
}
/**
 * Search in uploaded files.
 */
export interface FileSearchTool {
  filters?: {
    [k: string]: unknown;
  } | null;
  max_num_results?: number | null;
  ranking_options?: {
    [k: string]: unknown;
  } | null;
  type: 'file_search';
  vector_store_ids: string[];
}
/**
 * A computer to click in.
 */
export interface ComputerTool {
  type: 'computer';
}
/**
 * The older computer tool. Sizes in pixels.
 */
export interface ComputerUsePreviewTool {
  display_height: number;
  display_width: number;
  environment: 'windows' | 'mac' | 'linux' | 'ubuntu' | 'browser';
  type: 'computer_use_preview';
}
/**
 * Search on the web.
 */
export interface WebSearchTool {
  external_web_access?: boolean | null;
  filters?: {
    [k: string]: unknown;
  } | null;
  search_context_size?: ('low' | 'medium' | 'high') | null;
  type: 'web_search' | 'web_search_2025_08_26';
  user_location?: {
    [k: string]: unknown;
  } | null;
}
/**
 * The older web search.
 */
export interface WebSearchPreviewTool {
  search_content_types?: string[] | null;
  search_context_size?: ('low' | 'medium' | 'high') | null;
  type: 'web_search_preview' | 'web_search_preview_2025_03_11';
  user_location?: {
    [k: string]: unknown;
  } | null;
}
/**
 * Code in a container, named by id or described.
 */
export interface CodeInterpreterTool {
  container:
    | string
    | {
        [k: string]: unknown;
      };
  type: 'code_interpreter';
}
/**
 * Make images.
 */
export interface ImageGenerationTool {
  type: 'image_generation';
}
/**
 * A shell on the client's machine.
 */
export interface LocalShellTool {
  type: 'local_shell';
}
/**
 * A shell, local or in a container.
 */
export interface ShellTool {
  environment?: {
    [k: string]: unknown;
  } | null;
  type: 'shell';
}
/**
 * Change files by patches.
 */
export interface ApplyPatchTool {
  type: 'apply_patch';
}
/**
 * Find tools that are not loaded.
 */
export interface ToolSearchTool {
  description?: string | null;
  execution?: ('server' | 'client') | null;
  parameters?: {
    [k: string]: unknown;
  };
  type: 'tool_search';
}
/**
 * Programs that call tools.
 */
export interface ProgrammaticToolCallingTool {
  type: 'programmatic_tool_calling';
}
/**
 * A tool of a kind this version does not know. It is passed on as it is.
 */
export interface UnknownTool {
  type: Type3;
  [k: string]: unknown;
}
/**
 * End this run. Its terminal event is the answer.
 */
export interface ResponseCancel {
  response_id: string;
  type: 'response.cancel';
}
/**
 * Older clients say that they have read a response. Ignored.
 */
export interface ResponseProcessed {
  response_id?: string | null;
  type: 'response.processed';
}
/**
 * Words for a run in progress.
 */
export interface ResponseSteer {
  input: string | unknown[];
  previous_response_id: string;
  type: 'response.steer';
}
/**
 * Outputs for the held calls of a run in progress: all of them are taken, or none. See `AnswerExtras`.
 */
export interface ResponseInject {
  input: unknown[];
  response_id: string;
  type: 'response.inject';
}
/**
 * The client knows the extension. First of all other commands but auth and ping.
 */
export interface Hello {
  client: ClientInfo;
  id: string;
  /**
   * Of the connection: one the run has too must be equal, or it is not asked.
   */
  labels?: {
    [k: string]: string;
  } | null;
  protocol: number;
  /**
   * A key or signed token, as in `antiphon:auth`.
   */
  token?: string | null;
  tools?: DeclaredTool[] | null;
  type: 'antiphon:hello';
}
/**
 * Who the client is. `instance_id` stays the same over reconnects of one installation or tab.
 */
export interface ClientInfo {
  instance_id?: string | null;
  name: string;
  version?: string | null;
}
/**
 * A tool the client can run: it is asked to answer held calls of it. A label the run has too must be equal.
 */
export interface DeclaredTool {
  labels?: {
    [k: string]: string;
  } | null;
  name: string;
}
/**
 * End this run.
 */
export interface Cancel {
  id: string;
  /**
   * For the operator's log.
   */
  reason?: string | null;
  response_id: string;
  type: 'antiphon:cancel';
}
/**
 * I work on this held call: nobody else may answer it for a while.
 */
export interface ClaimCall {
  call_id: string;
  /**
   * Of the last claim known to this client: refused if the call was claimed since.
   */
  fence?: number | null;
  id: string;
  /**
   * Absent: `claim_lease_ms` of the welcome.
   */
  lease_ms?: number | null;
  response_id: string;
  type: 'antiphon:claim';
}
/**
 * I still work on it.
 */
export interface RenewClaim {
  call_id: string;
  fence: number;
  id: string;
  lease_ms?: number | null;
  response_id: string;
  type: 'antiphon:renew';
}
/**
 * I do not work on it any more, and it is not done.
 */
export interface ReleaseClaim {
  call_id: string;
  fence: number;
  id: string;
  response_id: string;
  type: 'antiphon:release';
}
/**
 * What the people at this client do. Exactly one of `response_id` and `conversation_id`.
 */
export interface ShowPresence {
  /**
   * Every run of it that this connection watches.
   */
  conversation_id?: string | null;
  id: string;
  /**
   * Shown to the others.
   */
  label?: string | null;
  response_id?: string | null;
  state: 'watching' | 'typing' | 'executing';
  type: 'antiphon:presence';
}
/**
 * Tell me of the runs of my tenant. A second subscription to the same tenant takes the place of the first.
 */
export interface FeedSubscribe {
  filter?: FeedFilter | null;
  /**
   * Go on after it.
   */
  from?: FeedPosition | null;
  id: string;
  /**
   * `latest`: changes of a run that come close together are told as one.
   */
  mode?: 'all' | 'latest';
  /**
   * Another one than the caller's own; for admins.
   */
  tenant?: string | null;
  type: 'antiphon:feed.subscribe';
}
/**
 * Which runs to tell of: those in which every field that is given here has one of its values.
 */
export interface FeedFilter {
  /**
   * The name of the agent.
   */
  agent?: string | string[] | null;
  conversation_id?: string | string[] | null;
  model?: string | string[] | null;
  /**
   * Who created the run.
   */
  principal?: string | string[] | null;
  state?:
    | ('queued' | 'running' | 'waiting_for_tool' | 'completed' | 'incomplete' | 'failed' | 'cancelled')
    | ('queued' | 'running' | 'waiting_for_tool' | 'completed' | 'incomplete' | 'failed' | 'cancelled')[]
    | null;
}
/**
 * A place in a feed: that of a bookmark or a delta.
 */
export interface FeedPosition {
  epoch: string;
  rev: number;
}
/**
 * No more of it.
 */
export interface FeedUnsubscribe {
  id: string;
  /**
   * Absent: the caller's own.
   */
  tenant?: string | null;
  type: 'antiphon:feed.unsubscribe';
}
/**
 * Are you there?
 */
export interface Ping {
  id: string;
  type: 'antiphon:ping';
}
/**
 * Answer to hello. From now on the server may push `antiphon:` frames.
 */
export interface Welcome {
  /**
   * How long a claim lasts unless it is renewed.
   */
  claim_lease_ms: number;
  /**
   * Unix seconds at which the connection gets too old.
   */
  connection_expires_at: number;
  connection_id: string;
  features: string[];
  id: string;
  max_message_bytes: number;
  protocol: number;
  /**
   * How long an ended, stored run can be attached to.
   */
  resume_window_s: number;
  server: ServerInfo;
  /**
   * Unix seconds until which the credentials count; absent: for ever.
   */
  token_expires_at?: number | null;
  type: 'antiphon:welcome';
}
/**
 * Who answers.
 */
export interface ServerInfo {
  name: string;
  version: string;
}
/**
 * A response: what GET answers and what lifecycle events carry.
 *
 * Times are Unix seconds. Everything required here is always sent, `null` where there is nothing to say;
 * `usage` and `completed_at` are `null` until the end.
 */
export interface Response {
  background: boolean;
  completed_at: number | null;
  conversation?: ConversationRef | null;
  created_at: number;
  error: ResponseError | null;
  frequency_penalty: number;
  id: string;
  incomplete_details: IncompleteDetails | null;
  instructions: string | unknown[] | null;
  max_output_tokens: number | null;
  max_tool_calls: number | null;
  metadata: {
    [k: string]: string;
  };
  model: string;
  object: 'response';
  output: (
    | (
        | Message
        | Reasoning
        | FunctionCall
        | FunctionCallOutput
        | CustomToolCall
        | CustomToolCallOutput
        | Compaction
        | AdditionalTools
        | FileSearchCall
        | WebSearchCall
        | ComputerCall
        | ComputerCallOutput
        | Program
        | ProgramOutput
        | ToolSearchCall
        | ToolSearchOutput
        | ImageGenerationCall
        | CodeInterpreterCall
        | LocalShellCall
        | LocalShellCallOutput
        | ShellCall
        | ShellCallOutput
        | ApplyPatchCall
        | ApplyPatchCallOutput
        | McpCall
        | McpListTools
        | McpApprovalRequest
        | McpApprovalResponse
      )
    | UnknownItem
  )[];
  parallel_tool_calls: boolean;
  presence_penalty: number;
  previous_response_id: string | null;
  prompt_cache_key: string | null;
  reasoning: ReasoningConfig | null;
  safety_identifier: string | null;
  service_tier: string;
  status: 'queued' | 'in_progress' | 'completed' | 'failed' | 'cancelled' | 'incomplete';
  store: boolean;
  temperature: number;
  text: TextConfig;
  tool_choice: ('none' | 'auto' | 'required') | (ChooseNamed | ChooseMcp | ChooseAmong) | ChooseHosted;
  tools: (
    | (
        | FunctionTool
        | CustomTool
        | NamespaceTool
        | McpToolParam
        | FileSearchTool
        | ComputerTool
        | ComputerUsePreviewTool
        | WebSearchTool
        | WebSearchPreviewTool
        | CodeInterpreterTool
        | ImageGenerationTool
        | LocalShellTool
        | ShellTool
        | ApplyPatchTool
        | ToolSearchTool
        | ProgrammaticToolCallingTool
      )
    | UnknownTool
  )[];
  top_logprobs: number;
  top_p: number;
  truncation: 'auto' | 'disabled';
  usage: Usage | null;
  user?: string | null;
}
/**
 * Why a run failed: a run code of PROTOCOL 12, or the upstream's own code.
 */
export interface ResponseError {
  code: string;
  message: string;
}
/**
 * Why a run ended early: a reason of PROTOCOL 8.2, or the upstream's own.
 */
export interface IncompleteDetails {
  reason: string;
}
/**
 * Words of the model.
 */
export interface Message {
  content: ((OutputText | Refusal | SummaryText | ReasoningText | InputText | InputImage | InputFile) | UnknownPart)[];
  id: string;
  phase?: ('commentary' | 'final_answer') | null;
  role: 'assistant';
  status: 'in_progress' | 'completed' | 'incomplete';
  type: 'message';
}
/**
 * How the model came to its answer. `encrypted_content` is opaque and is sent back as it came.
 */
export interface Reasoning {
  content?: ReasoningText[] | null;
  encrypted_content?: string | null;
  id: string;
  status?: ('in_progress' | 'completed' | 'incomplete') | null;
  summary: SummaryText[];
  type: 'reasoning';
}
/**
 * A call of a function. `arguments` is JSON text. `call_id` ties the output to it, `id` names the item.
 */
export interface FunctionCall {
  arguments: string;
  call_id: string;
  caller?: {
    [k: string]: unknown;
  } | null;
  id: string;
  name: string;
  namespace?: string | null;
  status: 'in_progress' | 'completed' | 'incomplete';
  type: 'function_call';
}
/**
 * What a function call gave.
 */
export interface FunctionCallOutput {
  call_id: string;
  caller?: {
    [k: string]: unknown;
  } | null;
  created_by?: string | null;
  id: string;
  name?: string | null;
  namespace?: string | null;
  output:
    | string
    | ((OutputText | Refusal | SummaryText | ReasoningText | InputText | InputImage | InputFile) | UnknownPart)[];
  status: 'in_progress' | 'completed' | 'incomplete';
  type: 'function_call_output';
}
/**
 * A call of a custom tool. `input` is free text.
 */
export interface CustomToolCall {
  call_id: string;
  caller?: {
    [k: string]: unknown;
  } | null;
  id: string;
  input: string;
  name: string;
  namespace?: string | null;
  status?: ('in_progress' | 'completed' | 'incomplete') | null;
  type: 'custom_tool_call';
}
/**
 * What a custom tool call gave.
 */
export interface CustomToolCallOutput {
  call_id: string;
  caller?: {
    [k: string]: unknown;
  } | null;
  created_by?: string | null;
  id: string;
  output:
    | string
    | ((OutputText | Refusal | SummaryText | ReasoningText | InputText | InputImage | InputFile) | UnknownPart)[];
  status: 'in_progress' | 'completed' | 'incomplete';
  type: 'custom_tool_call_output';
}
/**
 * The history so far as one opaque blob.
 */
export interface Compaction {
  created_by?: string | null;
  encrypted_content: string;
  id: string;
  type: 'compaction';
}
/**
 * Tools that join in mid-conversation.
 */
export interface AdditionalTools {
  id: string;
  role: string;
  tools: (
    | (
        | FunctionToolParam
        | CustomTool
        | NamespaceTool
        | McpToolParam
        | FileSearchTool
        | ComputerTool
        | ComputerUsePreviewTool
        | WebSearchTool
        | WebSearchPreviewTool
        | CodeInterpreterTool
        | ImageGenerationTool
        | LocalShellTool
        | ShellTool
        | ApplyPatchTool
        | ToolSearchTool
        | ProgrammaticToolCallingTool
      )
    | UnknownTool
  )[];
  type: 'additional_tools';
}
/**
 * A search in uploaded files.
 */
export interface FileSearchCall {
  id: string;
  queries: string[];
  results?:
    | {
        [k: string]: unknown;
      }[]
    | null;
  status: 'in_progress' | 'searching' | 'completed' | 'incomplete' | 'failed';
  type: 'file_search_call';
}
/**
 * A search or page visit on the web.
 */
export interface WebSearchCall {
  action: {
    [k: string]: unknown;
  };
  id: string;
  status: 'in_progress' | 'searching' | 'completed' | 'failed' | 'incomplete';
  type: 'web_search_call';
}
/**
 * Clicks and keys for a computer.
 */
export interface ComputerCall {
  action?: {
    [k: string]: unknown;
  } | null;
  actions?:
    | {
        [k: string]: unknown;
      }[]
    | null;
  call_id: string;
  id: string;
  pending_safety_checks: {
    [k: string]: unknown;
  }[];
  status: 'in_progress' | 'completed' | 'incomplete';
  type: 'computer_call';
}
/**
 * What the screen showed.
 */
export interface ComputerCallOutput {
  acknowledged_safety_checks?:
    | {
        [k: string]: unknown;
      }[]
    | null;
  call_id: string;
  created_by?: string | null;
  id: string;
  output: {
    [k: string]: unknown;
  };
  status: 'in_progress' | 'completed' | 'incomplete' | 'failed';
  type: 'computer_call_output';
}
/**
 * A program that calls tools.
 */
export interface Program {
  call_id: string;
  code: string;
  fingerprint: string;
  id: string;
  type: 'program';
}
/**
 * What the program gave.
 */
export interface ProgramOutput {
  call_id: string;
  id: string;
  result: string;
  status: 'completed' | 'incomplete';
  type: 'program_output';
}
/**
 * A search for tools that are not loaded yet.
 */
export interface ToolSearchCall {
  arguments: unknown;
  call_id?: string | null;
  created_by?: string | null;
  execution: 'server' | 'client';
  id: string;
  status: 'in_progress' | 'completed' | 'incomplete';
  type: 'tool_search_call';
}
/**
 * The tools found.
 */
export interface ToolSearchOutput {
  call_id?: string | null;
  created_by?: string | null;
  execution: 'server' | 'client';
  id: string;
  status: 'in_progress' | 'completed' | 'incomplete';
  tools: (
    | (
        | FunctionToolParam
        | CustomTool
        | NamespaceTool
        | McpToolParam
        | FileSearchTool
        | ComputerTool
        | ComputerUsePreviewTool
        | WebSearchTool
        | WebSearchPreviewTool
        | CodeInterpreterTool
        | ImageGenerationTool
        | LocalShellTool
        | ShellTool
        | ApplyPatchTool
        | ToolSearchTool
        | ProgrammaticToolCallingTool
      )
    | UnknownTool
  )[];
  type: 'tool_search_output';
}
/**
 * An image made. `result` is base64.
 */
export interface ImageGenerationCall {
  error?: {
    [k: string]: unknown;
  } | null;
  id: string;
  result?: string | null;
  revised_prompt?: string | null;
  status: 'in_progress' | 'generating' | 'completed' | 'failed';
  type: 'image_generation_call';
}
/**
 * Code run in a container.
 */
export interface CodeInterpreterCall {
  code?: string | null;
  container_id: string;
  id: string;
  outputs?:
    | {
        [k: string]: unknown;
      }[]
    | null;
  status: 'in_progress' | 'interpreting' | 'completed' | 'incomplete' | 'failed';
  type: 'code_interpreter_call';
}
/**
 * A command for the client's own machine.
 */
export interface LocalShellCall {
  action: ExecAction;
  call_id: string;
  id: string;
  status: 'in_progress' | 'completed' | 'incomplete';
  type: 'local_shell_call';
}
/**
 * One command with its surroundings.
 */
export interface ExecAction {
  command: string[];
  env: {
    [k: string]: string;
  };
  timeout_ms?: number | null;
  type: 'exec';
  user?: string | null;
  working_directory?: string | null;
}
/**
 * What that command gave, as JSON text.
 */
export interface LocalShellCallOutput {
  id: string;
  output: string;
  status?: ('in_progress' | 'completed' | 'incomplete') | null;
  type: 'local_shell_call_output';
}
/**
 * Commands for a shell, local or in a container.
 */
export interface ShellCall {
  action: ShellAction;
  call_id: string;
  caller?: {
    [k: string]: unknown;
  } | null;
  created_by?: string | null;
  environment?: {
    [k: string]: unknown;
  } | null;
  id: string;
  status: 'in_progress' | 'completed' | 'incomplete';
  type: 'shell_call';
}
/**
 * Commands to run one after the other. `max_output_length` counts characters.
 */
export interface ShellAction {
  commands: string[];
  max_output_length?: number | null;
  timeout_ms?: number | null;
}
/**
 * What the commands gave, in their order.
 */
export interface ShellCallOutput {
  call_id: string;
  caller?: {
    [k: string]: unknown;
  } | null;
  created_by?: string | null;
  id: string;
  max_output_length?: number | null;
  output: ShellOutput[];
  status: 'in_progress' | 'completed' | 'incomplete';
  type: 'shell_call_output';
}
/**
 * What one command printed and how it ended.
 */
export interface ShellOutput {
  created_by?: string | null;
  outcome: ShellExit | ShellTimeout;
  stderr: string;
  stdout: string;
}
/**
 * The command ended by itself.
 */
export interface ShellExit {
  exit_code: number;
  type: 'exit';
}
/**
 * The command took too long.
 */
export interface ShellTimeout {
  type: 'timeout';
}
/**
 * One change of one file.
 */
export interface ApplyPatchCall {
  call_id: string;
  caller?: {
    [k: string]: unknown;
  } | null;
  created_by?: string | null;
  id: string;
  operation: CreateFile | UpdateFile | DeleteFile;
  status: 'in_progress' | 'completed';
  type: 'apply_patch_call';
}
/**
 * A file to make.
 */
export interface CreateFile {
  diff: string;
  path: string;
  type: 'create_file';
}
/**
 * A file to change.
 */
export interface UpdateFile {
  diff: string;
  path: string;
  type: 'update_file';
}
/**
 * A file to remove.
 */
export interface DeleteFile {
  path: string;
  type: 'delete_file';
}
/**
 * Whether the change was made.
 */
export interface ApplyPatchCallOutput {
  call_id: string;
  caller?: {
    [k: string]: unknown;
  } | null;
  created_by?: string | null;
  id: string;
  output?: string | null;
  status: 'completed' | 'failed';
  type: 'apply_patch_call_output';
}
/**
 * A call of a tool on an MCP server. `arguments` is JSON text.
 */
export interface McpCall {
  approval_request_id?: string | null;
  arguments: string;
  error?:
    | {
        [k: string]: unknown;
      }
    | string
    | null;
  id: string;
  name: string;
  output?: string | null;
  server_label: string;
  status?: ('in_progress' | 'calling' | 'completed' | 'incomplete' | 'failed') | null;
  type: 'mcp_call';
}
/**
 * The tools of an MCP server.
 */
export interface McpListTools {
  error?:
    | {
        [k: string]: unknown;
      }
    | string
    | null;
  id: string;
  server_label: string;
  tools: McpTool[];
  type: 'mcp_list_tools';
}
/**
 * A tool an MCP server offers.
 */
export interface McpTool {
  annotations?: {
    [k: string]: unknown;
  };
  description?: string | null;
  input_schema: unknown;
  name: string;
}
/**
 * A question whether an MCP call may run.
 */
export interface McpApprovalRequest {
  arguments: string;
  id: string;
  name: string;
  server_label: string;
  type: 'mcp_approval_request';
}
/**
 * The answer to it.
 */
export interface McpApprovalResponse {
  approval_request_id: string;
  approve: boolean;
  id: string;
  reason?: string | null;
  type: 'mcp_approval_response';
}
/**
 * An item of a kind this version does not know. It is passed on as it is.
 */
export interface UnknownItem {
  id?: Id;
  type: Type4;
  [k: string]: unknown;
}
/**
 * How hard the model thinks, as a response echoes it.
 */
export interface ReasoningConfig {
  effort: string | null;
  summary: string | null;
}
/**
 * How text is to look, as a response echoes it.
 */
export interface TextConfig {
  format: (TextFormat | JsonObjectFormat | JsonSchemaFormat) | UnknownFormat;
  verbosity?: ('low' | 'medium' | 'high') | null;
}
/**
 * Free text.
 */
export interface TextFormat {
  type: 'text';
}
/**
 * Some JSON object.
 */
export interface JsonObjectFormat {
  type: 'json_object';
}
/**
 * JSON after a schema.
 */
export interface JsonSchemaFormat {
  description?: string | null;
  name: string;
  schema: {
    [k: string]: unknown;
  } | null;
  strict?: boolean | null;
  type: 'json_schema';
}
/**
 * A format this version does not know. It is passed on as it is.
 */
export interface UnknownFormat {
  type: Type5;
  [k: string]: unknown;
}
/**
 * The same as a response echoes it: all five fields are there.
 */
export interface FunctionTool {
  description: string | null;
  name: string;
  parameters: {
    [k: string]: unknown;
  } | null;
  strict: boolean | null;
  type: 'function';
}
/**
 * Tokens of all model calls of the run.
 */
export interface Usage {
  input_tokens: number;
  input_tokens_details: InputTokensDetails;
  output_tokens: number;
  output_tokens_details: OutputTokensDetails;
  total_tokens: number;
}
/**
 * Where input tokens came from.
 */
export interface InputTokensDetails {
  cache_write_tokens: number;
  cached_tokens: number;
}
/**
 * What output tokens went into.
 */
export interface OutputTokensDetails {
  reasoning_tokens: number;
}
/**
 * One run as its watchers see it. The one with the highest `revision` is the true one.
 *
 * Times are Unix seconds. Changes of `head`, `usage`, `cost` and `updated_at` alone do not raise `revision`.
 * Fields of later releases are empty in this one.
 */
export interface RunState {
  agent?: string | null;
  agent_source?: ('user' | 'community' | 'system') | null;
  conversation_id?: string | null;
  cost?: number | null;
  created_at: number;
  current_tool?: string | null;
  /**
   * The store is away; the end waits for it.
   */
  degraded?: boolean;
  /**
   * The current epoch of the log.
   */
  epoch: string;
  /**
   * When the log can no longer be attached to.
   */
  expires_at?: number | null;
  /**
   * The model that was asked first.
   */
  fallback_from?: string | null;
  /**
   * Number of the last event in the log, -1 while it is empty.
   */
  head: number;
  labels?: {
    [k: string]: string;
  };
  model: string;
  /**
   * Calls a completed run left to answer.
   */
  open_calls?: string[];
  origin: 'websocket' | 'http' | 'sse' | 'background' | 'skill' | 'python';
  participants?: Participant[] | ParticipantCount[];
  /**
   * Held calls without an answer.
   */
  pending_calls?: PendingCall[];
  /**
   * Who created the run.
   */
  principal: string;
  /**
   * The last 100, oldest first.
   */
  resolved_calls?: ResolvedCall[];
  response_id: string;
  revision: number;
  /**
   * Nothing came from the upstream for a while.
   */
  stalled?: boolean;
  started_at?: number | null;
  state: 'queued' | 'running' | 'waiting_for_tool' | 'completed' | 'incomplete' | 'failed' | 'cancelled';
  steers?: SteerState[];
  /**
   * Model calls begun so far.
   */
  step?: number;
  tenant: string;
  terminal?: Terminal | null;
  updated_at: number;
  /**
   * Name of the configured upstream.
   */
  upstream?: string | null;
  usage?: Usage | null;
  /**
   * `usage` and `cost` hold an estimate.
   */
  usage_estimated?: true | null;
  visibility?: 'tenant' | 'private';
}
/**
 * A connection that is attached to the run.
 */
export interface Participant {
  connection: string;
  label: string | null;
  principal: string;
  role: 'viewer' | 'driver' | 'operator' | 'admin';
  state: 'watching' | 'typing' | 'executing';
}
/**
 * In the place of names where more than 100 are attached.
 */
export interface ParticipantCount {
  count: number;
  role: 'viewer' | 'driver' | 'operator' | 'admin';
  state: 'watching' | 'typing' | 'executing';
}
/**
 * A call the run waits for. Its arguments are in the log only.
 */
export interface PendingCall {
  /**
   * Of the arguments as they were shown, hex.
   */
  arguments_sha256: string;
  call_id: string;
  claim: CallClaim | null;
  /**
   * Unix seconds.
   */
  deadline: number;
  /**
   * Connections that are asked to answer and may claim it, at most 100.
   */
  eligible: string[];
  kind: 'function' | 'custom' | 'computer' | 'local_shell' | 'shell' | 'apply_patch' | 'approval';
  name: string;
}
/**
 * Somebody works on a call. `instance` tells clients of one principal apart.
 */
export interface CallClaim {
  /**
   * Unix seconds; the claim ends then unless it is renewed.
   */
  expires_at: number;
  /**
   * The principal.
   */
  holder: string;
  instance?: string | null;
}
/**
 * A call that has its answer. `by`: the principal who gave it, or `system:deadline`.
 */
export interface ResolvedCall {
  /**
   * Unix seconds.
   */
  at: number;
  by: string;
  call_id: string;
  instance?: string | null;
}
/**
 * A steering message: `accepted` while the run goes on, `pending` while it waits for outputs of the client,
 * `applied` in the input of another response, or `failed`.
 */
export interface SteerState {
  id: string;
  /**
   * Who sent it.
   */
  principal: string;
  stage: 'accepted' | 'pending' | 'applied' | 'failed';
}
/**
 * How the run ended.
 */
export interface Terminal {
  /**
   * Principal that cancelled the run.
   */
  by?: string | null;
  /**
   * The reason of an incomplete run, the error code of a failed one.
   */
  code?: string | null;
  status: 'completed' | 'incomplete' | 'failed' | 'cancelled';
  /**
   * The run that follows because this one was steered.
   */
  successor?: string | null;
}
/**
 * A run of a conversation, or the successor of a steered run, comes on this lane, from its first event on.
 */
export interface RunAttached {
  epoch: string;
  /**
   * Last number of the log at this moment.
   */
  head: number;
  mode: 'replay' | 'live' | 'snapshot' | 'ended';
  /**
   * Why, with `snapshot`.
   */
  reason?: string | null;
  /**
   * False if the first events are gone.
   */
  recovered: boolean;
  /**
   * With `snapshot` and `ended`: the response as of `head`.
   */
  response?: Response | null;
  response_id: string;
  stream_id: string;
  type: 'antiphon:run_attached';
}
/**
 * Done.
 */
export interface Ok {
  /**
   * Of a claim, Unix seconds.
   */
  expires_at?: number | null;
  /**
   * Of a claim: rises with each claim of the call.
   */
  fence?: number | null;
  id: string;
  /**
   * Of a cancel.
   */
  result?: ('accepted' | 'already_terminal') | null;
  /**
   * Of an auth: Unix seconds until which the credentials count.
   */
  token_expires_at?: number | null;
  type: 'antiphon:ok';
}
/**
 * I am.
 */
export interface Pong {
  id: string;
  type: 'antiphon:pong';
}
/**
 * The command was refused. Fields that belong to one code stand beside `code`.
 */
export interface ExtensionError {
  code: string;
  /**
   * With `epoch_changed`: the current epoch of the run.
   */
  epoch?: string | null;
  /**
   * With `claim_held`: when the claim ends, Unix seconds.
   */
  expires_at?: number | null;
  /**
   * With `epoch_changed`: the first number of the epoch that followed yours.
   */
  fork?: number | null;
  /**
   * With `cursor_in_future`: the last number of the run.
   */
  head?: number | null;
  /**
   * With `claim_held`: the principal who works on the call.
   */
  holder?: string | null;
  /**
   * `null` only if the command had no usable id.
   */
  id: string | null;
  /**
   * With `claim_held`: its instance, if it named one.
   */
  instance?: string | null;
  message: string;
  /**
   * The field at fault.
   */
  param?: string | null;
  retry_after_ms?: number | null;
  retryable: boolean;
  type: 'antiphon:error';
  /**
   * With `already_resolved`: who answered the call.
   */
  winner?: ResolvedCall | null;
}
/**
 * Everything that was in the log at the attach has been sent.
 */
export interface CaughtUp {
  head: number;
  response_id: string;
  stream_id: string;
  type: 'antiphon:caught_up';
}
/**
 * The attachment is over and its lane free.
 */
export interface Detached {
  reason: 'ended' | 'epoch_changed' | 'cursor_expired';
  response_id: string;
  stream_id: string;
  type: 'antiphon:detached';
}
/**
 * The state of a run this connection watches has changed. The latest is whole; earlier ones may be skipped.
 */
export interface Run {
  response_id: string;
  state: RunState;
  type: 'antiphon:run';
}
/**
 * The server will close this connection. Come back at a random moment of the next `spread_ms`.
 *
 * `token_expiring`: unless `antiphon:auth` brings newer credentials before.
 */
export interface Goaway {
  /**
   * Milliseconds until the close.
   */
  deadline_ms: number;
  reason: 'draining' | 'connection_age' | 'token_expiring';
  spread_ms: number;
  type: 'antiphon:goaway';
}
/**
 * A run as it stands when the subscription begins.
 */
export interface FeedItem {
  run: RunState;
  tenant: string;
  type: 'antiphon:feed.item';
}
/**
 * Everything up to here has been told.
 */
export interface FeedBookmark {
  epoch: string;
  /**
   * Of the subscription that this answers.
   */
  id?: string | null;
  /**
   * All items have been given; deltas follow.
   */
  initial?: true | null;
  rev: number;
  tenant: string;
  type: 'antiphon:feed.bookmark';
}
/**
 * Something happened to a run.
 */
export interface FeedDelta {
  /**
   * Unix seconds.
   */
  at: number;
  /**
   * How many changes of the run this one stands for, if it is more than one.
   */
  coalesced?: number | null;
  data: {
    [k: string]: unknown;
  };
  /**
   * Of the feed, not of the run.
   */
  epoch: string;
  event: string;
  /**
   * `remove`: the run does not pass the filter any more.
   */
  op: 'upsert' | 'remove';
  /**
   * `rev` of the bookmark or delta before it on this subscription.
   */
  prev: number;
  rev: number;
  run: RunState1;
  tenant: string;
  type: 'antiphon:feed.delta';
}
/**
 * One run as its watchers see it. The one with the highest `revision` is the true one.
 *
 * Times are Unix seconds. Changes of `head`, `usage`, `cost` and `updated_at` alone do not raise `revision`.
 * Fields of later releases are empty in this one.
 */
export interface RunState1 {
  agent?: string | null;
  agent_source?: ('user' | 'community' | 'system') | null;
  conversation_id?: string | null;
  cost?: number | null;
  created_at: number;
  current_tool?: string | null;
  /**
   * The store is away; the end waits for it.
   */
  degraded?: boolean;
  /**
   * The current epoch of the log.
   */
  epoch: string;
  /**
   * When the log can no longer be attached to.
   */
  expires_at?: number | null;
  /**
   * The model that was asked first.
   */
  fallback_from?: string | null;
  /**
   * Number of the last event in the log, -1 while it is empty.
   */
  head: number;
  labels?: {
    [k: string]: string;
  };
  model: string;
  /**
   * Calls a completed run left to answer.
   */
  open_calls?: string[];
  origin: 'websocket' | 'http' | 'sse' | 'background' | 'skill' | 'python';
  participants?: Participant[] | ParticipantCount[];
  /**
   * Held calls without an answer.
   */
  pending_calls?: PendingCall[];
  /**
   * Who created the run.
   */
  principal: string;
  /**
   * The last 100, oldest first.
   */
  resolved_calls?: ResolvedCall[];
  response_id: string;
  revision: number;
  /**
   * Nothing came from the upstream for a while.
   */
  stalled?: boolean;
  started_at?: number | null;
  state: 'queued' | 'running' | 'waiting_for_tool' | 'completed' | 'incomplete' | 'failed' | 'cancelled';
  steers?: SteerState[];
  /**
   * Model calls begun so far.
   */
  step?: number;
  tenant: string;
  terminal?: Terminal | null;
  updated_at: number;
  /**
   * Name of the configured upstream.
   */
  upstream?: string | null;
  usage?: Usage | null;
  /**
   * `usage` and `cost` hold an estimate.
   */
  usage_estimated?: true | null;
  visibility?: 'tenant' | 'private';
}
/**
 * Forget all runs: items and an initial bookmark follow.
 */
export interface FeedReset {
  reason: 'epoch' | 'too_old' | 'access';
  tenant: string;
  type: 'antiphon:feed.reset';
}
/**
 * Runs that moved in the last second. It has no number and may be missing.
 */
export interface FeedProgress {
  runs: RunProgress[];
  tenant: string;
  type: 'antiphon:feed.progress';
}
/**
 * How far a run has come.
 */
export interface RunProgress {
  head: number;
  output_tokens?: number | null;
  response_id: string;
}
/**
 * The run exists. Always number 0.
 */
export interface ResponseCreated {
  response: Response;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type: 'response.created';
}
/**
 * The run waits for its turn.
 */
export interface ResponseQueued {
  response: Response;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type: 'response.queued';
}
/**
 * The run works.
 */
export interface ResponseInProgress {
  response: Response;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type: 'response.in_progress';
}
/**
 * Terminal: the model said all it wanted to say.
 */
export interface ResponseCompleted {
  response: Response;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type: 'response.completed';
}
/**
 * Terminal: cut short on purpose; `incomplete_details.reason` says why. Also ends a cancelled run.
 */
export interface ResponseIncomplete {
  response: Response;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type: 'response.incomplete';
}
/**
 * Terminal: broken off by a fault; `error` says which.
 */
export interface ResponseFailed {
  response: Response;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type: 'response.failed';
}
/**
 * A new item begins.
 */
export interface OutputItemAdded {
  item:
    | (
        | Message
        | Reasoning
        | FunctionCall
        | FunctionCallOutput
        | CustomToolCall
        | CustomToolCallOutput
        | Compaction
        | AdditionalTools
        | FileSearchCall
        | WebSearchCall
        | ComputerCall
        | ComputerCallOutput
        | Program
        | ProgramOutput
        | ToolSearchCall
        | ToolSearchOutput
        | ImageGenerationCall
        | CodeInterpreterCall
        | LocalShellCall
        | LocalShellCallOutput
        | ShellCall
        | ShellCallOutput
        | ApplyPatchCall
        | ApplyPatchCallOutput
        | McpCall
        | McpListTools
        | McpApprovalRequest
        | McpApprovalResponse
      )
    | UnknownItem;
  output_index: number;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type: 'response.output_item.added';
}
/**
 * The item is finished and will not change.
 */
export interface OutputItemDone {
  item:
    | (
        | Message
        | Reasoning
        | FunctionCall
        | FunctionCallOutput
        | CustomToolCall
        | CustomToolCallOutput
        | Compaction
        | AdditionalTools
        | FileSearchCall
        | WebSearchCall
        | ComputerCall
        | ComputerCallOutput
        | Program
        | ProgramOutput
        | ToolSearchCall
        | ToolSearchOutput
        | ImageGenerationCall
        | CodeInterpreterCall
        | LocalShellCall
        | LocalShellCallOutput
        | ShellCall
        | ShellCallOutput
        | ApplyPatchCall
        | ApplyPatchCallOutput
        | McpCall
        | McpListTools
        | McpApprovalRequest
        | McpApprovalResponse
      )
    | UnknownItem;
  output_index: number;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type: 'response.output_item.done';
}
/**
 * A new part of a message or reasoning item begins.
 */
export interface ContentPartAdded {
  content_index: number;
  item_id: string;
  output_index: number;
  part: OutputText | Refusal | ReasoningText;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type: 'response.content_part.added';
}
/**
 * The part is finished.
 */
export interface ContentPartDone {
  content_index: number;
  item_id: string;
  output_index: number;
  part: OutputText | Refusal | ReasoningText;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type: 'response.content_part.done';
}
/**
 * More text.
 */
export interface OutputTextDelta {
  content_index: number;
  delta: string;
  item_id: string;
  logprobs: LogProb[];
  obfuscation?: string | null;
  output_index: number;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type: 'response.output_text.delta';
}
/**
 * All the text of the part.
 */
export interface OutputTextDone {
  content_index: number;
  item_id: string;
  logprobs: LogProb[];
  output_index: number;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  text: string;
  type: 'response.output_text.done';
}
/**
 * Text of the part got an annotation.
 */
export interface AnnotationAdded {
  annotation?: ((UrlCitation | FileCitation | ContainerFileCitation | FilePath) | UnknownAnnotation) | null;
  annotation_index: number;
  content_index: number;
  item_id: string;
  output_index: number;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type: 'response.output_text.annotation.added';
}
/**
 * More words of a refusal.
 */
export interface RefusalDelta {
  content_index: number;
  delta: string;
  item_id: string;
  output_index: number;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type: 'response.refusal.delta';
}
/**
 * The whole refusal.
 */
export interface RefusalDone {
  content_index: number;
  item_id: string;
  output_index: number;
  refusal: string;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type: 'response.refusal.done';
}
/**
 * More reasoning.
 */
export interface ReasoningTextDelta {
  content_index: number;
  delta: string;
  item_id: string;
  output_index: number;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type: 'response.reasoning_text.delta';
}
/**
 * All the reasoning of the part.
 */
export interface ReasoningTextDone {
  content_index: number;
  item_id: string;
  output_index: number;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  text: string;
  type: 'response.reasoning_text.done';
}
/**
 * A new part of a reasoning summary begins.
 */
export interface ReasoningSummaryPartAdded {
  item_id: string;
  output_index: number;
  part: SummaryText;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  summary_index: number;
  type: 'response.reasoning_summary_part.added';
}
/**
 * That part is finished.
 */
export interface ReasoningSummaryPartDone {
  item_id: string;
  output_index: number;
  part: SummaryText;
  sequence_number: number;
  status?: 'incomplete' | null;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  summary_index: number;
  type: 'response.reasoning_summary_part.done';
}
/**
 * More of a reasoning summary.
 */
export interface ReasoningSummaryTextDelta {
  delta: string;
  item_id: string;
  output_index: number;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  summary_index: number;
  type: 'response.reasoning_summary_text.delta';
}
/**
 * All the text of the summary's part.
 */
export interface ReasoningSummaryTextDone {
  item_id: string;
  output_index: number;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  summary_index: number;
  text: string;
  type: 'response.reasoning_summary_text.done';
}
/**
 * More of a function call's arguments: pieces of JSON text.
 */
export interface FunctionCallArgumentsDelta {
  delta: string;
  item_id: string;
  output_index: number;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type: 'response.function_call_arguments.delta';
}
/**
 * The whole arguments.
 */
export interface FunctionCallArgumentsDone {
  arguments: string;
  item_id: string;
  name?: string | null;
  output_index: number;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type: 'response.function_call_arguments.done';
}
/**
 * More of a custom tool call's input.
 */
export interface CustomToolCallInputDelta {
  delta: string;
  item_id: string;
  output_index: number;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type: 'response.custom_tool_call_input.delta';
}
/**
 * The whole input.
 */
export interface CustomToolCallInputDone {
  input: string;
  item_id: string;
  output_index: number;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type: 'response.custom_tool_call_input.done';
}
/**
 * More audio, base64.
 */
export interface AudioDelta {
  delta: string;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type: 'response.audio.delta';
}
/**
 * The audio is finished.
 */
export interface AudioDone {
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type: 'response.audio.done';
}
/**
 * More of the audio's words.
 */
export interface AudioTranscriptDelta {
  delta: string;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type: 'response.audio.transcript.delta';
}
/**
 * The words are finished.
 */
export interface AudioTranscriptDone {
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type: 'response.audio.transcript.done';
}
/**
 * A code interpreter call moved on.
 */
export interface CodeInterpreterState {
  item_id: string;
  output_index: number;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type:
    | 'response.code_interpreter_call.in_progress'
    | 'response.code_interpreter_call.interpreting'
    | 'response.code_interpreter_call.completed';
}
/**
 * More code.
 */
export interface CodeInterpreterCodeDelta {
  delta: string;
  item_id: string;
  output_index: number;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type: 'response.code_interpreter_call_code.delta';
}
/**
 * All the code.
 */
export interface CodeInterpreterCodeDone {
  code: string;
  item_id: string;
  output_index: number;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type: 'response.code_interpreter_call_code.done';
}
/**
 * The history is being compacted.
 */
export interface CompactionCompacting {
  item_id: string;
  output_index: number;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type: 'response.compaction.compacting';
}
/**
 * A file search moved on.
 */
export interface FileSearchState {
  item_id: string;
  output_index: number;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type:
    | 'response.file_search_call.in_progress'
    | 'response.file_search_call.searching'
    | 'response.file_search_call.completed';
}
/**
 * A web search moved on.
 */
export interface WebSearchState {
  item_id: string;
  output_index: number;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type:
    | 'response.web_search_call.in_progress'
    | 'response.web_search_call.searching'
    | 'response.web_search_call.completed';
}
/**
 * An image moved on.
 */
export interface ImageGenerationState {
  item_id: string;
  output_index: number;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type:
    | 'response.image_generation_call.in_progress'
    | 'response.image_generation_call.generating'
    | 'response.image_generation_call.completed';
}
/**
 * An early look at the image, base64.
 */
export interface ImageGenerationPartialImage {
  background?: string | null;
  item_id: string;
  output_format?: string | null;
  output_index: number;
  partial_image_b64: string;
  partial_image_index: number;
  quality?: string | null;
  sequence_number: number;
  size?: string | null;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type: 'response.image_generation_call.partial_image';
}
/**
 * An MCP call moved on.
 */
export interface McpCallState {
  item_id: string;
  output_index: number;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type: 'response.mcp_call.in_progress' | 'response.mcp_call.completed' | 'response.mcp_call.failed';
}
/**
 * More of an MCP call's arguments.
 */
export interface McpCallArgumentsDelta {
  delta: string;
  item_id: string;
  output_index: number;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type: 'response.mcp_call_arguments.delta';
}
/**
 * The whole arguments.
 */
export interface McpCallArgumentsDone {
  arguments: string;
  item_id: string;
  output_index: number;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type: 'response.mcp_call_arguments.done';
}
/**
 * A listing of MCP tools moved on.
 */
export interface McpListToolsState {
  item_id: string;
  output_index: number;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type: 'response.mcp_list_tools.in_progress' | 'response.mcp_list_tools.completed' | 'response.mcp_list_tools.failed';
}
/**
 * A shell call got a command, at `command_index` of its list.
 */
export interface ShellCommandAdded {
  command: string;
  command_index: number;
  output_index: number;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type: 'response.shell_call_command.added';
}
/**
 * More of the command.
 */
export interface ShellCommandDelta {
  command_index: number;
  delta: string;
  obfuscation?: string | null;
  output_index: number;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type: 'response.shell_call_command.delta';
}
/**
 * The whole command.
 */
export interface ShellCommandDone {
  command: string;
  command_index: number;
  output_index: number;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type: 'response.shell_call_command.done';
}
/**
 * More output of a command.
 */
export interface ShellOutputDelta {
  command_index: number;
  delta: ShellOutputPiece;
  item_id: string;
  output_index: number;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type: 'response.shell_call_output_content.delta';
}
/**
 * What a command printed since the last piece.
 */
export interface ShellOutputPiece {
  stderr?: string | null;
  stdout?: string | null;
}
/**
 * All output of a command.
 */
export interface ShellOutputDone {
  command_index: number;
  item_id: string;
  output: ShellOutput[];
  output_index: number;
  sequence_number: number;
  /**
   * The lane, on a socket and only on a named lane.
   */
  stream_id?: string | null;
  type: 'response.shell_call_output_content.done';
}
/**
 * The run is alive and has nothing to say.
 */
export interface Keepalive {
  sequence_number: number;
  /**
   * The run's lane on this connection, if it has one and it is named.
   */
  stream_id?: string | null;
  type: 'keepalive';
}
/**
 * The steering message was taken.
 */
export interface SteerAccepted {
  sequence_number: number;
  steer: Steer;
  /**
   * The run's lane on this connection, if it has one and it is named.
   */
  stream_id?: string | null;
  type: 'response.steer.accepted';
}
/**
 * A steering message that was taken.
 */
export interface Steer {
  id: string;
  previous_response_id: string;
}
/**
 * The steering message waits for outputs of the client.
 */
export interface SteerPending {
  reason: string;
  required_input: (CallStub | ToolSearchStub | ApprovalStub)[];
  sequence_number: number;
  steer: Steer;
  /**
   * The run's lane on this connection, if it has one and it is named.
   */
  stream_id?: string | null;
  type: 'response.steer.pending';
}
/**
 * A call whose output is waited for.
 */
export interface CallStub {
  call_id: string;
  /**
   * Of a function.
   */
  name?: string | null;
  type:
    | 'function_call_output'
    | 'custom_tool_call_output'
    | 'computer_call_output'
    | 'shell_call_output'
    | 'apply_patch_call_output'
    | 'local_shell_call_output';
}
/**
 * A tool search the client has to do.
 */
export interface ToolSearchStub {
  call_id: string;
  execution: 'client';
  type: 'tool_search_output';
}
/**
 * An approval that is waited for.
 */
export interface ApprovalStub {
  approval_request_id: string;
  type: 'mcp_approval_response';
}
/**
 * The steering message was not taken; here it is back.
 */
export interface SteerFailed {
  error: SteerError;
  sequence_number: number;
  steer: FailedSteer;
  /**
   * The run's lane on this connection, if it has one and it is named.
   */
  stream_id?: string | null;
  type: 'response.steer.failed';
}
/**
 * Why it was handed back.
 */
export interface SteerError {
  code: string;
  message: string;
  type: 'invalid_request_error';
}
/**
 * A steering message handed back.
 */
export interface FailedSteer {
  id?: string | null;
  input: string | unknown[];
  previous_response_id: string;
}
/**
 * The injected outputs were taken.
 */
export interface InjectCreated {
  /**
   * They had been taken from this sender before.
   */
  duplicate?: true | null;
  response_id: string;
  sequence_number: number;
  /**
   * The run's lane on this connection, if it has one and it is named.
   */
  stream_id?: string | null;
  type: 'response.inject.created';
}
/**
 * The injected outputs were not taken; here they are back, exactly as they came.
 */
export interface InjectFailed {
  error: InjectError;
  input: unknown[];
  response_id: string;
  sequence_number: number;
  /**
   * The run's lane on this connection, if it has one and it is named.
   */
  stream_id?: string | null;
  type: 'response.inject.failed';
}
/**
 * Why outputs were handed back. Fields that belong to one code stand beside `code`.
 */
export interface InjectError {
  code: string;
  /**
   * With `claim_held`: when the claim ends, Unix seconds.
   */
  expires_at?: number | null;
  /**
   * With `claim_held`: the principal who works on the call.
   */
  holder?: string | null;
  /**
   * With `claim_held`: its instance, if it named one.
   */
  instance?: string | null;
  message: string;
  /**
   * The field at fault.
   */
  param?: string | null;
  /**
   * With `already_resolved`: who answered the call.
   */
  winner?: ResolvedCall | null;
}
/**
 * Answer on a socket to a create, or to a frame, that was refused. It is in no log and has no number.
 */
export interface ErrorEvent {
  error: ErrorBody;
  /**
   * The same as `error.headers`; some clients read only these.
   */
  headers?: {
    [k: string]: string;
  } | null;
  /**
   * The HTTP status the same refusal has.
   */
  status: number;
  /**
   * The lane of the create that was refused.
   */
  stream_id?: string | null;
  type: 'error';
}
/**
 * What went wrong. Fields that belong to one code (`epoch`, `fork`, `head`) stand beside `code`.
 */
export interface ErrorBody {
  /**
   * Key of the code table, or an upstream's own code.
   */
  code: string | null;
  /**
   * With `epoch_changed`: the current epoch of the run.
   */
  epoch?: string | null;
  /**
   * With `claim_held`: when the claim ends, Unix seconds.
   */
  expires_at?: number | null;
  /**
   * With `epoch_changed`: the first number of the epoch that followed yours.
   */
  fork?: number | null;
  /**
   * With `cursor_in_future`: the last number of the run.
   */
  head?: number | null;
  /**
   * Retry hints, names in lower case.
   */
  headers?: {
    [k: string]: string;
  } | null;
  /**
   * With `claim_held`: the principal who works on the call.
   */
  holder?: string | null;
  /**
   * With `claim_held`: its instance, if it named one.
   */
  instance?: string | null;
  /**
   * One sentence a person can act on.
   */
  message: string;
  /**
   * The field at fault.
   */
  param: string | null;
  /**
   * OpenAI's coarse class, e.g. `invalid_request_error`.
   */
  type: string;
  /**
   * With `already_resolved`: who answered the call.
   */
  winner?: ResolvedCall | null;
}
