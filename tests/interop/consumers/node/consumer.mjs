// Consumes as the bodies of the messages say, and prints what happens; see the README beside the languages.
import { writeSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { ConsumeResult, FilterExpression, PushConsumer, SimpleConsumer } from 'rocketmq-client-nodejs';
import definition from 'rocketmq-client-nodejs/proto/apache/rocketmq/v2/definition_pb.js';

const AWAIT_MS = 5_000;
const INVISIBLE_MS = 10_000;
const AGAIN_MS = 1_000;
const BATCH = 32;

// The client's default logger is one file for the whole process, and the first client that shuts down closes it.
const quiet = () => {};
const logger = { debug: quiet, info: quiet, warn: console.error, error: console.error, close: quiet };

const deliveries = new Map();
let release;
const released = new Promise(resolve => {
  release = resolve;
});

async function main(endpoint, kind, topic, group, filter, namespace = '') {
  const options = {
    endpoints: endpoint,
    namespace,
    sslEnabled: false,
    logger,
    consumerGroup: group,
    subscriptions: new Map([[topic, expression(filter)]]),
  };
  await (kind === 'simple' ? receive(options) : listen(options));
}

function expression(filter) {
  const [language, ...rest] = filter.split(':');
  const type = language === 'sql' ? definition.FilterType.SQL : definition.FilterType.TAG;
  return new FilterExpression(rest.join(':'), type);
}

async function listen(options) {
  const consumer = new PushConsumer({
    ...options,
    // Without it, a batch of a FIFO group is handled one by one, whatever the message groups are.
    enableFifoConsumeAccelerator: true,
    messageListener: {
      async consume(message) {
        const outcome = await handle(message);
        show(outcome, message.body.toString());
        return outcome === 'ok' ? ConsumeResult.SUCCESS : ConsumeResult.FAILURE;
      },
    },
  });
  await consumer.startup();
}

async function receive(options) {
  const consumer = new SimpleConsumer({ ...options, awaitDuration: AWAIT_MS });
  await consumer.startup();
  for (;;) {
    for (const message of await consumer.receive(BATCH, INVISIBLE_MS)) {
      const outcome = await handle(message);
      if (outcome === 'ok') {
        await consumer.ack(message);
      } else if (outcome === 'failed') {
        await consumer.changeInvisibleDuration(message, AGAIN_MS);
      }
      show(outcome, message.body.toString());
    }
  }
}

async function handle(message) {
  const body = message.body.toString();
  show('got', body, message.deliveryAttempt, message.tag || '-', message.messageGroup || '-', properties(message),
    message.deliveryTimestamp?.getTime() ?? '-', Date.now());
  const delivery = (deliveries.get(body) ?? 0) + 1;
  deliveries.set(body, delivery);
  if (body.includes('-held-')) {
    await released;
  }
  const [kind, failures] = body.split('-');
  if (kind === 'forget' && delivery === 1) {
    return 'forgot';
  }
  return kind === 'poison' || (kind === 'fail' && delivery <= Number(failures)) ? 'failed' : 'ok';
}

function properties(message) {
  const pairs = [...message.properties].map(([key, value]) => `${key}=${value}`);
  return pairs.sort().join(',') || '-';
}

function show(...words) {
  writeSync(1, `${process.pid} ${words.join(' ')}\n`);
}

if (![7, 8].includes(process.argv.length)) {
  console.error('usage: consumer.mjs ENDPOINT KIND TOPIC GROUP FILTER [NAMESPACE]');
  process.exit(2);
}
// A line lets the held handlers go on; the end of the input ends the program.
createInterface({ input: process.stdin })
  .on('line', () => release())
  .on('close', () => process.exit(0));
try {
  await main(...process.argv.slice(2));
} catch (error) {
  console.error(error);
  process.exit(1);
}
