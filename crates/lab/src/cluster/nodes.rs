//! What one node knows of all: the table of `CLUSTER NODES`.

use std::ops::RangeInclusive;

use anyhow::{Context, bail};

/// One line: a node as the one that was asked sees it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub id: String,
    /// The line of the node that was asked.
    pub myself: bool,
    /// Met, addressed and not suspected of being down.
    pub settled: bool,
    /// The id of the primary that a replica follows.
    pub primary: Option<String>,
    /// Higher for the later of two elections.
    pub epoch: u64,
    slots: Vec<RangeInclusive<u16>>,
}

impl Node {
    pub fn is_primary(&self) -> bool {
        self.primary.is_none()
    }

    pub fn owns(&self, slot: u16) -> bool {
        self.slots.iter().any(|range| range.contains(&slot))
    }

    pub fn owns_any(&self) -> bool {
        !self.slots.is_empty()
    }
}

pub(super) fn parse_nodes(table: &str) -> anyhow::Result<Vec<Node>> {
    table
        .lines()
        .map(|line| parse_node(line).with_context(|| format!("a line of CLUSTER NODES: {line}")))
        .collect()
}

/// `id host:port@bus flags primary ping-sent pong-received epoch link slot...`
fn parse_node(line: &str) -> anyhow::Result<Node> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [id, _addr, flags, primary, _ping, _pong, epoch, _link, slots @ ..] = words.as_slice()
    else {
        bail!("fewer than eight words");
    };
    let has = |flag: &str| flags.split(',').any(|one| one == flag);
    Ok(Node {
        id: (*id).to_owned(),
        myself: has("myself"),
        settled: !["handshake", "noaddr", "fail", "fail?"].into_iter().any(has),
        primary: has("slave").then(|| (*primary).to_owned()),
        epoch: epoch.parse().context("no epoch")?,
        // A slot on the move stands in brackets beside the range that still holds it.
        slots: slots
            .iter()
            .filter(|word| !word.starts_with('['))
            .map(|word| parse_range(word))
            .collect::<anyhow::Result<_>>()?,
    })
}

fn parse_range(word: &str) -> anyhow::Result<RangeInclusive<u16>> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    Ok(first.parse()?..=last.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_with_roles_ranges_and_slots_on_the_move() {
        let nodes = parse_nodes(
            "aa 127.0.0.1:1@2 myself,master - 0 0 7 connected 0-5 9 [9->-bb]\n\
             bb 127.0.0.1:3@4,host slave,fail? aa 0 1700 3 connected\n",
        )
        .unwrap();
        let [first, second] = nodes.as_slice() else { panic!("{nodes:?}") };
        assert!(first.myself && first.is_primary() && first.settled && first.epoch == 7);
        assert!(first.owns(5) && !first.owns(6) && first.owns(9) && first.owns_any());
        assert!(!second.myself && !second.settled && !second.owns_any());
        assert_eq!(second.primary.as_deref(), Some("aa"));
        assert!(parse_nodes("aa 127.0.0.1:1@2 master\n").is_err());
    }
}
