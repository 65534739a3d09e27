// The words of what is used and of the catalogue, in English and Chinese.

export const USAGE_WORDS = {
  en: {
    "nav.usage": "Usage", "usage.languages": "Sentences by language pair and day", "usage.people": "at most {n} people at the same time", "usage.days": "{n} days",
    "usage.empty": "Nothing was counted on these days.", "usage.other": "others", "usage.unknown": "unknown", "usage.more": "{n} more are in the table of the API.",
    "usage.tenant": "Tenants", "usage.service": "Services", "usage.by.tenant": "Tenant", "usage.by.service": "Service", "usage.by.n": "Count", "usage.by.speech_s": "Speech", "usage.by.failed": "Failed",
    "usage.csv": "Days are those of UTC. As a table:",
    "catalogue": "Catalogue of services", "catalogue.never": "Not read yet.", "catalogue.age": "Confirmed {age} ago, at {time}. Work of the last seven days.", "catalogue.problem": "The catalogue cannot be read, and the last good one is shown: {why}",
    "catalogue.empty": "The catalogue has no services.", "catalogue.all": "any", "catalogue.nobody": "no node", "catalogue.on": "on {n}", "catalogue.on.some": "on {n}, running on {running}", "catalogue.unlisted": "not in the catalogue",
    "catalogue.by.service": "Service", "catalogue.by.versions": "Versions", "catalogue.by.languages": "Languages", "catalogue.by.nodes": "Nodes", "catalogue.by.jobs": "Jobs", "catalogue.by.failed": "Failed",
  },
  zh: {
    "nav.usage": "用量", "usage.languages": "每日各语言方向的句数", "usage.people": "最多同时 {n} 人", "usage.days": "{n} 天",
    "usage.empty": "这些天没有用量。", "usage.other": "其他", "usage.unknown": "未知", "usage.more": "另有 {n} 项，见 API 表格。",
    "usage.tenant": "租户", "usage.service": "服务", "usage.by.tenant": "租户", "usage.by.service": "服务", "usage.by.n": "数量", "usage.by.speech_s": "语音时长", "usage.by.failed": "失败",
    "usage.csv": "按 UTC 日期统计。表格：",
    "catalogue": "服务目录", "catalogue.never": "尚未读取。", "catalogue.age": "{age} 前确认（{time}）。工作量为最近七天。", "catalogue.problem": "目录无法读取，显示的是上一次有效的目录：{why}",
    "catalogue.empty": "目录中没有服务。", "catalogue.all": "不限", "catalogue.nobody": "没有节点", "catalogue.on": "{n} 个节点", "catalogue.on.some": "{n} 个节点，其中 {running} 个可用", "catalogue.unlisted": "不在目录中",
    "catalogue.by.service": "服务", "catalogue.by.versions": "版本", "catalogue.by.languages": "语言", "catalogue.by.nodes": "节点", "catalogue.by.jobs": "任务", "catalogue.by.failed": "失败",
  },
};
