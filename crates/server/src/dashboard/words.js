// Every word of the page, in English and Chinese, and how numbers and times are written.

import { arrow, idle as idleIn, whyNot as whyNotIn } from "./reasons.js";
import { USAGE_WORDS } from "./usage_words.js";

const WORDS = {
  en: {
    "skip": "Skip to content", "nav.label": "Sections", "nav.": "Overview", "nav.nodes": "Nodes", "nav.jobs": "Jobs",
    "nav.sessions": "Sessions", "nav.instances": "Instances", "nav.explain": "Explain",
    "what": "Each sentence that people speak goes to a GPU node that can translate it; the results come back in order.",
    "well": "All well.", "well.detail": "Every language pair that is asked for has free slots.",
    "starting": "Waiting for the first figures…", "more": "Also:",
    "now": "{instances} · {nodes} · {speakers} · {rate} jobs a second",
    "instances.n": "{n} instance|{n} instances", "nodes.n": "{n} node ready|{n} nodes ready",
    "speakers.n": "{n} person connected|{n} people connected",
    "live": "Live", "wait": "Connecting…", "lost": "Not connected", "age": "{n} s ago", "stale": "Old",
    "banner.lost": "The connection to the scheduler is lost. What you see is from {time}. Trying again…",
    "banner.never": "The scheduler does not answer. Trying again…",
    "again": "Connected again.", "restarted": "Connected again: the scheduler has restarted.",
    "locked": "Token needed", "token.title": "Token required: role admin or viewer", "token.label": "Token", "token.go": "Open", "token.checking": "Checking…", "token.forget": "Forget token",
    "token.how": "Make one with the signing key; it is valid for one hour:",
    "token.kept": "It stays in the memory of this page, and is gone when you reload or close it.",
    "theme": "Theme", "theme.auto": "Auto", "theme.light": "Light", "theme.dark": "Dark", "lang": "Language",
    "kpi.rate": "Jobs a second", "kpi.ok": "Succeeded", "kpi.ok.sub": "in the last minute", "matrix.wait": "{n} queued", "kpi.sentence": "Sentence latency, p95",
    "kpi.slots": "Slots in use", "kpi.waiting": "Queued jobs", "kpi.sessions": "Sessions",
    "kpi.sessions.sub": "{n} connected", "kpi.slots.sub": "of {n}", "kpi.open": "{n} open",
    "kpi.sentence.sub": "from the end of speech to the result", "kpi.none": "no jobs yet",
    "charts": "Charts", "chart.rate": "Jobs a second", "chart.latency": "Latency",
    "chart.endings": "Endings by reason", "chart.empty": "Nothing to draw yet: the first figures come within five seconds.",
    "series.rate": "ended", "latency.of": "Show", "latency.job": "job", "latency.dispatch": "dispatch",
    "latency.sentence": "sentence",
    "matrix": "Language pairs", "matrix.note": "Rows: source language. Columns: target language. Free / all slots. Select a cell to see why.",
    "matrix.empty": "No node serves any pair yet.", "matrix.corner": "from \\ into", "matrix.cell": "{src} into {tgt}: {supply}. {free} of {slots} slots free, {not_open} not open yet, {ready} of {nodes} nodes ready, {waiting} queued.",
    "matrix.more": "{n} languages are not shown; the pairs in trouble are.",
    "supply.good": "free slots", "supply.tight": "nearly full", "supply.full": "full", "supply.starved": "jobs queued",
    "supply.unserved": "no node ready", "supply.none": "not offered",
    "failures": "Jobs that failed lately", "failures.empty": "No job has failed lately.", "failures.all": "All failed jobs of the last hour", "link.jobs": "Show these jobs", "link.nodes": "Show the nodes",
    "f.when": "When", "f.job": "Job", "f.code": "Reason", "f.direction": "Direction", "f.node": "Last node", "f.tries": "Attempts",
    "first.title": "Nothing is connected yet", "first.text": "Start simulated nodes and a speaker to see it work:",
    "nodes": "Nodes", "nodes.empty": "No node is connected. Start one:", "nodes.none": "No node matches the filter.", "nodes.filter": "Filter nodes", "nodes.shown": "{n} of {all} shown", "chart.range": "Time range", "chart.minutes": "{n} min", "chart.hours": "{n} h", "chart.keys": "Arrow keys read the values point by point.",
    "nodes.next": "Show more", "n.id": "Node", "n.state": "State", "n.load": "Load", "n.langs": "Languages", "n.breaker": "Breaker",
    "n.latency": "Job takes", "n.done": "Done / failed", "n.idle": "Why it gets no jobs", "n.act": "Actions", "n.on": "on {instance}",
    "state.ready": "ready", "state.registering": "starting", "state.degraded": "degraded", "state.draining": "draining", "state.offline": "offline",
    "breaker.closed": "closed", "breaker.open": "open", "breaker.probing": "probing",
    "order.drain": "drained by hand", "order.block": "blocked",
    "do.drain": "Drain", "do.resume": "Resume", "do.block": "Block", "do.cancel_job": "Cancel job", "do.disconnect": "Disconnect", "cancel": "Keep as it is",
    "ask.drain": "Drain {id}?", "ask.drain.text": "It finishes its jobs and gets no new ones until it is resumed.",
    "ask.resume": "Resume {id}?", "ask.resume.text": "It gets jobs again.",
    "ask.block": "Block {id}?", "ask.block.text": "Its connection is closed, its jobs are retried on other nodes, and it cannot register until it is resumed.",
    "ask.cancel_job": "Cancel job {id}?", "ask.cancel_job.text": "Its node is told to stop, and the speaker gets no result for this utterance.",
    "ask.disconnect": "Disconnect session {id}?", "ask.disconnect.text": "Its open jobs are cancelled, its connection is closed, and the client is told not to reconnect.",
    "did.drain": "{id} is draining.", "did.resume": "{id} serves again.", "did.block": "{id} is blocked.", "did.cancel_job": "Job {id}: {state}.", "did.disconnect": "Session {id} is disconnected.",
    "didnt": "Not done: {why}",
    "back": "Back", "node.abilities": "What it can do", "node.asr": "Speech recognition", "node.semantic": "Semantic repair", "node.tts": "Speech synthesis", "node.nmt": "Translation", "node.region": "Region", "node.models": "Models", "node.services": "Services", "node.features": "Features", "node.unloaded": "not loaded",
    "node.detail": "Reported by the node", "node.slots": "Slots", "node.used": "in use", "node.done": "done", "node.failed": "failed", "node.ended": "Jobs by the minute", "node.past": "What it did", "node.jobs": "Jobs on this node", "node.jobs.failed": "Failed jobs", "slots.text": "{used} in use, {open} open, {declared} declared",
    "node.useful": "What would make it more useful", "node.useful.none": "Every requested direction has a node.", "node.lacks": "this node {what}",
    "node.fine": "It takes jobs.", "node.gone": "No node of this name is known here.",
    "d.version": "Version", "d.platform": "Platform", "d.cpu": "CPU", "d.gpu": "GPU", "d.mem": "Memory", "d.gpumem": "GPU memory", "d.error": "Last error", "d.models": "Missing models", "d.supports": "Protocol features", "d.instance": "Instance", "d.hardware": "Hardware",
    "sessions": "Sessions", "sessions.empty": "No session is open.", "s.id": "Session", "s.direction": "Direction", "s.client": "Client", "s.since": "Since", "s.utterances": "Utterances", "s.tenant": "Tenant", "s.instance": "Instance",
    "s.here": "connected", "s.away": "disconnected, may resume", "sessions.all": "All sessions", "session.gone": "No session of this id is open.", "session.jobs": "Jobs of this session", "session.jobs.empty": "No job of this session within the last hour.", "sessions.shown": "{n} of {all} shown", "sessions.silent": "Instance {id} did not answer: its sessions are not shown.",
    "instances": "Instances", "i.id": "Instance", "i.address": "Address", "i.since": "Running for", "i.nodes": "Nodes", "i.sessions": "Sessions", "i.jobs": "Open / queued jobs", "i.inbox": "Inbox", "i.leads": "Leader of", "i.seen": "Last seen", "i.version": "Version",
    "i.this": "this one", "i.missing": "missing", "i.draining": "stopping", "i.alive": "running", "i.state": "State", "instances.empty": "No figures yet.",
    "task.deadlines": "deadlines", "task.snapshot": "snapshot", "task.janitor": "cleanup",
    "explain": "How many nodes can take a job?", "explain.note": "Enter a direction to see how many nodes could take such a job now, and why the others could not.",
    "e.src": "From", "e.tgt": "Into", "e.tts": "Spoken, not only text", "e.node": "And this node (optional)", "e.ask": "Explain",
    "e.some": "{n} of {all} nodes could take it now. One of those with a free slot is chosen at random.", "e.nobody": "No node could take it now.", "e.waiting": "{n} jobs are queued for this direction.", "e.jobs": "Jobs of this direction",
    "e.reasons": "Why the others cannot", "e.reason": "Reason", "e.nodes": "Nodes", "e.idle": "The answer appears here.",
    "e.one": "{id} could take it.", "e.not": "{id} could not take it: {why}.",
    "jobs": "Jobs", "jobs.shown": "{n} of {all} shown", "jobs.silent": "Instance {id} did not answer: its jobs are not shown.", "jobs.empty": "No job matches.", "jobs.older": "Older →", "jobs.newest": "← Newest", "jobs.any": "any", "jobs.filter": "Filter", "jobs.all": "Show all",
    "jobs.kept": "Open jobs, and jobs that ended within the last {minutes} minutes; each instance keeps at most {n} of them.",
    "jobs.by.src": "From", "jobs.by.tgt": "Into", "jobs.by.tenant": "Tenant", "jobs.by.node": "Node", "jobs.by.code": "Code", "jobs.by.session": "Session", "jobs.by.instance": "Instance",
    "j.when": "Submitted", "j.job": "Job", "j.state": "State", "j.direction": "Direction", "j.node": "Last node", "j.session": "Session", "j.tenant": "Tenant", "j.took": "Took", "j.tries": "Attempts",
    "job.state.open": "open", "job.state.ended": "ended", "job.state.new": "new", "job.state.selecting": "choosing a node", "job.state.waiting": "queued", "job.state.reserved": "slot reserved", "job.state.dispatched": "sent", "job.state.acked": "running", "job.state.retrying": "retrying", "job.state.done": "done", "job.state.failed": "failed", "job.state.cancelled": "cancelled",
    "job.output": "Output", "job.spoken": "speech and text", "job.text": "text only", "job.trace": "Trace id", "job.node_id": "Job id at the node", "job.empty": "No result", "job.reason": "Reason", "job.find": "Find a job", "job.find.id": "Its id, or the id that its node logs", "job.open": "Show", "job.state": "State", "job.timeline": "Attempts", "job.none": "It was not sent to any node.", "job.gone": "No such job is known. Jobs are kept for an hour after their end.",
    "job.waited": "Queued for {ms}", "job.total": "Took {ms}", "job.handed": "submitted", "job.sent": "sent", "job.acked": "accepted", "job.ended": "ended", "job.session": "Session", "job.notes": "Notes", "job.attempt": "Attempt {n} on", "job.error": "Why it failed", "job.running": "still open",
    "loading": "Loading…", "failed": "This could not be read: {why}", "retry": "Try again", "unit.ms": " ms", "foot": "Figures of all instances, updated every {s} s by {leader}. Store: {store}.",
  },
  zh: {
    "skip": "跳到内容", "nav.label": "栏目", "nav.": "总览", "nav.nodes": "节点", "nav.jobs": "任务", "nav.sessions": "会话", "nav.instances": "实例", "nav.explain": "解释",
    "what": "用户说话，每句话交给能翻译它的 GPU 节点，译文按顺序返回。",
    "well": "一切正常。", "well.detail": "所有被请求的语言方向都有空闲槽位。", "starting": "数据即将到达…", "more": "另外：",
    "now": "{instances} · {nodes} · {speakers} · 每秒 {rate} 个任务", "instances.n": "{n} 个实例", "nodes.n": "{n} 个节点就绪", "speakers.n": "{n} 人在线",
    "live": "实时", "wait": "正在连接…", "lost": "未连接", "age": "{n} 秒前", "stale": "数据陈旧",
    "banner.lost": "与调度器的连接已断开。当前显示的是 {time} 的数据，正在重试…", "banner.never": "调度器没有应答，正在重试…",
    "again": "已重新连接。", "restarted": "已重新连接：调度器重启过。",
    "locked": "需要令牌", "token.title": "需要令牌：角色 admin 或 viewer", "token.label": "令牌", "token.go": "打开", "token.checking": "正在检查…", "token.forget": "忘记令牌",
    "token.how": "由持有签名密钥的人生成，有效期一小时：", "token.kept": "令牌只保存在本页内存中，刷新或关闭页面后即消失。",
    "theme": "主题", "theme.auto": "自动", "theme.light": "浅色", "theme.dark": "深色", "lang": "语言",
    "kpi.rate": "每秒任务数", "kpi.ok": "成功率", "kpi.ok.sub": "最近一分钟", "matrix.wait": "{n} 在等", "kpi.sentence": "句子延迟（p95）", "kpi.slots": "占用槽位", "kpi.waiting": "排队任务", "kpi.sessions": "会话",
    "kpi.sessions.sub": "{n} 个已连接", "kpi.slots.sub": "共 {n}", "kpi.open": "{n} 个进行中", "kpi.sentence.sub": "从说完到收到结果", "kpi.none": "尚无任务",
    "charts": "图表", "chart.rate": "每秒任务数", "chart.latency": "耗时", "chart.endings": "结束原因", "chart.empty": "暂无数据：五秒内会有第一批数据。",
    "series.rate": "已结束", "latency.of": "显示", "latency.job": "任务", "latency.dispatch": "派发", "latency.sentence": "句子",
    "matrix": "语言方向", "matrix.note": "行是说的语言，列是听的语言。显示空闲/全部槽位。选择单元格查看原因。", "matrix.empty": "还没有节点提供任何语言方向。", "matrix.corner": "从 \\ 到",
    "matrix.cell": "{src} 到 {tgt}：{supply}。{slots} 个槽位中 {free} 个空闲，另有 {not_open} 个尚未开放，{nodes} 个节点中 {ready} 个就绪，{waiting} 个任务排队。", "matrix.more": "另有 {n} 种语言未显示；有问题的方向都已显示。",
    "supply.good": "有空闲", "supply.tight": "快满了", "supply.full": "已满", "supply.starved": "任务在等", "supply.unserved": "无可用节点", "supply.none": "未提供",
    "failures": "最近失败的任务", "failures.empty": "最近没有任务失败。", "failures.all": "最近一小时的全部失败任务", "link.jobs": "查看这些任务", "link.nodes": "查看节点", "f.when": "时间", "f.job": "任务", "f.code": "原因", "f.direction": "方向", "f.node": "最后节点", "f.tries": "尝试次数",
    "first.title": "还没有任何连接", "first.text": "启动模拟节点和说话者，看看它如何工作：",
    "nodes": "节点", "nodes.empty": "没有节点连接。启动一个：", "nodes.none": "没有符合条件的节点。", "nodes.filter": "筛选节点", "nodes.shown": "显示 {n} / {all}", "chart.range": "时间范围", "chart.minutes": "{n} 分钟", "chart.hours": "{n} 小时", "chart.keys": "方向键逐点读取数值。", "nodes.next": "显示更多",
    "n.id": "节点", "n.state": "状态", "n.load": "负载", "n.langs": "语言", "n.breaker": "熔断", "n.latency": "任务耗时", "n.done": "完成 / 失败", "n.idle": "为何没有任务", "n.act": "操作", "n.on": "在 {instance} 上",
    "state.ready": "就绪", "state.registering": "启动中", "state.degraded": "异常", "state.draining": "排空中", "state.offline": "离线",
    "breaker.closed": "关闭", "breaker.open": "打开", "breaker.probing": "试探", "order.drain": "人工排空", "order.block": "已屏蔽",
    "do.drain": "排空", "do.resume": "恢复", "do.block": "屏蔽", "do.cancel_job": "取消任务", "do.disconnect": "断开会话", "cancel": "保持不变",
    "ask.drain": "排空 {id}？", "ask.drain.text": "它会完成手上的任务，恢复之前不再接新任务。", "ask.resume": "恢复 {id}？", "ask.resume.text": "它将重新接收任务。",
    "ask.block": "屏蔽 {id}？", "ask.block.text": "断开它的连接，任务在其他节点重试；恢复之前它不能再注册。",
    "ask.cancel_job": "取消任务 {id}？", "ask.cancel_job.text": "通知节点停止；说话者不会收到这句话的结果。", "ask.disconnect": "断开会话 {id}？", "ask.disconnect.text": "取消未完成的任务，关闭连接，并告知客户端不要重连。",
    "did.drain": "{id} 正在排空。", "did.resume": "{id} 恢复服务。", "did.block": "{id} 已屏蔽。", "did.cancel_job": "任务 {id}：{state}。", "did.disconnect": "会话 {id} 已断开。", "didnt": "未完成：{why}",
    "back": "返回", "node.abilities": "能力", "node.asr": "识别", "node.semantic": "修复", "node.tts": "合成", "node.nmt": "翻译", "node.region": "区域", "node.models": "模型", "node.services": "服务", "node.features": "功能", "node.unloaded": "未加载", "node.detail": "节点上报", "node.slots": "槽位", "node.used": "占用", "node.done": "完成", "node.failed": "失败", "node.ended": "每分钟任务数", "node.past": "运行记录", "node.jobs": "该节点的任务", "node.jobs.failed": "失败的任务", "slots.text": "占用 {used}，开放 {open}，声明 {declared}",
    "node.useful": "怎样让它更有用", "node.useful.none": "所有被请求的方向都有节点。", "node.lacks": "此节点{what}", "node.fine": "正常接收任务。", "node.gone": "这里不认识这个节点。",
    "d.version": "版本", "d.platform": "平台", "d.cpu": "CPU", "d.gpu": "GPU", "d.mem": "内存", "d.gpumem": "显存", "d.error": "最近错误", "d.models": "缺少模型", "d.supports": "协议特性", "d.instance": "实例", "d.hardware": "硬件",
    "sessions": "会话", "sessions.empty": "没有打开的会话。", "s.id": "会话", "s.direction": "方向", "s.client": "客户端", "s.since": "开始", "s.utterances": "句数", "s.tenant": "租户", "s.instance": "实例", "s.here": "已连接", "s.away": "已断开，可恢复", "sessions.all": "全部会话", "session.gone": "没有这个编号的会话。", "session.jobs": "该会话的任务", "session.jobs.empty": "最近一小时该会话没有任务。", "sessions.shown": "显示 {n} / {all}", "sessions.silent": "实例 {id} 没有应答：它的会话没有显示。",
    "instances": "实例", "i.id": "实例", "i.address": "地址", "i.since": "已运行", "i.nodes": "节点", "i.sessions": "会话", "i.jobs": "进行中 / 排队任务", "i.inbox": "收件箱", "i.leads": "主导任务", "i.seen": "最后消息", "i.version": "版本",
    "i.this": "当前", "i.missing": "失联", "i.draining": "正在停止", "i.alive": "运行中", "i.state": "状态", "instances.empty": "暂无数据。", "task.deadlines": "超时清理", "task.snapshot": "快照", "task.janitor": "清理",
    "explain": "有多少节点能接任务？", "explain.note": "输入一个方向，查看现在有多少节点能接这样的任务，其余为何不能。", "e.src": "从", "e.tgt": "到", "e.tts": "需要语音，不只是文字", "e.node": "以及这个节点（可选）", "e.ask": "解释",
    "e.some": "{all} 个节点中有 {n} 个现在能接。从有空闲槽位的节点中随机选择。", "e.nobody": "现在没有节点能接。", "e.waiting": "该方向有 {n} 个任务排队。", "e.jobs": "该方向的任务", "e.reasons": "其余节点为何不能", "e.reason": "原因", "e.nodes": "节点数", "e.idle": "答案显示在这里。", "e.one": "{id} 能接。", "e.not": "{id} 不能接：{why}。",
    "jobs": "任务", "jobs.shown": "显示 {n} / {all}", "jobs.silent": "实例 {id} 没有应答：它的任务没有显示。", "jobs.empty": "没有符合条件的任务。", "jobs.older": "更早 →", "jobs.newest": "← 最新", "jobs.any": "任意", "jobs.filter": "筛选", "jobs.all": "显示全部",
    "jobs.kept": "进行中的任务，以及最近 {minutes} 分钟内结束的任务；每个实例最多保留 {n} 个。",
    "jobs.by.src": "从", "jobs.by.tgt": "到", "jobs.by.tenant": "租户", "jobs.by.node": "节点", "jobs.by.code": "代码", "jobs.by.session": "会话", "jobs.by.instance": "实例",
    "j.when": "提交时间", "j.job": "任务", "j.state": "状态", "j.direction": "方向", "j.node": "最后节点", "j.session": "会话", "j.tenant": "租户", "j.took": "耗时", "j.tries": "尝试次数",
    "job.state.open": "进行中", "job.state.ended": "已结束", "job.state.new": "新建", "job.state.selecting": "选择节点", "job.state.waiting": "排队", "job.state.reserved": "已预留槽位", "job.state.dispatched": "已发出", "job.state.acked": "执行中", "job.state.retrying": "重试中", "job.state.done": "完成", "job.state.failed": "失败", "job.state.cancelled": "已取消",
    "job.output": "输出", "job.spoken": "语音和文字", "job.text": "仅文字", "job.trace": "跟踪编号", "job.node_id": "节点侧任务编号", "job.empty": "没有结果", "job.reason": "原因", "job.find": "查找任务", "job.find.id": "任务编号，或节点日志中的编号", "job.open": "显示", "job.state": "状态", "job.timeline": "尝试", "job.none": "没有发给任何节点。", "job.gone": "没有这个任务的记录。任务结束后保留一小时。", "job.waited": "排队 {ms}", "job.total": "耗时 {ms}", "job.handed": "提交", "job.sent": "发出", "job.acked": "接受", "job.ended": "结束", "job.session": "会话", "job.notes": "备注", "job.attempt": "第 {n} 次尝试，节点", "job.error": "失败原因", "job.running": "进行中",
    "loading": "载入中…", "failed": "无法读取：{why}", "retry": "重试", "unit.ms": " ms", "foot": "所有实例的数据，每 {s} 秒由 {leader} 汇总。存储：{store}。",
  },
};

// Findings come from the scheduler in English; this is their Chinese.
const FINDINGS_ZH = {
  store_down: "存储没有应答；恢复之前拒绝新的任务和会话。", snapshot_old: "有一段时间没有新数据，显示的是旧数据。", draining: "实例 {subject} 正在停止，不接新任务。",
  no_nodes: "没有节点连接，无法翻译。", no_ready_node: "有节点连接，但都未就绪。", pair_starved: "{subject} 有 {count} 个任务在等，没有空闲槽位。",
  error_rate: "最近一分钟有 {count}% 的任务失败。", queue_timeouts: "最近一分钟有 {count} 个任务因为没有空闲槽位而放弃。", instance_missing: "实例 {subject} 失联：它没有正常停止就不再上报。",
  pair_unserved: "最近有人请求 {subject}，但没有节点提供。", breaker_open: "{count} 个节点失败过多，任务暂时转到别处{nodes}。", nodes_overdue: "{count} 个节点心跳超时{nodes}。",
  nodes_overloaded: "{count} 个节点的资源超过阈值{nodes}。", nodes_ordered: "{count} 个节点被管理员排空或屏蔽{nodes}。", all_slots_taken: "所有节点的槽位都已占用。", inbox_deep: "实例 {subject} 有 {count} 条消息未处理。",
};

// Why a token is refused: how the scheduler's sentence begins, and the sentences of the page.
const DENIALS = {
  "a token is needed here": ["This scheduler requires a token.", "此调度器需要令牌。"],
  "the token is not good here": ["This token is not valid here{rest}.", "此令牌在这里无效：内容不完整，或由其他密钥签名。"],
  "it is no token": ["This is not a token: it has characters that no token has.", "这不是令牌：含有令牌不会有的字符。"],
  "the token is not good yet": ["This token is not valid yet.", "此令牌尚未生效。"],
  "the token has expired": ["The token has expired. Enter a newer one to continue.", "令牌已过期，请输入新的令牌。"],
  "the token is revoked": ["The token was revoked.", "令牌已被吊销。"],
  "this is for tokens of the role": ["The token is valid, but its role is neither admin nor viewer.", "令牌有效，但角色既不是 admin 也不是 viewer。"],
};

for (const [tongue, words] of Object.entries(USAGE_WORDS)) Object.assign(WORDS[tongue], words);

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
  if (!text) return arrow(found.text);
  const names = found.nodes ?? [];
  const rest = names.length < (found.count ?? 0) ? "，…" : "";
  return arrow(put(text, { ...found, nodes: names.length > 0 ? `（${names.join("，")}${rest}）` : "" }));
}

export { arrow };

// `{rest}` is what the scheduler says behind these words.
export function denial(detail) {
  const [said, texts] = Object.entries(DENIALS).find(([begin]) => detail.startsWith(begin)) ?? [];
  return texts ? put(texts[lang === "zh" ? 1 : 0], { rest: detail.slice(said.length) }) : detail;
}

export const idle = (sentence) => idleIn(sentence, lang);

export const whyNot = (words) => whyNotIn(words, lang);

// Why a job was cancelled, in the scheduler's word for it.
const REASONS = {
  caller: ["by its submitter", "由提交者取消"], operator: ["by an administrator", "由管理员取消"],
  session_over: ["its session ended", "会话已结束"], draining: ["the instance stopped", "实例已停止"], cancelled: ["by the speaker", "由说话者取消"],
};

export const reason = (word) => REASONS[word]?.[lang === "zh" ? 1 : 0] ?? word;

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
