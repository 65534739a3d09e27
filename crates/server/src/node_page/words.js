// Every word of the page, in English and Chinese.

const WORDS = {
  en: {
    "title": "My node", "other": "中文", "how": "Show the token that your node connects with. It may see this one node and nothing else.",
    "token": "Token of the node", "name": "Name of the node, if it is not in the token", "go": "Show", "kept": "The token stays in the memory of this page and is gone when you close or reload it.",
    "problem.denied": "This token is not taken: {why}", "problem.unknown": "The scheduler does not know {name}: {why}", "problem.other": "The scheduler does not answer: {why}", "problem.name": "Which node? Show its token, or its name.",
    "state.registering": "{name} is starting", "state.ready": "{name} is ready", "state.degraded": "{name} is degraded", "state.draining": "{name} is draining", "state.offline": "{name} is not connected",
    "idle.none": "Nothing is in the way of jobs.", "idle": "Why it gets no jobs", "useful": "What would make it useful", "useful.none": "Nothing is asked for in vain that it could serve.", "useful.row": "{direction}: it lacks {lacks}", "spoken": "spoken",
    "facts": "Now", "slots": "Slots", "slots.row": "{used} in use, {open} open, {declared} declared", "running": "Jobs it works on", "done": "Jobs done", "failed": "Jobs failed", "latency": "A job takes", "order": "Administrator", "order.serve": "no order", "order.drain": "drains it", "order.block": "blocked it",
    "breaker": "Circuit breaker", "breaker.closed": "closed: jobs as usual", "breaker.open": "open: no jobs for a while", "breaker.probing": "probing: one job at a time", "models": "Missing models", "error": "Its last error",
    "serves": "What it serves", "asr": "Recognises", "semantic": "Repairs", "nmt": "Translates", "tts": "Speaks", "private": "Only jobs that name it", "none": "none",
    "failures": "Last failures", "failures.none": "None.", "failure": "{time}: {code}, job {job}", "asked": "Asked at {time}; asks again every 5 s.",
  },
  zh: {
    "title": "我的节点", "other": "English", "how": "请出示节点连接时使用的令牌。它只能查看这一个节点。",
    "token": "节点的令牌", "name": "节点名称（如果令牌里没有）", "go": "查看", "kept": "令牌只保存在本页面的内存里，关闭或刷新后即消失。",
    "problem.denied": "令牌未被接受：{why}", "problem.unknown": "调度器不认识 {name}：{why}", "problem.other": "调度器没有回应：{why}", "problem.name": "哪个节点？请出示令牌或填写名称。",
    "state.registering": "{name} 正在启动", "state.ready": "{name} 已就绪", "state.degraded": "{name} 状态不佳", "state.draining": "{name} 正在排空", "state.offline": "{name} 未连接",
    "idle.none": "没有什么妨碍它接任务。", "idle": "为什么没有任务", "useful": "怎样才更有用", "useful.none": "没有它能补上的空缺。", "useful.row": "{direction}：缺少 {lacks}", "spoken": "含语音",
    "facts": "现在", "slots": "槽位", "slots.row": "已用 {used}，开放 {open}，声明 {declared}", "running": "正在处理", "done": "已完成", "failed": "已失败", "latency": "单个任务耗时", "order": "管理员", "order.serve": "没有指令", "order.drain": "要求排空", "order.block": "已封禁",
    "breaker": "熔断器", "breaker.closed": "关闭：照常接任务", "breaker.open": "打开：暂时没有任务", "breaker.probing": "试探：一次一个任务", "models": "缺少的模型", "error": "它最近的错误",
    "serves": "它的能力", "asr": "识别", "semantic": "修正", "nmt": "翻译", "tts": "朗读", "private": "只接点名的任务", "none": "无",
    "failures": "最近的失败", "failures.none": "没有。", "failure": "{time}：{code}，任务 {job}", "asked": "查询于 {time}；每 5 秒再查一次。",
  },
};

let language = (navigator.language || "en").startsWith("zh") ? "zh" : "en";

export const current = () => language;

export function switchLanguage() {
  language = language === "en" ? "zh" : "en";
}

export function t(key, values = {}) {
  const text = WORDS[language][key] ?? key;
  return text.replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ""));
}
