//! Sends messages, then receives and acks them with a simple consumer. The crate has no push consumer.

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::time::Duration;

use rocketmq::conf::{ClientOption, ProducerOption, SimpleConsumerOption};
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::MessageBuilder;
use rocketmq::{Producer, SimpleConsumer};

const DEADLINE: Duration = Duration::from_secs(60);
const INVISIBLE: Duration = Duration::from_secs(30);
const BATCH: i32 = 32;

struct Example {
    endpoint: String,
    topic: String,
    group: String,
    count: usize,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [endpoint, topic, group, count] = arguments.as_slice() else {
        return Err("usage: example ENDPOINT TOPIC GROUP COUNT".into());
    };
    let example = Example {
        endpoint: endpoint.clone(),
        topic: topic.clone(),
        group: group.clone(),
        count: count.parse()?,
    };
    tokio::time::timeout(DEADLINE, example.run())
        .await
        .map_err(|_| format!("not done within {} s", DEADLINE.as_secs()))?
}

impl Example {
    async fn run(&self) -> Result<(), Box<dyn Error>> {
        let ids = self.send().await?;
        let received = self.receive(&ids).await?;
        println!("sent {}\nreceived {received}\nacked {received}", ids.len());
        println!("pushed unsupported: rocketmq 5.0.0 has no push consumer");
        Ok(())
    }

    fn client_option(&self) -> ClientOption {
        // The polling time stays at its default of 40 s: the crate takes it for the call's deadline too, and a shorter
        // one leaves the server no time to answer an empty poll.
        let mut option = ClientOption::default();
        option.set_access_url(&self.endpoint);
        option.set_enable_tls(false);
        option
    }

    async fn send(&self) -> Result<HashSet<String>, Box<dyn Error>> {
        let mut option = ProducerOption::default();
        option.set_topics(vec![&self.topic]);
        let mut producer = Producer::new(option, self.client_option())?;
        producer.start().await?;
        let mut ids = HashSet::new();
        for n in 1..=self.count {
            let message = MessageBuilder::builder()
                .set_topic(&self.topic)
                .set_tag("example")
                .set_keys(vec![format!("rust-{n}")])
                .set_properties(HashMap::from([("n", n.to_string())]))
                .set_body(format!("hello {n} from rust").into_bytes())
                .build()?;
            ids.insert(producer.send(message).await?.message_id().to_string());
        }
        producer.shutdown().await?;
        Ok(ids)
    }

    /// Receives and acks until all of `ids` were there, and tells how many that were.
    async fn receive(&self, ids: &HashSet<String>) -> Result<usize, Box<dyn Error>> {
        let mut option = SimpleConsumerOption::default();
        option.set_topics(vec![&self.topic]);
        option.set_consumer_group(&self.group);
        let mut consumer = SimpleConsumer::new(option, self.client_option())?;
        consumer.start().await?;
        let all = FilterExpression::new(FilterType::Tag, "*");
        let mut missing = ids.clone();
        while !missing.is_empty() {
            for message in consumer
                .receive_with(&self.topic, &all, BATCH, INVISIBLE)
                .await?
            {
                consumer.ack(&message).await?;
                missing.remove(message.message_id());
            }
        }
        consumer.shutdown().await?;
        Ok(ids.len())
    }
}
