//! The codes that sockets are closed with.

/// As agreed: `session_close` was answered.
pub const NORMAL: u16 = 1000;

/// The instance stops, or the session or node is served elsewhere. The reason holds `retry_after_ms`.
pub const GOING_AWAY: u16 = 1001;

/// A rule was broken: token, origin, rate, or messages that cannot be understood.
pub const POLICY: u16 = 1008;

/// A message was too large.
pub const TOO_LARGE: u16 = 1009;

/// Try again later: the store is down, a quota is used up, or the peer does not take what is sent.
pub const TRY_AGAIN: u16 = 1013;

/// A newer connection took over.
pub const SUPERSEDED: u16 = 4001;

/// The first message did not come in time.
pub const HANDSHAKE_TIMEOUT: u16 = 4002;
