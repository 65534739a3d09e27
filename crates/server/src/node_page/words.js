// Every word of the page, in English and Chinese.

const WORDS = {
  en: {
    "title": "My node", "other": "中文", "how": "Enter the token that your node connects with. It shows this one node and nothing else.",
    "token": "Token of the node", "name": "Name of the node, if it is not in the token", "go": "Show", "kept": "The token stays in the memory of this page, and is gone when you reload or close it.",
    "problem.denied": "This token is refused: {why}", "problem.unknown": "{name} is not registered: {why}", "problem.other": "The scheduler gave no answer: {why}", "problem.name": "Enter the token of the node, or its name.",
    "state.registering": "{name} is starting", "state.ready": "{name} is ready", "state.degraded": "{name} is degraded", "state.draining": "{name} is draining", "state.offline": "{name} is not connected",
    "idle.none": "It can get jobs.", "idle": "Why it gets no jobs", "useful": "What would make it more useful", "useful.none": "Every requested direction has a node.", "useful.row": "{direction}: this node {lacks}", "spoken": "spoken",
    "facts": "Current state", "slots": "Slots", "slots.row": "{used} in use, {open} open, {declared} declared", "running": "Running jobs", "done": "Jobs done", "failed": "Jobs failed", "latency": "Time per job", "order": "Administrator's order", "order.serve": "none", "order.drain": "drain: it gets no new jobs", "order.block": "block: it is refused",
    "breaker": "Circuit breaker", "breaker.closed": "closed: jobs as usual", "breaker.open": "open: no jobs for a while", "breaker.probing": "probing: one job at a time", "models": "Missing models", "error": "Last error",
    "serves": "What it serves", "asr": "Recognises", "semantic": "Repairs", "nmt": "Translates", "tts": "Speaks", "private": "It takes only jobs that name it", "none": "none",
    "failures": "Last failures", "failures.none": "None.", "failure": "{time}: {code}, job {job}", "asked": "As of {time}; updated every 5 s.",
  },
  zh: {
    "title": "我的节点", "other": "English", "how": "请输入节点连接时使用的令牌。它只能查看这一个节点。",
    "token": "节点的令牌", "name": "节点名称（如果令牌里没有）", "go": "查看", "kept": "令牌只保存在本页面的内存里，关闭或刷新后即消失。",
    "problem.denied": "令牌被拒绝：{why}", "problem.unknown": "{name} 没有注册：{why}", "problem.other": "调度器没有回应：{why}", "problem.name": "请输入节点的令牌或名称。",
    "state.registering": "{name} 正在启动", "state.ready": "{name} 已就绪", "state.degraded": "{name} 状态不佳", "state.draining": "{name} 正在排空", "state.offline": "{name} 未连接",
    "idle.none": "可以接任务。", "idle": "为什么没有任务", "useful": "怎样才更有用", "useful.none": "所有被请求的方向都有节点。", "useful.row": "{direction}：此节点{lacks}", "spoken": "含语音",
    "facts": "当前状态", "slots": "槽位", "slots.row": "已用 {used}，开放 {open}，声明 {declared}", "running": "正在处理", "done": "已完成", "failed": "已失败", "latency": "单个任务耗时", "order": "管理员指令", "order.serve": "无", "order.drain": "排空：不接新任务", "order.block": "屏蔽：拒绝连接",
    "breaker": "熔断器", "breaker.closed": "关闭：照常接任务", "breaker.open": "打开：暂时没有任务", "breaker.probing": "试探：一次一个任务", "models": "缺少的模型", "error": "它最近的错误",
    "serves": "它的能力", "asr": "识别", "semantic": "修正", "nmt": "翻译", "tts": "朗读", "private": "只接点名的任务", "none": "无",
    "failures": "最近的失败", "failures.none": "没有。", "failure": "{time}：{code}，任务 {job}", "asked": "{time} 的数据；每 5 秒更新。",
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
