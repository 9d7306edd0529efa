// Subscribes lite topics and sends to them as its input says, handles messages as their bodies say, and prints what
// happens; see the README beside the languages.
import { writeSync } from 'node:fs';
import { createInterface } from 'node:readline';
import * as client from 'rocketmq-client-nodejs';

const { ConsumeResult, ConsumeResultSuspend, LitePushConsumerBuilder, OffsetOption, Producer } = client;
const PAUSE_MS = 3_000;

// The client's default logger is one file for the whole process, and the first client that shuts down closes it.
const quiet = () => {};
const logger = { debug: quiet, info: quiet, warn: console.error, error: console.error, close: quiet };

const deliveries = new Map();
let release;
const released = new Promise(resolve => {
  release = resolve;
});

async function main(endpoint, kind, topic, group) {
  const options = { endpoints: endpoint, namespace: '', sslEnabled: false, logger };
  const consumer = await new LitePushConsumerBuilder()
    .setClientConfiguration(options)
    .setConsumerGroup(group)
    .bindTopic(topic)
    // Without it the lite topics of one batch wait for each other.
    .setEnableFifoConsumeAccelerator(true)
    .setMessageListener({ consume })
    .build();
  show('ready');
  const commands = commandsOf(consumer, topic, options);
  for await (const line of createInterface({ input: process.stdin })) {
    const [command, ...words] = line.split('\t');
    if (command === 'release') {
      release();
      continue;
    }
    try {
      show('done', command, ...await commands[command](...words) ?? []);
    } catch (error) {
      console.error(line, error);
      show('refused', command, error.name, error.code ?? '-');
    }
  }
  process.exit(0);
}

function commandsOf(consumer, topic, options) {
  let producer;
  return {
    async subscribe(name, option, value) {
      await consumer.subscribeLite(name, option && offset(option, value));
    },
    async unsubscribe(name) {
      await consumer.unsubscribeLite(name);
    },
    async topics() {
      return [[...consumer.getLiteTopicSet()].sort().join(',')];
    },
    async send(liteTopic, body) {
      if (!producer) {
        producer = new Producer({ ...options, topics: [topic] });
        await producer.startup();
      }
      await producer.send({ topic, liteTopic, body: Buffer.from(body) });
    },
  };
}

function offset(option, value) {
  switch (option) {
    case 'last':
      return OffsetOption.LAST_OFFSET;
    case 'min':
      return OffsetOption.MIN_OFFSET;
    case 'max':
      return OffsetOption.MAX_OFFSET;
    case 'offset':
      return OffsetOption.ofOffset(Number(value));
    case 'tail':
      return OffsetOption.ofTailN(Number(value));
    default:
      return OffsetOption.ofTimestamp(Number(value));
  }
}

async function consume(message) {
  const body = message.body.toString();
  show('got', message.liteTopic, body, message.deliveryAttempt);
  const delivery = (deliveries.get(body) ?? 0) + 1;
  deliveries.set(body, delivery);
  if (body.includes('-held-')) {
    await released;
  }
  const [kind, times] = body.split('-');
  if (kind === 'poison' || (kind === 'fail' && delivery <= Number(times))) {
    show('failed', message.liteTopic, body);
    return ConsumeResult.FAILURE;
  }
  if (kind === 'suspend' && delivery <= Number(times)) {
    show('suspended', message.liteTopic, body);
    return ConsumeResultSuspend.of(PAUSE_MS);
  }
  show('ok', message.liteTopic, body);
  return ConsumeResult.SUCCESS;
}

function show(...words) {
  writeSync(1, `${process.pid}\t${words.join('\t')}\n`);
}

if (process.argv.length !== 6 || process.argv[3] !== 'push') {
  console.error('usage: lite.mjs ENDPOINT push TOPIC GROUP');
  process.exit(2);
}
try {
  await main(...process.argv.slice(2));
} catch (error) {
  console.error(error);
  process.exit(1);
}
