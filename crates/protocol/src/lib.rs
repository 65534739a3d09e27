//! Every message that goes over a wire, once: read, written and described by one type.
//!
//! - [`options`]: what a caller wants of a job, from the edge to the node. [`asked`]: what it asks of the node by
//!   name. [`input`]: the speech that it is wanted for.
//! - [`node`]: the messages of the node socket, which nodes over HTTP use too.
//! - [`client`]: the messages of the session socket.
//! - [`peer`]: what instances say to each other.
//! - [`catalogue`]: the services that exist.
//! - [`close`]: the codes that sockets are closed with.
//! - [`json`]: how messages are read and written. [`raw`]: the fields of a message, found and not parsed.
//! - [`fields`]: checks that many fields share.
//! - [`described`]: the schema of a message, for `/asyncapi.json`.
//!
//! Unknown fields are ignored and `null` equals absent. A refusal is a sentence that names the field.

pub mod json;
pub mod raw;
pub mod fields;
pub mod described;
pub mod options;
pub mod asked;
pub mod input;
pub mod node;
pub mod client;
pub mod peer;
pub mod catalogue;
pub mod close;

pub use input::JobInput;
pub use json::Json;
pub use lingua_core::job::Refusal;
pub use options::JobOptions;
