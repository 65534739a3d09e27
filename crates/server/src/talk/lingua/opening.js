// How a session is opened: what its owner may choose, and the first message.
const SUPPORTS = ["binary", "audio_ack", "resume", "events"];
/** The address of the session socket of a scheduler. */
export function sessionUrl(base) {
    const url = new URL(base);
    if (url.username || url.password || url.search)
        throw new TypeError("a scheduler's URL has no user, password or query: tokens go in the token option");
    url.protocol = url.protocol.replace("http", "ws");
    if (url.protocol !== "ws:" && url.protocol !== "wss:")
        throw new TypeError(`${base} is no http(s) or ws(s) URL`);
    if (!url.pathname.endsWith("/ws/session"))
        url.pathname = `${url.pathname.replace(/\/$/, "")}/ws/session`;
    return url.href;
}
export function firstMessage(o, direction, token, resumeToken, heard) {
    return {
        client_version: o.clientVersion ?? "lingua-web 0.1.0",
        platform: o.platform ?? "web",
        src_lang: direction.src,
        tgt_lang: direction.tgt,
        ...(direction.targets && { targets: direction.targets }),
        codec: o.codec ?? "pcm16",
        supports: SUPPORTS,
        enable_streaming_asr: o.partials ?? true,
        ...(o.pauseMs !== undefined && { pause_ms: o.pauseMs }),
        ...(o.maxUtteranceMs !== undefined && { max_utterance_ms: o.maxUtteranceMs }),
        ...(o.accept !== undefined && { accept: o.accept }),
        ...(o.profile !== undefined && { profile: o.profile }),
        ...(o.tenantId !== undefined && { tenant_id: o.tenantId }),
        ...(token && { token }),
        ...(resumeToken !== null && { resume_token: resumeToken }),
        ...(resumeToken !== null && !direction.targets && heard.lastIndex !== null && { last_index: heard.lastIndex }),
        ...(resumeToken !== null && direction.targets && { last_indexes: heard.lastIndexes }),
    };
}
