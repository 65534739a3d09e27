// Every word of the page, in English and Chinese, and how times are written.

const WORDS = {
  en: {
    "skip": "Skip to the buttons", "lang": "Language of this page", "theme": "Theme", "theme.auto": "As the system", "theme.light": "Light", "theme.dark": "Dark",
    "middle": "Conversation settings", "swap": "Swap the two languages", "auto": "Hands-free", "auto.how": "The microphone stays on. When one person stops speaking, it is the other person's turn.", "flip": "Face to face",
    "side.a": "Me", "side.b": "The person opposite", "speaks": "Speaks", "served": "Served now", "others": "Other languages",
    "talk": "Speak", "talk.how": "Hold it while you speak. Or tap it once, speak, and stop.",
    "type": "Or type here", "type.send": "Translate", "type.lost": "There is no connection. The text was not sent; try again in a moment.",
    "listening": "Listening…", "waiting": "Speak now…", "translating": "Translating…", "playing": "Speaking…", "idle": "",
    "hint": "Hold the button and speak.", "hint.other": "The translation appears here.",
    "state.connecting": "Connecting…", "state.open": "Ready", "state.reconnecting": "Reconnecting…", "state.locked": "Token needed", "state.closing": "Ending…", "state.closed": "Ended", "state.idle": "Starting…",
    "banner.lost": "The connection is lost. You can go on: what you say is kept, and translated when the connection is back.", "banner.never": "The service does not answer. Trying again…", "banner.closed": "This conversation has ended: {why} Reload the page to start a new one.",
    "again": "Connected again. Nothing was lost.", "again.new": "Connected again, in a new conversation. What was not translated yet is sent again.",
    "no.nodes": "Translation is not available at the moment. Please try again soon.", "no.nodes.operator": "No node is connected. Start one, for example:", "no.pair": "{pair} is not available now. Choose other languages, or try again later.",
    "mic.insecure": "Browsers allow the microphone only on HTTPS pages and on pages of this machine. Open this page with https, or as localhost.", "mic.refused": "The microphone is not allowed. Allow it for this page in the browser's settings, then press again.",
    "mic.missing": "No microphone was found. Connect one, then press again.", "mic.busy": "Another program uses the microphone. Close it, then press again.", "mic.failed": "The microphone does not work: {why}", "mic.none": "Nothing was heard. Speak louder, or closer to the microphone.",
    "missing.silence_detected": "No speech was found.", "missing.gap_timeout": "The translation took too long. Please say it again.", "missing.no_capable_node": "{pair} is not available now.", "missing.all_nodes_busy": "All translation nodes are busy. Please say it again.",
    "missing.job_failed": "The translation failed. Please say it again.", "missing.cancelled": "Cancelled.", "missing.dependency_down": "The service is disturbed at the moment. Please say it again.", "missing.draining": "The service is restarting. Please say it again.", "missing.other": "No translation: {why}",
    "dropped.memory": "Too much audio waits to be sent. The last words were dropped.", "dropped.stale": "Audio that was too old was not sent again.", "dropped.scheduler": "The service could not take the last words.", "dropped.closed": "The conversation has ended. This was not sent.",
    "busy": "The connection is slow. What you say is sent a little later.", "sound.failed": "The translation could not be played: {why}",
    "past": "What was said", "past.empty": "Nothing yet.", "past.clear": "Clear", "past.replay": "Play again", "past.took": "{time} after the last word", "past.took.note": "Time from the last word to the translation", "past.played": "played",
    "token.title": "Access token required", "token.label": "Token", "token.go": "Open", "token.how": "Ask the operator of this service for a token.", "token.operator": "Operators create one with the signing key. It is valid for 15 minutes:", "token.kept": "It stays in the memory of this page, and is gone when you reload or close it.",
    "token.needed": "This service requires a token.", "token.wrong": "This token is not valid here.", "token.expired": "The token has expired. Enter a newer one to continue.", "token.role": "The token is valid, but its role is not session.",
  },
  zh: {
    "skip": "跳到按钮", "lang": "页面语言", "theme": "主题", "theme.auto": "跟随系统", "theme.light": "浅色", "theme.dark": "深色",
    "middle": "对话设置", "swap": "交换两种语言", "auto": "免按", "auto.how": "麦克风保持开启。一方停下来，就轮到另一方。", "flip": "面对面",
    "side.a": "我", "side.b": "对面的人", "speaks": "说", "served": "现在可用", "others": "其他语言",
    "talk": "说话", "talk.how": "按住说话；或点一下，说完停下即可。",
    "type": "也可以在这里输入", "type.send": "翻译", "type.lost": "没有连接，文字没有发送，请稍后再试。",
    "listening": "正在听…", "waiting": "请说话…", "translating": "正在翻译…", "playing": "正在播放…", "idle": "",
    "hint": "按住按钮说话。", "hint.other": "译文显示在这里。",
    "state.connecting": "正在连接…", "state.open": "就绪", "state.reconnecting": "正在重新连接…", "state.locked": "需要令牌", "state.closing": "正在结束…", "state.closed": "已结束", "state.idle": "正在启动…",
    "banner.lost": "连接已断开。请继续说：内容会保留，恢复后翻译。", "banner.never": "服务没有应答，正在重试…", "banner.closed": "对话已结束：{why} 刷新页面可重新开始。",
    "again": "已重新连接，没有丢失内容。", "again.new": "已重新连接，这是新的对话；未翻译的内容会重新发送。",
    "no.nodes": "暂时无法翻译，请稍后再试。", "no.nodes.operator": "没有节点连接。可以启动一个，例如：", "no.pair": "现在不支持 {pair}。请选择其他语言，或稍后再试。",
    "mic.insecure": "浏览器只允许本机或 HTTPS 页面使用麦克风。请用 https 或 localhost 打开本页。", "mic.refused": "麦克风未被允许。请在浏览器设置中允许本页使用，然后再按一次。",
    "mic.missing": "没有麦克风。请接上后再按一次。", "mic.busy": "麦克风被其他程序占用。请关闭它，然后再按一次。", "mic.failed": "麦克风无法使用：{why}", "mic.none": "没有听到声音。请大声些，或靠近麦克风。",
    "missing.silence_detected": "没有听到说话。", "missing.gap_timeout": "翻译超时，请再说一次。", "missing.no_capable_node": "现在不支持 {pair}。", "missing.all_nodes_busy": "翻译节点都在忙，请再说一次。",
    "missing.job_failed": "翻译失败，请再说一次。", "missing.cancelled": "已取消。", "missing.dependency_down": "服务暂时异常，请再说一次。", "missing.draining": "服务正在重启，请再说一次。", "missing.other": "没有译文：{why}",
    "dropped.memory": "等待发送的内容太多，最后的话没有保留。", "dropped.stale": "时间过久的语音没有重新发送。", "dropped.scheduler": "服务无法接收最后的话。", "dropped.closed": "对话已结束，这句话没有发送。",
    "busy": "连接较慢，您说的话会稍后发送。", "sound.failed": "译文无法播放：{why}",
    "past": "对话记录", "past.empty": "还没有内容。", "past.clear": "清空", "past.replay": "再放一次", "past.took": "说完后 {time}", "past.took.note": "从最后一个字到译文的时间", "past.played": "已播放",
    "token.title": "需要令牌", "token.label": "令牌", "token.go": "打开", "token.how": "请向服务的运营者索取令牌。", "token.operator": "运营者可用签名密钥生成，有效期 15 分钟：", "token.kept": "令牌只保存在本页内存中，刷新或关闭页面后即消失。",
    "token.needed": "此服务需要令牌。", "token.wrong": "此令牌在这里无效。", "token.expired": "令牌已过期，请输入新的令牌。", "token.role": "令牌有效，但角色不是 session。",
  },
};

let lang = "en";

export const language = () => lang;

export function setLanguage(wanted) {
  lang = WORDS[wanted] ? wanted : "en";
  document.documentElement.lang = lang === "zh" ? "zh-CN" : "en";
}

// In the language of the page, or in another one if there are words in it.
export function t(key, values = {}, within = lang) {
  const text = (WORDS[within] ?? WORDS[lang])[key] ?? WORDS.en[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (all, name) => values[name] ?? all);
}

export const has = (key) => key in WORDS.en;

// Every element that has a word or a label gets it in the language of the page.
export function translate(root = document, within = lang) {
  for (const node of root.querySelectorAll("[data-word]")) node.textContent = t(node.dataset.word, {}, within);
  for (const node of root.querySelectorAll("[data-label]")) {
    node.setAttribute("aria-label", t(node.dataset.label, {}, within));
    if (node.tagName === "BUTTON") node.title = t(node.dataset.label, {}, within);
  }
}

export function span(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return `${(ms / 1000).toLocaleString(lang === "zh" ? "zh-CN" : "en", { maximumFractionDigits: 1 })} s`;
}

export function clock(ms) {
  const parts = { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false };
  return new Date(ms).toLocaleTimeString(lang === "zh" ? "zh-CN" : "en-GB", parts);
}
