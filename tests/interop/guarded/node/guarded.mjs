// Sends, receives and acknowledges as its input says, with TLS and credentials as its environment says; see the README
// beside the languages.
import { writeSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { Producer, SimpleConsumer } from 'rocketmq-client-nodejs';

const AWAIT_MS = 5000;
const INVISIBLE_MS = 30000;
const BATCH = 16;

// The client's default logger is one file for the whole process, and the first client that shuts down closes it.
const quiet = () => {};
const logger = { debug: quiet, info: quiet, warn: console.error, error: console.error, close: quiet };

const { TLS, ACCESS_KEY, ACCESS_SECRET } = process.env;
const [endpoints, topic, consumerGroup] = process.argv.slice(2);
const options = {
  endpoints,
  namespace: '',
  logger,
  sslEnabled: TLS === 'on',
  // Without credentials the client signs nothing.
  ...(ACCESS_KEY ? { sessionCredentials: { accessKey: ACCESS_KEY, accessSecret: ACCESS_SECRET } } : {}),
};

let producer;
let consumer;

const commands = {
  async producer() {
    producer = new Producer({ ...options, topics: [topic] });
    await producer.startup();
  },
  async consumer() {
    const subscriptions = new Map([[topic, '*']]);
    consumer = new SimpleConsumer({ ...options, consumerGroup, subscriptions, awaitDuration: AWAIT_MS });
    await consumer.startup();
  },
  async send(body) {
    await producer.send({ topic, body: Buffer.from(body) });
  },
  async receive() {
    for (const message of await consumer.receive(BATCH, INVISIBLE_MS)) {
      await attempt('ack', message.body.toString(), () => consumer.ack(message));
    }
  },
};

// Does a step and prints its outcome.
async function attempt(step, body, action) {
  try {
    await action();
    show({ step, body, code: 0, error: '' });
  } catch (error) {
    // Not all errors of the client have the status code as a field.
    show({ step, body, code: Number(/code[=:] ?(\d{5})/.exec(String(error))?.[1] ?? 0), error: String(error) });
  }
}

function show(outcome) {
  writeSync(1, `${JSON.stringify(outcome)}\n`);
}

if (process.argv.length !== 5) {
  console.error('usage: guarded.mjs ENDPOINT TOPIC GROUP');
  process.exit(2);
}
for await (const line of createInterface({ input: process.stdin })) {
  const [command, body] = line.split(' ');
  await attempt(command, body ?? '', () => commands[command](body));
}
process.exit(0);
