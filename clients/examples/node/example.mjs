// Sends messages, receives and acks them with a simple consumer, then has more of them pushed to a listener.
import { ConsumeResult, Producer, PushConsumer, SimpleConsumer } from 'rocketmq-client-nodejs';

const DEADLINE_MS = 60_000;
const AWAIT_MS = 5_000;
const INVISIBLE_MS = 30_000;
const BATCH = 32;

// The client's default logger is one file for the whole process, and the first client that shuts down closes it.
const quiet = () => {};
const logger = { debug: quiet, info: quiet, warn: console.error, error: console.error, close: quiet };

async function main(endpoint, topic, group, count) {
  const client = { endpoints: endpoint, namespace: '', sslEnabled: false, logger };
  const producer = new Producer({ ...client, topics: [topic] });
  await producer.startup();
  const sent = await send(producer, topic, count);
  const received = await receive(client, topic, group, sent);
  const pushed = await push(client, topic, `${group}-push`, producer, count);
  await producer.shutdown();
  console.log(`sent ${sent.size}\nreceived ${received}\nacked ${received}\npushed ${pushed}`);
}

async function send(producer, topic, count) {
  const ids = new Set();
  for (let n = 1; n <= count; n++) {
    const receipt = await producer.send({
      topic,
      tag: 'example',
      keys: [`node-${n}`],
      properties: new Map([['n', String(n)]]),
      body: Buffer.from(`hello ${n} from node`),
    });
    ids.add(receipt.messageId);
  }
  return ids;
}

// Receives and acks until all of ids were there, and tells how many that were.
async function receive(client, topic, group, ids) {
  const consumer = new SimpleConsumer({
    ...client,
    consumerGroup: group,
    subscriptions: new Map([[topic, '*']]),
    awaitDuration: AWAIT_MS,
  });
  await consumer.startup();
  const missing = new Set(ids);
  while (missing.size > 0) {
    for (const message of await consumer.receive(BATCH, INVISIBLE_MS)) {
      await consumer.ack(message);
      missing.delete(message.messageId);
    }
  }
  await consumer.shutdown();
  return ids.size;
}

// Sends once more and waits until the listener had all of these messages.
async function push(client, topic, group, producer, count) {
  const seen = new Set();
  let onMessage = () => {};
  const consumer = new PushConsumer({
    ...client,
    consumerGroup: group,
    subscriptions: new Map([[topic, '*']]),
    messageListener: {
      async consume(message) {
        seen.add(message.messageId);
        onMessage();
        return ConsumeResult.SUCCESS;
      },
    },
  });
  await consumer.startup();
  const ids = await send(producer, topic, count);
  await new Promise(resolve => {
    onMessage = () => [...ids].every(id => seen.has(id)) && resolve();
    onMessage();
  });
  await consumer.shutdown();
  return ids.size;
}

const [endpoint, topic, group, count] = process.argv.slice(2);
if (count === undefined) {
  console.error('usage: example.mjs ENDPOINT TOPIC GROUP COUNT');
  process.exit(2);
}
setTimeout(() => {
  console.error(`not done within ${DEADLINE_MS / 1000} s`);
  process.exit(1);
}, DEADLINE_MS).unref();
try {
  await main(endpoint, topic, group, Number(count));
  process.exit(0);
} catch (error) {
  console.error(error);
  process.exit(1);
}
