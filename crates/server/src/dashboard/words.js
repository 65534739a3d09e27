// Every word of the page, in English and Chinese, and how numbers and times are written.

const WORDS = {
  en: {
    "skip": "Skip to content", "nav.label": "Sections", "nav.": "Overview", "nav.nodes": "Nodes",
    "nav.sessions": "Sessions", "nav.instances": "Instances", "nav.explain": "Explain",
    "what": "People speak; each sentence goes to a GPU node that can translate it, and comes back in order.",
    "well": "All well.", "well.detail": "Every language pair that is asked for has free slots.",
    "starting": "Figures are on their way…", "more": "Also:",
    "now": "{instances} · {nodes} · {speakers} · {rate} jobs a second",
    "instances.n": "{n} instance|{n} instances", "nodes.n": "{n} node ready|{n} nodes ready",
    "speakers.n": "{n} person connected|{n} people connected",
    "live": "Live", "wait": "Connecting…", "lost": "Not connected", "age": "{n} s ago", "stale": "Old",
    "banner.lost": "The connection to the scheduler is lost. What you see is from {time}. Trying again…",
    "banner.never": "The scheduler does not answer. Trying again…",
    "again": "Connected again.", "restarted": "Connected again: the scheduler has restarted.",
    "locked": "Token needed", "token.title": "Administrator token required", "token.label": "Token", "token.go": "Open", "token.checking": "Checking…", "token.forget": "Forget token",
    "token.how": "Make one with the signing key; it is valid for one hour:",
    "token.kept": "It stays in the memory of this page, and is gone when you reload or close it.",
    "theme": "Theme", "theme.auto": "Auto", "theme.light": "Light", "theme.dark": "Dark", "lang": "Language",
    "kpi.rate": "Jobs a second", "kpi.ok": "Succeeded", "kpi.ok.sub": "in the last minute", "matrix.wait": "{n} wait", "kpi.sentence": "Sentence latency, p95",
    "kpi.slots": "Slots in use", "kpi.waiting": "Queued jobs", "kpi.sessions": "Sessions",
    "kpi.sessions.sub": "{n} connected", "kpi.slots.sub": "of {n}", "kpi.open": "{n} open",
    "kpi.sentence.sub": "from the end of speech to the result", "kpi.none": "no jobs yet",
    "charts": "The last half hour", "chart.rate": "Jobs a second", "chart.latency": "Latency",
    "chart.endings": "Endings by reason", "chart.empty": "Nothing to draw yet: the first figures come within five seconds.",
    "series.rate": "ended", "latency.of": "Show", "latency.job": "job", "latency.dispatch": "dispatch",
    "latency.sentence": "sentence",
    "matrix": "Language pairs", "matrix.note": "Rows: source language. Columns: target language. Free / all slots. Select a cell to see why.",
    "matrix.empty": "No node serves any pair yet.", "matrix.corner": "from \\ into", "matrix.cell": "{src} into {tgt}: {supply}. {free} of {slots} slots free, {ready} of {nodes} nodes ready, {waiting} waiting.",
    "matrix.more": "{n} languages are not shown; the pairs in trouble are.",
    "supply.good": "free slots", "supply.tight": "nearly full", "supply.full": "full", "supply.starved": "jobs wait",
    "supply.unserved": "no node ready", "supply.none": "not offered",
    "failures": "Jobs that failed lately", "failures.empty": "No job has failed lately.",
    "f.when": "When", "f.job": "Job", "f.code": "Reason", "f.direction": "Direction", "f.node": "Last node", "f.tries": "Attempts",
    "first.title": "Nothing is connected yet", "first.text": "Start simulated nodes and a speaker to see it work:",
    "nodes": "Nodes", "nodes.empty": "No node is connected. Start one:", "nodes.none": "No node matches the filter.", "nodes.filter": "Filter nodes", "nodes.shown": "{n} of {all} shown", "chart.range": "Time range", "chart.minutes": "{n} min", "chart.keys": "Arrow keys read the values point by point.",
    "nodes.next": "Show more", "n.id": "Node", "n.state": "State", "n.load": "Load", "n.langs": "Languages", "n.breaker": "Breaker",
    "n.latency": "Job takes", "n.done": "Done / failed", "n.idle": "Why it gets no jobs", "n.act": "Actions", "n.on": "on {instance}",
    "state.ready": "ready", "state.registering": "starting", "state.degraded": "degraded", "state.draining": "draining", "state.offline": "offline",
    "breaker.closed": "closed", "breaker.open": "open", "breaker.probing": "probing",
    "order.drain": "drained by hand", "order.block": "blocked",
    "do.drain": "Drain", "do.resume": "Resume", "do.block": "Block", "cancel": "Cancel",
    "ask.drain": "Drain {id}?", "ask.drain.text": "It finishes what it has and gets nothing new until it is resumed.",
    "ask.resume": "Resume {id}?", "ask.resume.text": "It gets jobs again.",
    "ask.block": "Block {id}?", "ask.block.text": "Its connection is closed, its jobs look elsewhere, and it cannot come back until it is resumed.",
    "did.drain": "{id} is draining.", "did.resume": "{id} serves again.", "did.block": "{id} is blocked.",
    "didnt": "Not done: {why}",
    "back": "Back", "node.abilities": "What it can do", "node.asr": "Speech recognition", "node.semantic": "Semantic repair", "node.tts": "Speech synthesis", "node.nmt": "Translation",
    "node.detail": "Reported by the node", "node.slots": "Slots", "slots.text": "{used} in use, {open} open, {declared} declared",
    "node.useful": "What would make it more useful", "node.useful.none": "No requested direction is missing a node.", "node.lacks": "this node {what}",
    "node.fine": "It takes jobs.", "node.gone": "No node of this name is known here.",
    "d.version": "Version", "d.platform": "Platform", "d.cpu": "CPU", "d.gpu": "GPU", "d.mem": "Memory", "d.error": "Last error", "d.models": "Missing models", "d.supports": "Protocol features", "d.instance": "Instance", "d.hardware": "Hardware",
    "sessions": "Sessions", "sessions.empty": "No session is open.", "s.id": "Session", "s.direction": "Direction", "s.client": "Client", "s.since": "Since", "s.utterances": "Utterances", "s.tenant": "Tenant", "s.instance": "Instance",
    "s.here": "connected", "s.away": "away for a moment", "sessions.shown": "{n} of {all} shown", "sessions.silent": "Instance {id} did not answer: its sessions are not shown.",
    "instances": "Instances", "i.id": "Instance", "i.address": "Address", "i.since": "Running for", "i.nodes": "Nodes", "i.sessions": "Sessions", "i.jobs": "Open / waiting jobs", "i.inbox": "Inbox", "i.leads": "Leader of", "i.seen": "Last seen", "i.version": "Version",
    "i.this": "this one", "i.missing": "missing", "i.draining": "stopping", "i.alive": "running", "i.state": "State", "instances.empty": "No figures yet.",
    "task.deadlines": "deadlines", "task.snapshot": "figures", "task.janitor": "tidying",
    "explain": "Why would a job go where?", "explain.note": "Ask for a direction, and see which nodes could take such a job now, and why the others could not.",
    "e.src": "From", "e.tgt": "Into", "e.tts": "Spoken, not only text", "e.node": "And this node (optional)", "e.ask": "Explain",
    "e.some": "{n} of {all} nodes could take it now. One of those with a free slot is chosen at random.", "e.nobody": "No node could take it now.", "e.waiting": "{n} jobs wait for this direction.",
    "e.reasons": "Why the others cannot", "e.reason": "Reason", "e.nodes": "Nodes", "e.idle": "Ask above to see an answer here.",
    "e.one": "{id} could take it.", "e.not": "{id} could not take it: {why}.",
    "why.asr": "does not recognise the source language", "why.semantic": "does not repair the source language", "why.nmt": "does not translate this direction", "why.tts": "does not speak the target language", "why.service": "has a service that is not ready", "why.model": "lacks a model", "why.tenant": "serves other tenants only", "why.private": "takes only jobs that name it", "why.health": "is not ready", "why.stale": "has an overdue heartbeat", "why.overloaded": "is overloaded", "why.unknown": "is unknown to this scheduler",
    "job": "Job", "job.find": "Find a job by its id", "job.open": "Show", "job.state": "State", "job.timeline": "Attempts", "job.none": "It was not sent to any node.", "job.gone": "No such job is remembered.",
    "job.waited": "Queued for {ms}", "job.total": "Took {ms}", "job.handed": "handed in", "job.sent": "sent", "job.acked": "taken", "job.ended": "ended", "job.session": "Session", "job.notes": "Notes", "job.attempt": "Attempt {n} on {node}", "job.error": "Why it failed", "job.running": "still open",
    "loading": "Loading…", "failed": "This could not be read: {why}", "retry": "Try again", "unit.ms": " ms", "foot": "Figures of all instances, every {s} s, put together by {leader}. Store: {store}.",
  },
  zh: {
    "skip": "跳到内容", "nav.label": "栏目", "nav.": "总览", "nav.nodes": "节点", "nav.sessions": "会话", "nav.instances": "实例", "nav.explain": "解释",
    "what": "用户说话，每句话交给能翻译它的 GPU 节点，译文按顺序返回。",
    "well": "一切正常。", "well.detail": "所有被请求的语言方向都有空闲槽位。", "starting": "数据即将到达…", "more": "另外：",
    "now": "{instances} · {nodes} · {speakers} · 每秒 {rate} 个任务", "instances.n": "{n} 个实例", "nodes.n": "{n} 个节点就绪", "speakers.n": "{n} 人在线",
    "live": "实时", "wait": "正在连接…", "lost": "未连接", "age": "{n} 秒前", "stale": "数据陈旧",
    "banner.lost": "与调度器的连接已断开。当前显示的是 {time} 的数据，正在重试…", "banner.never": "调度器没有应答，正在重试…",
    "again": "已重新连接。", "restarted": "已重新连接：调度器重启过。",
    "locked": "需要令牌", "token.title": "请出示管理员令牌", "token.label": "令牌", "token.go": "打开", "token.checking": "正在检查…", "token.forget": "忘记令牌",
    "token.how": "由持有签名密钥的人生成，有效期一小时：", "token.kept": "令牌只保存在本页内存中，刷新或关闭页面后即消失。",
    "theme": "主题", "theme.auto": "自动", "theme.light": "浅色", "theme.dark": "深色", "lang": "语言",
    "kpi.rate": "每秒任务数", "kpi.ok": "成功率", "kpi.ok.sub": "最近一分钟", "matrix.wait": "{n} 在等", "kpi.sentence": "句子延迟（p95）", "kpi.slots": "占用槽位", "kpi.waiting": "排队任务", "kpi.sessions": "会话",
    "kpi.sessions.sub": "{n} 个已连接", "kpi.slots.sub": "共 {n}", "kpi.open": "{n} 个进行中", "kpi.sentence.sub": "从说完到收到结果", "kpi.none": "尚无任务",
    "charts": "最近半小时", "chart.rate": "每秒任务数", "chart.latency": "耗时", "chart.endings": "结束原因", "chart.empty": "暂无数据：五秒内会有第一批数据。",
    "series.rate": "已结束", "latency.of": "显示", "latency.job": "任务", "latency.dispatch": "派发", "latency.sentence": "句子",
    "matrix": "语言方向", "matrix.note": "行是说的语言，列是听的语言。显示空闲/全部槽位。选择单元格查看原因。", "matrix.empty": "还没有节点提供任何语言方向。", "matrix.corner": "从 \\ 到",
    "matrix.cell": "{src} 到 {tgt}：{supply}。{slots} 个槽位中 {free} 个空闲，{nodes} 个节点中 {ready} 个就绪，{waiting} 个任务排队。", "matrix.more": "另有 {n} 种语言未显示；有问题的方向都已显示。",
    "supply.good": "有空闲", "supply.tight": "快满了", "supply.full": "已满", "supply.starved": "任务在等", "supply.unserved": "无可用节点", "supply.none": "未提供",
    "failures": "最近失败的任务", "failures.empty": "最近没有任务失败。", "f.when": "时间", "f.job": "任务", "f.code": "原因", "f.direction": "方向", "f.node": "最后节点", "f.tries": "尝试次数",
    "first.title": "还没有任何连接", "first.text": "启动模拟节点和说话者，看看它如何工作：",
    "nodes": "节点", "nodes.empty": "没有节点连接。启动一个：", "nodes.none": "没有符合条件的节点。", "nodes.filter": "筛选节点", "nodes.shown": "显示 {n} / {all}", "chart.range": "时间范围", "chart.minutes": "{n} 分钟", "chart.keys": "方向键逐点读取数值。", "nodes.next": "显示更多",
    "n.id": "节点", "n.state": "状态", "n.load": "负载", "n.langs": "语言", "n.breaker": "熔断", "n.latency": "任务耗时", "n.done": "完成 / 失败", "n.idle": "为何没有任务", "n.act": "操作", "n.on": "在 {instance} 上",
    "state.ready": "就绪", "state.registering": "启动中", "state.degraded": "异常", "state.draining": "排空中", "state.offline": "离线",
    "breaker.closed": "关闭", "breaker.open": "打开", "breaker.probing": "试探", "order.drain": "人工排空", "order.block": "已屏蔽",
    "do.drain": "排空", "do.resume": "恢复", "do.block": "屏蔽", "cancel": "取消",
    "ask.drain": "排空 {id}？", "ask.drain.text": "它会完成手上的任务，恢复之前不再接新任务。", "ask.resume": "恢复 {id}？", "ask.resume.text": "它将重新接收任务。",
    "ask.block": "屏蔽 {id}？", "ask.block.text": "断开它的连接，任务转到别处；恢复之前它不能再连接。",
    "did.drain": "{id} 正在排空。", "did.resume": "{id} 恢复服务。", "did.block": "{id} 已屏蔽。", "didnt": "未完成：{why}",
    "back": "返回", "node.abilities": "能力", "node.asr": "识别", "node.semantic": "修复", "node.tts": "合成", "node.nmt": "翻译", "node.detail": "节点自述", "node.slots": "槽位", "slots.text": "占用 {used}，开放 {open}，声明 {declared}",
    "node.useful": "怎样让它更有用", "node.useful.none": "没有被请求而它缺少的方向。", "node.lacks": "此节点{what}", "node.fine": "没有障碍：它会得到任务。", "node.gone": "这里不认识这个节点。",
    "d.version": "版本", "d.platform": "平台", "d.cpu": "CPU", "d.gpu": "GPU", "d.mem": "内存", "d.error": "最近错误", "d.models": "缺少模型", "d.supports": "协议特性", "d.instance": "实例", "d.hardware": "硬件",
    "sessions": "会话", "sessions.empty": "没有打开的会话。", "s.id": "会话", "s.direction": "方向", "s.client": "客户端", "s.since": "开始", "s.utterances": "句数", "s.tenant": "租户", "s.instance": "实例", "s.here": "已连接", "s.away": "暂时离开", "sessions.shown": "显示 {n} / {all}", "sessions.silent": "实例 {id} 没有应答：它的会话没有显示。",
    "instances": "实例", "i.id": "实例", "i.address": "地址", "i.since": "已运行", "i.nodes": "节点", "i.sessions": "会话", "i.jobs": "进行中 / 排队任务", "i.inbox": "收件箱", "i.leads": "主导任务", "i.seen": "最后消息", "i.version": "版本",
    "i.this": "当前", "i.missing": "失联", "i.draining": "正在停止", "i.alive": "运行中", "i.state": "状态", "instances.empty": "暂无数据。", "task.deadlines": "超时清理", "task.snapshot": "汇总数据", "task.janitor": "清扫",
    "explain": "任务会去哪里，为什么？", "explain.note": "选择一个方向，查看现在哪些节点能接这样的任务，其余为何不能。", "e.src": "从", "e.tgt": "到", "e.tts": "需要语音，不只是文字", "e.node": "以及这个节点（可选）", "e.ask": "解释",
    "e.some": "{all} 个节点中有 {n} 个现在能接。从有空闲槽位的节点中随机选择。", "e.nobody": "现在没有节点能接。", "e.waiting": "该方向有 {n} 个任务排队。", "e.reasons": "其余节点为何不能", "e.reason": "原因", "e.nodes": "节点数", "e.idle": "在上方提问，答案显示在这里。", "e.one": "{id} 能接。", "e.not": "{id} 不能接：{why}。",
    "why.asr": "不识别该语言", "why.semantic": "不修复该语言", "why.nmt": "不翻译该方向", "why.tts": "不合成该语言", "why.service": "有服务未就绪", "why.model": "缺少模型", "why.tenant": "属于其他租户", "why.private": "只接点名的任务", "why.health": "未就绪", "why.stale": "心跳超时", "why.overloaded": "过载", "why.unknown": "这里不认识",
    "job": "任务", "job.find": "按编号查找任务", "job.open": "显示", "job.state": "状态", "job.timeline": "尝试", "job.none": "没有发给任何节点。", "job.gone": "没有这个任务的记录。", "job.waited": "排队 {ms}", "job.total": "耗时 {ms}", "job.handed": "提交", "job.sent": "发出", "job.acked": "接受", "job.ended": "结束", "job.session": "会话", "job.notes": "备注", "job.attempt": "第 {n} 次，在 {node}", "job.error": "失败原因", "job.running": "进行中",
    "loading": "载入中…", "failed": "无法读取：{why}", "retry": "重试", "unit.ms": " ms", "foot": "所有实例的数据，每 {s} 秒由 {leader} 汇总。存储：{store}。",
  },
};

// Findings and reasons come from the scheduler in English; these are their Chinese.
const FINDINGS_ZH = {
  store_down: "存储没有应答；恢复之前拒绝新任务。", snapshot_old: "有一段时间没有新数据，显示的是旧数据。", draining: "实例 {subject} 正在停止，不接新任务。",
  no_nodes: "没有节点连接，无法翻译。", no_ready_node: "有节点连接，但都不接任务。", pair_starved: "{subject} 有 {count} 个任务在等，没有空闲槽位。",
  error_rate: "最近一分钟有 {count}% 的任务失败。", queue_timeouts: "最近一分钟有 {count} 个任务因为没有空闲槽位而放弃。", instance_missing: "实例 {subject} 失联，且没有说要离开。",
  pair_unserved: "最近有人请求 {subject}，但没有节点提供。", breaker_open: "{count} 个节点失败过多，暂时不用。", nodes_overdue: "{count} 个节点心跳超时。",
  nodes_overloaded: "{count} 个节点过载。", nodes_ordered: "{count} 个节点被管理员排空或屏蔽。", all_slots_taken: "所有节点的槽位都已占用。", inbox_deep: "实例 {subject} 有 {count} 条消息未处理。",
};
const IDLE_ZH = [
  [/^it is not connected$/, "没有连接"], [/^its heartbeat is overdue$/, "心跳超时"], [/^an administrator drains it$/, "管理员正在排空它"], [/^an administrator blocked it$/, "管理员屏蔽了它"],
  [/^it failed too often and is left alone for (\d+) ms more$/, "失败过多，还要等 $1 毫秒"], [/^it failed before and gets one job to show it works$/, "曾经失败，先给一个任务试探"],
  [/^it reported a resource above the threshold$/, "资源超过阈值"], [/^it says of itself that it is (\w+)$/, "它自称 $1"], [/^it takes only jobs that name it.*$/, "只接点名的任务"],
  [/^it speaks no language, so it gets text jobs only$/, "不合成语音，只接文字任务"], [/^it misses (.*)$/, "缺少 $1"], [/^all its open slots are taken$/, "开放的槽位都被占用"],
];

// Why a token is refused, in the scheduler's words, and in those of the page.
const DENIALS = {
  "a token is needed here": ["This scheduler asks who you are before it shows anything.", "调度器需要先确认您的身份。"],
  "the token is not good here": ["This token is not good here: it is cut off, or signed with another key.", "此令牌在这里无效：内容不完整，或由其他密钥签名。"],
  "it is no token": ["This is no token: it has letters that none has.", "这不是令牌：含有令牌不会有的字符。"],
  "the token is not good yet": ["This token is not good yet.", "此令牌尚未生效。"],
  "the token has expired": ["The token has expired. Show a newer one to go on.", "令牌已过期，请出示新的令牌。"],
  "the token is revoked": ["The token was revoked.", "令牌已被吊销。"],
  "this is for tokens of the role admin": ["This is a good token, but no administrator's.", "令牌有效，但不是管理员令牌。"],
};

let lang = "en";

export const language = () => lang;
export function setLanguage(wanted) {
  lang = WORDS[wanted] ? wanted : "en";
  document.documentElement.lang = lang === "zh" ? "zh-CN" : "en";
}

const put = (text, values) =>
  text.replace(/\{(\w+)\}/g, (all, name) => (values && name in values ? values[name] : all));

export function t(key, values) {
  return put(WORDS[lang][key] ?? WORDS.en[key] ?? key, values);
}

// With one form for one and another for more, where the language has two.
export function tn(key, n) {
  const forms = t(key).split("|");
  return put(n === 1 ? forms[0] : forms.at(-1), { n: number(n) });
}

export function finding(found) {
  const text = lang === "zh" && FINDINGS_ZH[found.code];
  return arrow(text ? put(text, found) : found.text);
}

export const arrow = (text) => text.replaceAll("<->", " ↔ ").replaceAll("->", " → ");

export const denial = (detail) => DENIALS[detail]?.[lang === "zh" ? 1 : 0] ?? detail;

export function idle(sentence) {
  if (lang !== "zh") return sentence;
  const known = IDLE_ZH.find(([pattern]) => pattern.test(sentence));
  return known ? sentence.replace(known[0], known[1]) : sentence;
}

export function number(value) {
  if (!Number.isFinite(value)) return "–";
  const digits = Math.abs(value) >= 100 || Number.isInteger(value) ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return value.toLocaleString(lang === "zh" ? "zh-CN" : "en", { maximumFractionDigits: digits });
}

export function span(ms) {
  if (!Number.isFinite(ms)) return "–";
  if (ms < 1000) return number(ms) + t("unit.ms");
  const seconds = ms / 1000;
  if (seconds < 120) return `${number(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${number(seconds / 3600)} h` : `${Math.floor(seconds / 86400)} d`;
}

export function clock(ms, seconds = true) {
  const parts = { hour: "2-digit", minute: "2-digit", hour12: false };
  if (seconds) parts.second = "2-digit";
  return new Date(ms).toLocaleTimeString(lang === "zh" ? "zh-CN" : "en-GB", parts);
}
