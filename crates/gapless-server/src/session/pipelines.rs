//! What keeps a send from overtaking one before it that failed.

use std::collections::BTreeMap;

use gapless_proto::ConvId;

/// The sends of one connection that are under way, and the generation that each conversation's go out under.
///
/// A client sends B without waiting for A. If the commit that held A fails while B is already waiting for the next one, B must fail
/// too: the client will send A again, and it would come after B. So all sends that are under way at the same time go out
/// under the generation from before the first of them, and the store refuses those whose generation is over.
#[derive(Debug)]
pub(super) struct Pipelines<G> {
    by_conv: BTreeMap<ConvId, Pipeline<G>>,
    sends: usize,
}

#[derive(Debug)]
struct Pipeline<G> {
    generation: G,
    sends: usize,
}

impl<G: Copy> Pipelines<G> {
    pub(super) fn new() -> Self {
        Self { by_conv: BTreeMap::new(), sends: 0 }
    }

    /// Begins a send. Returns the generation that it goes out under: `present` only if no other of this conversation is
    /// under way.
    pub(super) fn begin(&mut self, conv: &ConvId, present: G) -> G {
        self.sends += 1;
        let pipeline = self.by_conv.entry(conv.clone()).or_insert(Pipeline { generation: present, sends: 0 });
        pipeline.sends += 1;
        pipeline.generation
    }

    /// Ends a send, however it went.
    pub(super) fn end(&mut self, conv: &ConvId) {
        let Some(pipeline) = self.by_conv.get_mut(conv) else {
            return;
        };
        self.sends -= 1;
        pipeline.sends -= 1;
        if pipeline.sends == 0 {
            self.by_conv.remove(conv);
        }
    }

    /// How many sends are under way.
    pub(super) fn sends(&self) -> usize {
        self.sends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Behaviour 12
    #[test]
    fn sends_that_are_under_way_together_go_out_under_one_generation() {
        let mut pipelines = Pipelines::new();
        assert_eq!(pipelines.begin(&conv("c"), 1), 1);
        assert_eq!(pipelines.begin(&conv("c"), 2), 1);
        pipelines.end(&conv("c"));
        assert_eq!(pipelines.begin(&conv("c"), 3), 1);
        assert_eq!(pipelines.begin(&conv("d"), 3), 3);
        assert_eq!(pipelines.sends(), 3);
    }

    #[test]
    fn once_all_are_answered_the_next_send_takes_the_present_generation() {
        let mut pipelines = Pipelines::new();
        pipelines.begin(&conv("c"), 1);
        pipelines.begin(&conv("c"), 1);
        pipelines.end(&conv("c"));
        pipelines.end(&conv("c"));
        assert_eq!(pipelines.sends(), 0);
        assert_eq!(pipelines.begin(&conv("c"), 2), 2);
    }

    fn conv(name: &str) -> ConvId {
        ConvId::new(name).unwrap()
    }
}
