//! The names of topics, as subscriptions give them.

use gapless_proto::{ChainId, Topic};

/// A topic of a chain: `chain:1:transfers` is the topic `transfers` of the chain 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TopicName {
    /// The chain.
    pub(crate) chain: ChainId,
    /// The topic, as the chain's feed names it.
    pub(crate) topic: Topic,
}

/// Why a name is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TopicNameError {
    /// It isn't of this form.
    #[error(
        "`{0}` is no topic; one of a chain is named as in `chain:1:transfers`, that of a table as in `table:orders`"
    )]
    Form(String),
    /// They are of several chains.
    #[error("the topics of one subscription are of one chain; subscribe to `{0}` apart")]
    OtherChain(Topic),
    /// There are none, or too many.
    #[error("a subscription has 1 to {TOPICS_MAX} topics; this one has {0}")]
    Count(usize),
}

/// How many topics a subscription may have.
const TOPICS_MAX: usize = 64;

impl TopicName {
    /// Reads a name.
    pub(crate) fn parse(name: &Topic) -> Result<Self, TopicNameError> {
        let form = || TopicNameError::Form(name.as_str().chars().take(60).collect());
        let rest = name.as_str().strip_prefix("chain:").ok_or_else(form)?;
        let (chain, topic) = rest.split_once(':').ok_or_else(form)?;
        Ok(Self { chain: chain.parse().map_err(|_| form())?, topic: Topic::new(topic).map_err(|_| form())? })
    }

    /// Reads the names of one subscription, which are of one chain.
    pub(crate) fn parse_all(names: &[Topic]) -> Result<(ChainId, Vec<Topic>), TopicNameError> {
        let count = || TopicNameError::Count(names.len());
        let first = Self::parse(names.first().ok_or_else(count)?)?;
        if names.len() > TOPICS_MAX {
            return Err(count());
        }
        let mut topics = Vec::with_capacity(names.len());
        for name in names {
            let parsed = Self::parse(name)?;
            if parsed.chain != first.chain {
                return Err(TopicNameError::OtherChain(name.clone()));
            }
            topics.push(parsed.topic);
        }
        topics.sort_unstable();
        topics.dedup();
        Ok((first.chain, topics))
    }

    /// The whole name of a topic of a chain.
    ///
    /// # Panics
    ///
    /// Never for a topic that was taken in, which is short enough.
    pub(crate) fn whole(chain: ChainId, topic: &Topic) -> Topic {
        Topic::new(&format!("chain:{chain}:{topic}")).unwrap_or_else(|_| topic.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topics(names: &[&str]) -> Vec<Topic> {
        names.iter().map(|name| Topic::new(name).unwrap()).collect()
    }

    #[test]
    fn a_topic_is_named_by_its_chain_and_its_name_there() {
        let (chain, own) = TopicName::parse_all(&topics(&["chain:1:b", "chain:1:a:x", "chain:1:b"])).unwrap();
        assert_eq!((chain.get(), own), (1, topics(&["a:x", "b"])));
        assert_eq!(TopicName::whole(chain, &topics(&["a:x"])[0]).as_str(), "chain:1:a:x");
    }

    #[test]
    fn what_is_no_topic_of_one_chain_is_refused() {
        for name in ["transfers", "chain:", "chain:x:a", "chain:1", "chain:1:", "table:orders"] {
            let error = TopicName::parse_all(&topics(&[name])).unwrap_err();
            assert!(error.to_string().contains("chain:1:transfers"), "{error}");
        }
        let other = TopicName::parse_all(&topics(&["chain:1:a", "chain:2:a"])).unwrap_err();
        assert_eq!(other, TopicNameError::OtherChain(topics(&["chain:2:a"])[0].clone()));
        assert_eq!(TopicName::parse_all(&[]), Err(TopicNameError::Count(0)));
        let many: Vec<_> = (0..65).map(|number| format!("chain:1:{number}")).collect();
        let many = topics(&many.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(TopicName::parse_all(&many), Err(TopicNameError::Count(65)));
    }
}
