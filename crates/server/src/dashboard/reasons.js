// Why a node gets no jobs or cannot take one, in English and Chinese: for the dashboard and the page of a node.

// By the words of the API: what a node lacks for a job.
const WHY_NOT = {
  asr: ["does not recognise the source language", "不识别该语言"],
  semantic: ["does not repair the source language", "不修复该语言"],
  nmt: ["does not translate this direction", "不翻译该方向"],
  tts: ["does not speak the target language", "不合成该语言"],
  service: ["has a service that is not ready", "有服务未就绪"],
  model: ["lacks a model", "缺少模型"],
  feature: ["lacks a feature", "缺少功能"],
  region: ["is in another region", "在其他区域"],
  tenant: ["serves other tenants only", "属于其他租户"],
  text: ["takes speech only, and no text", "只接语音，不接文字"],
  private: ["takes only jobs that name it", "只接点名的任务"],
  health: ["is not ready", "未就绪"],
  stale: ["has an overdue heartbeat", "心跳超时"],
  unknown: ["is unknown to this scheduler", "这里不认识"],
};

const STATES_ZH = { ready: "就绪", registering: "启动中", degraded: "异常", draining: "排空中", offline: "离线" };

// The sentences come from the scheduler in English; this is their Chinese.
const IDLE_ZH = [
  [/^it is not connected$/, "没有连接"], [/^its heartbeat is overdue$/, "心跳超时"], [/^an administrator drains it$/, "管理员正在排空它"], [/^an administrator blocked it$/, "管理员屏蔽了它"],
  [/^it failed too often and gets no jobs for (\d+) s$/, "失败过多，$1 秒内不分配任务"], [/^it failed before and gets one job as a probe$/, "曾经失败，先分配一个任务试探"],
  [/^the scheduler has just started: it gets jobs once it says what it runs, or in (\d+) s$/, "调度器刚启动：它报告正在处理的任务后即可接任务，最迟 $1 秒后"],
  [/^it was put aside after (\d+) failures in a row(?:, the last one (\w+))?: it gets one job as a probe in (\d+) s.*$/, (all, n, code, s) => `连续失败 ${n} 次${code ? `（最近一次 ${code}）` : ""}，已被搁置：${s} 秒后分配一个任务试探，或由所有者恢复`],
  [/^it was put aside after (\d+) failures in a row(?:, the last one (\w+))?: it gets one job as a probe now$/, (all, n, code) => `连续失败 ${n} 次${code ? `（最近一次 ${code}）` : ""}，已被搁置：现在分配一个任务试探`],
  [/^it reports a resource above the threshold.*$/, "资源超过阈值：其他节点没有空闲时才分配任务"], [/^it reports the state (\w+)$/, (all, word) => `上报状态：${STATES_ZH[word] ?? word}`], [/^it takes only jobs that name it.*$/, "只接点名的任务"],
  [/^it has no speech synthesis, so it gets text jobs only$/, "没有语音合成，只接文字任务"], [/^it lacks (.*)$/, "缺少 $1"], [/^all its open slots are taken$/, "开放的槽位都被占用"],
  [/^(\d+) of (\d+) slots open; the others open as its jobs succeed$/, "$2 个槽位中开放 $1 个，其余随任务成功逐步开放"],
  [/^it has shown itself on (\d+) of (\d+) slots.*$/, "$2 个槽位中 $1 个照常使用，其余在任务成功之前只在别处没有空闲时使用"], [/^services that are not ready: (.*)$/, "未就绪的服务：$1"],
  [/^jobs that it could do ask for (.*)$/, "它本可承接的任务要求 $1"], [/^it lists no language for semantic repair.*$/, "没有列出可语义修复的语言：服务尚未运行"],
];

export const arrow = (text) => text.replaceAll("<->", " ↔ ").replaceAll("->", " → ");

export function idle(sentence, lang) {
  if (lang !== "zh") return sentence;
  const known = IDLE_ZH.find(([pattern]) => pattern.test(sentence));
  return known ? sentence.replace(known[0], known[1]) : sentence;
}

export function whyNot(words, lang) {
  return words.map((word) => WHY_NOT[word]?.[lang === "zh" ? 1 : 0] ?? word).join(lang === "zh" ? "，" : ", ");
}
