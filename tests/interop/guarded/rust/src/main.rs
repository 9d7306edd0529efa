//! Sends, receives and acknowledges as its input says, with TLS and credentials as its environment says; see the README
//! beside the languages.

use std::env;
use std::io::{stdin, stdout, Write};
use std::time::Duration;

use rocketmq::conf::{ClientOption, ProducerOption, SimpleConsumerOption};
use rocketmq::error::ClientError;
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::MessageBuilder;
use rocketmq::{Producer, SimpleConsumer};

const INVISIBLE: Duration = Duration::from_secs(30);
const BATCH: i32 = 16;

struct Program {
    endpoint: String,
    topic: String,
    group: String,
    producer: Option<Producer>,
    consumer: Option<SimpleConsumer>,
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [endpoint, topic, group] = arguments.as_slice() else {
        panic!("usage: guarded ENDPOINT TOPIC GROUP");
    };
    let mut program = Program {
        endpoint: endpoint.clone(),
        topic: topic.clone(),
        group: group.clone(),
        producer: None,
        consumer: None,
    };
    for line in stdin().lines().map_while(Result::ok) {
        let mut words = line.split(' ');
        let command = words.next().unwrap_or_default();
        let body = words.next().unwrap_or_default();
        let result = match command {
            "producer" => program.start_producer().await,
            "consumer" => program.start_consumer().await,
            "send" => program.send(body).await,
            "receive" => program.receive().await,
            _ => panic!("no command {command}"),
        };
        show(command, body, result);
    }
}

impl Program {
    fn client_option(&self) -> ClientOption {
        let mut option = ClientOption::default();
        option.set_access_url(&self.endpoint);
        // The crate leaves the rest of TLS to tonic: the roots of the system, or those of SSL_CERT_FILE.
        option.set_enable_tls(variable("TLS") == "on");
        if !variable("ACCESS_KEY").is_empty() {
            option.set_access_key(variable("ACCESS_KEY"));
            option.set_secret_key(variable("ACCESS_SECRET"));
        }
        option
    }

    async fn start_producer(&mut self) -> Result<(), ClientError> {
        let mut option = ProducerOption::default();
        option.set_topics(vec![&self.topic]);
        let producer = self.producer.insert(Producer::new(option, self.client_option())?);
        producer.start().await
    }

    async fn start_consumer(&mut self) -> Result<(), ClientError> {
        let mut option = SimpleConsumerOption::default();
        option.set_topics(vec![&self.topic]);
        option.set_consumer_group(&self.group);
        let consumer = self.consumer.insert(SimpleConsumer::new(option, self.client_option())?);
        consumer.start().await
    }

    async fn send(&mut self, body: &str) -> Result<(), ClientError> {
        let message = MessageBuilder::builder()
            .set_topic(&self.topic)
            .set_body(body.as_bytes().to_vec())
            .build()?;
        let producer = self.producer.as_ref().expect("a producer");
        producer.send(message).await.map(|_| ())
    }

    async fn receive(&mut self) -> Result<(), ClientError> {
        let all = FilterExpression::new(FilterType::Tag, "*");
        let consumer = self.consumer.as_ref().expect("a consumer");
        for message in consumer.receive_with(&self.topic, &all, BATCH, INVISIBLE).await? {
            show("ack", &String::from_utf8_lossy(message.body()), consumer.ack(&message).await);
        }
        Ok(())
    }
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

fn show(step: &str, body: &str, result: Result<(), ClientError>) {
    let (code, error) = match &result {
        Ok(()) => ("", String::new()),
        Err(error) => (code(error), escaped(&format!("{error:?}"))),
    };
    println!(r#"{{"step":"{step}","body":"{body}","code":"{code}","error":"{error}"}}"#);
    stdout().flush().expect("an output");
}

/// The name of the status code that the server answered, nothing if it did not.
fn code(error: &ClientError) -> &str {
    let found = error.context().iter().find(|(key, _)| *key == "code");
    found.map_or("", |(_, value)| value)
}

fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    text.replace(char::is_control, " ")
}
